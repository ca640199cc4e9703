//! What a proxy that is disabled changes for the others, and what each proxy shows of itself.
use super::*;
use crate::topology::Revoked;

const LISTEN: u16 = 7;

fn join(world: &World, service: &str, proxy: &str, inbound: bool) -> StreamHandle {
    let at = |port: u16| SocketAddr::from(([127, 0, 0, 1], port));
    let front = Inbound { port: None, listen: at(LISTEN), instance: at(LISTEN + 1) };
    let inbound = inbound.then_some(front).into_iter().collect();
    let joined = world.control.join(Admission {
        service: name(service),
        name: proxy.parse().unwrap(),
        instance: proxy.to_owned(),
        address: None,
        protocol: Protocol::StateOfTheWorld,
        sides: Some(Sides { inbound, ..Sides::outbound(at(1)) }),
        endpoints: Vec::new(),
    });
    joined.expect("there is room")
}

fn encrypt(world: &World, service: &str) {
    world.topology.put_service(Service {
        name: name(service),
        ports: ["http".into()].into(),
        encrypted: true,
        traffic: TrafficSettings::default(),
        declared_s: 0,
    });
}

fn revoke(world: &World, names: &[&str]) {
    let all: Revoked = names.iter().map(|name| name.parse().unwrap()).collect();
    world.topology.revoke(all);
}

/// Has everything of one kind.
async fn with(stream: StreamHandle, kind: Kind) -> (StreamHandle, Push) {
    ask(&stream, kind, &[]);
    let first = pushed(&stream).await;
    acknowledge(&stream, &first, &[]);
    (stream, first)
}

async fn is_left_alone(stream: &StreamHandle) -> bool {
    let waiting = tokio::time::timeout(Duration::from_secs(60), stream.changed()).await;
    waiting.is_err()
}

/// proves: MSH-07
#[tokio::test(start_paused = true)]
async fn a_proxy_that_is_disabled_concerns_the_listeners_it_may_reach() {
    let world = World::start(4).await;
    for service in ["books", "bank"] {
        encrypt(&world, service);
    }
    world.topology.put_target(TrafficTarget {
        name: "bank".to_owned(),
        destination: name("bank"),
        sources: [name("books")].into(),
        ports: None,
        rules: None,
        connections: false,
    });
    tokio::time::sleep(Duration::from_secs(1)).await;
    let books = join(&world, "books", "books.default", true);
    let (books, open) = with(books, Kind::Listener).await;
    let (bank, _) = with(join(&world, "bank", "bank.default", true), Kind::Listener).await;
    let revoked_at = tokio::time::Instant::now();
    revoke(&world, &["web.default"]);
    let closed = pushed(&books).await;
    assert_eq!((closed.kind, &*closed.changed), (Kind::Listener, &["inbound".into()][..]));
    assert!(revoked_at.elapsed() <= Duration::from_secs(1), "within a second");
    acknowledge(&books, &closed, &[]);
    assert!(is_left_alone(&bank).await, "web may not call it anyhow");
    revoke(&world, &[]);
    let again = pushed(&books).await;
    assert_eq!(again.version, open.version, "as it was before, to the byte");
}

/// proves: MSH-07
#[tokio::test(start_paused = true)]
async fn nobody_sends_to_a_proxy_that_is_disabled() {
    let world = World::start(4).await;
    encrypt(&world, "books");
    tokio::time::sleep(Duration::from_secs(1)).await;
    let (web, first) = with(join(&world, "web", "web.default", false), Kind::Cluster).await;
    revoke(&world, &["books.default.i-1"]);
    let second = pushed(&web).await;
    assert_eq!((second.kind, &*second.changed), (Kind::Cluster, &["default/books".into()][..]));
    acknowledge(&web, &second, &[]);
    revoke(&world, &[]);
    assert_eq!(pushed(&web).await.version, first.version);
}

/// So that one of them can be disabled and the others go on.
///
/// proves: MSH-02, MSH-07
#[tokio::test(start_paused = true)]
async fn a_proxy_with_a_name_of_its_own_shows_that_to_others() {
    let world = World::start(4).await;
    let set = |proxy: &str| {
        let bundle = crate::secrets::CertificateBundle {
            certificate_chain: format!("of {proxy};"),
            private_key: "key".to_owned(),
            roots: "roots".to_owned(),
        };
        world.secrets.set(&proxy.parse().unwrap(), bundle);
    };
    for proxy in ["web.default", "web.default.i-1", "web.default.i-2"] {
        set(proxy);
    }
    for proxy in ["web.default", "web.default.i-1"] {
        let stream = join(&world, "web", proxy, false);
        ask(&stream, Kind::Secret, &[crate::envoy::CERTIFICATE_NAME]);
        let shown = pushed(&stream).await;
        let text = String::from_utf8_lossy(&shown.resources[0].any).into_owned();
        assert!(text.contains(&format!("of {proxy};")), "{text}");
    }
}
