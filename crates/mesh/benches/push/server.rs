//! The control plane in a process of its own.
use anyhow::{Context as _, Result};
use orrery_mesh::Peer;
use orrery_mesh::address::Endpoint;
use orrery_mesh::catalog::{Catalog as _, CatalogParts, ServiceCatalog};
use orrery_mesh::control::{Control, Options};
use orrery_mesh::grpc::{AggregatedService, EndpointService};
use orrery_mesh::names::ServiceName;
use orrery_mesh::providers::MemoryProvider;
use orrery_mesh::secrets::MemorySecrets;
use orrery_mesh::topology::{
    Backend, MemoryTopology, Service, TrafficSettings, TrafficSplit, TrafficTarget,
};
use std::net::SocketAddr;
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, Lines};
use tokio::net::{TcpListener, TcpSocket};
use tokio::process::{Child, ChildStdin, Command};
use tokio::task::JoinSet;
use tokio_stream::wrappers::TcpListenerStream;
use tokio_util::sync::CancellationToken;
use tonic::codegen::http;

/// The unit of processor time in /proc on every Linux we know.
const TICKS_PER_SECOND: u64 = 100;

pub fn service(number: usize) -> ServiceName {
    format!("mesh/s{number}").parse().expect("a service name")
}

/// What is asked of the server.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Change {
    /// One of the first service moves.
    Endpoint,
    /// The first service is divided in another way.
    Split,
    /// The second service may be called by one more, or one less.
    Target,
}

impl Change {
    const ALL: [(Self, &'static str); 3] =
        [(Self::Endpoint, "endpoint"), (Self::Split, "split"), (Self::Target, "target")];
}

/// Serves until stdin ends; each line on it says what to change.
pub async fn serve(services: usize, endpoints: u16) -> Result<()> {
    let topology = Arc::new(MemoryTopology::default());
    let provider = Arc::new(MemoryProvider::new("bench"));
    for number in 0..services {
        topology.put_service(Service {
            name: service(number),
            ports: ["http".into()].into(),
            encrypted: false,
            traffic: TrafficSettings::default(),
            declared_s: 0,
        });
        provider.set(&service(number), at(1, endpoints));
    }
    let catalog = ServiceCatalog::new(CatalogParts {
        topology: topology.clone(),
        providers: vec![provider.clone()],
        secrets: Arc::new(MemorySecrets::default()),
    });
    let (control, publisher) = Control::new(catalog.clone(), Options::default());
    let stop = CancellationToken::new();
    let mut tasks = JoinSet::new();
    tasks.spawn(catalog.clone().run(stop.clone()));
    tasks.spawn(publisher.run(stop.clone()));
    catalog.loaded().await;
    let listener = listen().context("listen")?;
    println!("{}", listener.local_addr()?);
    let plain = tower::util::MapRequestLayer::new(|mut request: http::Request<_>| {
        request.extensions_mut().insert(Peer::default());
        request
    });
    let serving = tonic::transport::Server::builder()
        .layer(plain)
        .add_service(EndpointService::new(control.clone(), stop.clone()))
        .add_service(AggregatedService::new(control, stop.clone()))
        .serve_with_incoming(TcpListenerStream::new(listener));
    tasks.spawn(async move { serving.await.expect("serve") });
    declare(&topology, Change::Split, 1);
    declare(&topology, Change::Target, 1);
    let orders = tokio::task::spawn_blocking(move || {
        let mut numbers = [1_u16; Change::ALL.len()];
        for line in std::io::stdin().lines().map_while(Result::ok) {
            let Some(index) = Change::ALL.iter().position(|(_, word)| *word == line) else {
                return;
            };
            numbers[index] += 1;
            let (change, number) = (Change::ALL[index].0, numbers[index]);
            match change {
                Change::Endpoint => provider.set(&service(0), at(number, endpoints)),
                Change::Split | Change::Target => declare(&topology, change, number),
            }
        }
    });
    orders.await.context("take orders")
}

/// As the server does it: all streams may connect at once, and none is turned away.
fn listen() -> std::io::Result<TcpListener> {
    let socket = TcpSocket::new_v4()?;
    socket.bind(SocketAddr::from(([127, 0, 0, 1], 0)))?;
    socket.listen(4096)
}

fn declare(topology: &MemoryTopology, change: Change, number: u16) {
    match change {
        Change::Endpoint => {}
        Change::Split => topology.put_split(TrafficSplit {
            name: "split".to_owned(),
            root: service(0),
            backends: [(4, 1), (5, u32::from(number))]
                .map(|(backend, weight)| Backend { service: service(backend), weight })
                .into(),
            matches: Vec::new(),
        }),
        Change::Target => topology.put_target(TrafficTarget {
            name: "target".to_owned(),
            destination: service(1),
            sources: (2..=2 + usize::from(number % 2)).map(service).collect(),
            ports: None,
            rules: None,
            connections: false,
        }),
    }
}

/// Only the first of the endpoints moves.
fn at(first_port: u16, count: u16) -> Vec<Endpoint> {
    let ports = (0..count).map(|index| if index == 0 { first_port } else { 60_000 + index });
    ports.filter_map(|port| Endpoint::of(SocketAddr::from(([10, 0, 0, 1], port)))).collect()
}

/// The process, seen from outside; killed when dropped.
pub struct Server {
    pub address: SocketAddr,
    child: Child,
    orders: ChildStdin,
    _output: Lines<BufReader<tokio::process::ChildStdout>>,
}

impl Server {
    pub async fn start(services: usize) -> Result<Self> {
        let mut child = Command::new(std::env::current_exe()?)
            .args(["serve", &services.to_string()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .context("start the server")?;
        let output = child.stdout.take().context("its output")?;
        let orders = child.stdin.take().context("its input")?;
        let mut output = BufReader::new(output).lines();
        let address = output.next_line().await?.context("the server says where it is")?.parse()?;
        Ok(Self { address, child, orders, _output: output })
    }

    pub async fn change(&mut self, change: Change) -> Result<()> {
        let word = Change::ALL.into_iter().find(|(one, _)| *one == change);
        let line = format!("{}\n", word.map(|(_, word)| word).unwrap_or_default());
        self.orders.write_all(line.as_bytes()).await.context("ask for a change")
    }

    /// User and system time so far.
    pub fn cpu(&self) -> Result<Duration> {
        let text = self.proc("stat")?;
        let after_name = text.rsplit_once(')').context("a process has a name")?.1;
        let fields: Vec<&str> = after_name.split_whitespace().collect();
        let ticks: u64 = fields[11].parse::<u64>()? + fields[12].parse::<u64>()?;
        Ok(Duration::from_millis(ticks * 1000 / TICKS_PER_SECOND))
    }

    pub fn rss_mb(&self) -> Result<f64> {
        let text = self.proc("status")?;
        let line = text.lines().find(|line| line.starts_with("VmRSS:")).context("VmRSS")?;
        let kb: f64 = line.split_whitespace().nth(1).context("a number")?.parse()?;
        Ok(kb / 1000.0)
    }

    fn proc(&self, file: &str) -> Result<String> {
        let id = self.child.id().context("the server runs")?;
        Ok(std::fs::read_to_string(format!("/proc/{id}/{file}"))?)
    }
}
