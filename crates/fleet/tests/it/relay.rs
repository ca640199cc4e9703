//! A line between an agent and its server that is worse than a loopback: slow, or cut.
use crate::workloads::{apply, mk_workload, shop, state};
use orrery_client::Endpoint;
use orrery_hub::ObjectName;
use orrery_proto::apps::v1::{Workload, workload_spec};
use orrery_proto::infra::v1::Node;
use orrery_testkit::agent::FakeAgent;
use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::time::Duration;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

#[derive(Clone)]
pub struct Line {
    /// Once true, nothing moves any more, and nobody is told.
    pub pulled: watch::Receiver<bool>,
    /// Bytes that pass at once, and the pause after them.
    pub bytes: usize,
    pub pause: Duration,
}

/// Passes bytes on in both directions.
pub async fn relay(to: SocketAddr, line: Line) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((client, _)) = listener.accept().await {
            let server = TcpStream::connect(to).await.unwrap();
            let (client, server) = (client.into_split(), server.into_split());
            tokio::spawn(pass_on(client.0, server.1, line.clone()));
            tokio::spawn(pass_on(server.0, client.1, line.clone()));
        }
    });
    address
}

async fn cut(pulled: &mut watch::Receiver<bool>) {
    // The sender lives as long as the test.
    let _ = pulled.wait_for(|pulled| *pulled).await;
}

async fn pass_on(
    mut from: tokio::net::tcp::OwnedReadHalf,
    mut to: tokio::net::tcp::OwnedWriteHalf,
    mut line: Line,
) {
    let mut buffer = vec![0; line.bytes];
    loop {
        let len = tokio::select! {
            read = from.read(&mut buffer) => read.unwrap_or(0),
            () = cut(&mut line.pulled) => {
                // Both sockets stay open.
                return std::future::pending().await;
            }
        };
        if len == 0 || to.write_all(&buffer[..len]).await.is_err() {
            return;
        }
        tokio::time::sleep(line.pause).await;
    }
}

/// An agent behind a slow line gets everything once, is heard, and stays connected; one with a good line
/// does not notice.
///
/// proves: AGT-14
#[tokio::test]
async fn a_slow_line() {
    const WORKLOADS: usize = 60;
    let (world, transport) = shop().await;
    let (_keep, pulled) = watch::channel(false);
    let server = world.url.trim_start_matches("http://").parse().unwrap();
    let line = Line { pulled, bytes: 2048, pause: Duration::from_millis(5) };
    let relay = relay(server, line).await;
    let endpoint = Endpoint::new(&format!("http://{relay}"), None).unwrap();
    let mut far = FakeAgent::connect(&endpoint, "far").await.unwrap();
    let mut near = FakeAgent::connect(&transport, "near").await.unwrap();
    for number in 0..WORKLOADS {
        let mut workload = mk_workload(&format!("w-{number}"), &["far"]);
        if let Some(workload_spec::Runtime::Process(process)) =
            &mut workload.spec.as_mut().unwrap().runtime
        {
            let large = (0..8).map(|part| (format!("PART_{part}"), "x".repeat(1000)));
            process.env.extend(large);
        }
        apply(&world, &workload).await;
    }
    apply(&world, &mk_workload("quick", &["near"])).await;
    let quick = near.assignment().await;
    near.report(&quick.id, "Running", quick.generation).await;
    let running = |w: &Workload| state(w) == "Running";
    world.until::<Workload>(&ObjectName::new("shop", "quick"), running).await;
    let mut seen = BTreeSet::new();
    while seen.len() < WORKLOADS {
        let copy = far.assignment().await;
        assert!(seen.insert(copy.id.clone()), "told twice: {}", copy.name);
        far.report(&copy.id, "Running", copy.generation).await;
    }
    for number in 0..WORKLOADS {
        let name = ObjectName::new("shop", format!("w-{number}"));
        world.until::<Workload>(&name, running).await;
    }
    let first = |node: &Node| node.status.as_ref().is_some_and(|status| status.session_epoch == 1);
    let node = world.until::<Node>(&ObjectName::new("", "far"), first).await;
    assert_eq!(node.status.unwrap().state, "Ready", "one connection for all of it");
    world.stop().await;
}
