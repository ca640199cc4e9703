//! The load, and what it costs.
use crate::children::{CONTROLLER, Identities, Running};
use crate::echo::Message;
use bytes::BytesMut;
use hyper_util::rt::TokioIo;
use orrery_bench::wire::{Target, Wire};
use prost::Message as _;
use std::fmt;
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::time::Instant;
use tokio_rustls::TlsConnector;
use tonic::Request;
use tonic::client::Grpc;
use tonic::transport::{Channel, Endpoint};
use tonic_prost::ProstCodec;

const PAYLOAD: usize = 64;
const ALONE: usize = 2_000;
const TOGETHER: usize = 20_000;
const IN_FLIGHT: usize = 64;
/// Few callers that each have many calls in flight, and many that have one each.
const CONNECTIONS: [usize; 2] = [4, IN_FLIGHT];
const STREAMED: usize = 256;

#[derive(Clone)]
pub struct Client {
    port: u16,
    tls: Option<(TlsConnector, String)>,
}

trait Io: tokio::io::AsyncRead + tokio::io::AsyncWrite + Send + Unpin {}
impl<T: tokio::io::AsyncRead + tokio::io::AsyncWrite + Send + Unpin> Io for T {}

impl Client {
    pub fn new(port: u16, identities: Option<&Identities>, name: &str) -> Self {
        let connector = identities.map(|known| TlsConnector::from(known.caller.client_config()));
        Self { port, tls: connector.map(|connector| (connector, name.to_owned())) }
    }

    pub async fn channel(&self) -> Channel {
        let client = self.clone();
        let connect = tower::service_fn(move |_: http::Uri| {
            let client = client.clone();
            async move { client.dial().await.map(TokioIo::new) }
        });
        let scheme = if self.tls.is_some() { "https" } else { "http" };
        let origin = format!("{scheme}://component.registry").parse().unwrap();
        let endpoint = Endpoint::from_static("http://component.registry").origin(origin);
        let endpoint =
            endpoint.initial_stream_window_size(1 << 20).initial_connection_window_size(16 << 20);
        endpoint.connect_with_connector(connect).await.unwrap()
    }

    async fn dial(&self) -> std::io::Result<Box<dyn Io>> {
        let stream = TcpStream::connect(("127.0.0.1", self.port)).await?;
        stream.set_nodelay(true)?;
        let Some((connector, name)) = &self.tls else { return Ok(Box::new(stream)) };
        let name = name.clone().try_into().map_err(std::io::Error::other)?;
        Ok(Box::new(connector.connect(name, stream).await?))
    }
}

fn request(bytes: usize) -> Request<Message> {
    let mut request = Request::new(vec![1; bytes]);
    request.metadata_mut().insert("controllerid", CONTROLLER.parse().unwrap());
    request
}

async fn unary(grpc: &mut Grpc<Channel>) {
    grpc.ready().await.unwrap();
    let path = http::uri::PathAndQuery::from_static("/bench.Echo/Unary");
    let codec = ProstCodec::<Message, Message>::default();
    let answer = grpc.unary(request(PAYLOAD), path, codec).await.unwrap();
    assert_eq!(answer.into_inner().len(), PAYLOAD);
}

/// What one proxy did.
pub struct Figures {
    alone: Duration,
    /// For each number of connections.
    together: [Together; CONNECTIONS.len()],
    megabytes_per_second: f64,
    cpu_per_megabyte: Option<Duration>,
}

#[derive(Clone, Copy, Default)]
struct Together {
    per_second: f64,
    cpu: Option<Duration>,
}

impl fmt::Display for Figures {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = |cpu: Option<Duration>| {
            cpu.map_or_else(|| "-".to_owned(), |cpu| cpu.as_micros().to_string())
        };
        write!(out, "{}", self.alone.as_micros())?;
        for Together { per_second, cpu } in self.together {
            write!(out, " | {per_second:.0} | {}", shown(cpu))?;
        }
        write!(out, " | {:.0} | {}", self.megabytes_per_second, shown(self.cpu_per_megabyte))
    }
}

/// The names of the figures.
pub fn columns() -> String {
    let mut columns = "1 in flight, p50 us".to_owned();
    for connections in CONNECTIONS {
        columns += &format!(" | {IN_FLIGHT} on {connections} connections /s | CPU us each");
    }
    columns + " | 1 MB messages, MB/s | CPU us per MB"
}

/// Measures so many rounds, and takes the best of each.
pub async fn measure(client: &Client, proxy: Option<&Running>, rounds: usize) -> Figures {
    let mut best = Figures {
        alone: Duration::MAX,
        together: <_>::default(),
        megabytes_per_second: 0.0,
        cpu_per_megabyte: None,
    };
    let mut grpc = Grpc::new(client.channel().await);
    for _ in 0..200 {
        unary(&mut grpc).await;
    }
    for _ in 0..rounds {
        best.alone = best.alone.min(alone(&mut grpc).await);
        for (connections, best) in CONNECTIONS.into_iter().zip(&mut best.together) {
            let before = proxy.map(Running::cpu);
            best.per_second = best.per_second.max(together(client, connections).await);
            best.cpu = least(best.cpu, spent(proxy, before), TOGETHER);
        }
        let before = proxy.map(Running::cpu);
        best.megabytes_per_second = best.megabytes_per_second.max(streamed(client).await);
        best.cpu_per_megabyte = least(best.cpu_per_megabyte, spent(proxy, before), STREAMED);
    }
    best
}

fn spent(proxy: Option<&Running>, before: Option<Duration>) -> Option<Duration> {
    proxy.zip(before).map(|(proxy, before)| proxy.cpu() - before)
}

/// The smaller of what is known and what each of so many has cost now.
fn least(known: Option<Duration>, spent: Option<Duration>, count: usize) -> Option<Duration> {
    let each = spent.map(|spent| spent / u32::try_from(count).unwrap());
    [known, each].into_iter().flatten().min()
}

async fn alone(grpc: &mut Grpc<Channel>) -> Duration {
    let mut times = Vec::with_capacity(ALONE);
    for _ in 0..ALONE {
        let begun = Instant::now();
        unary(grpc).await;
        times.push(begun.elapsed());
    }
    times.sort_unstable();
    times[ALONE / 2]
}

/// One thread sends and receives: it is to be as light as it can.
async fn together(client: &Client, connections: usize) -> f64 {
    let client = client.clone();
    let load = tokio::task::spawn_blocking(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(on_wires(&client, connections))
    });
    TOGETHER as f64 / load.await.unwrap().as_secs_f64()
}

async fn on_wires(client: &Client, connections: usize) -> Duration {
    let scheme = if client.tls.is_some() { "https" } else { "http" };
    let metadata = [("controllerid", CONTROLLER)];
    let (authority, path) = ("component.registry", "/bench.Echo/Unary");
    let target = Target { scheme, authority, path, metadata: &metadata };
    let mut wires = Vec::new();
    for _ in 0..connections {
        wires.push(Wire::new(client.dial().await.unwrap(), &target).unwrap());
    }
    let message = &vec![1; PAYLOAD].encode_to_vec();
    let begun = Instant::now();
    let calls = wires.into_iter().map(|wire| {
        let mut left = TOGETHER / connections;
        let next = move |to: &mut BytesMut| {
            let more = left != 0;
            left = left.saturating_sub(1);
            to.extend_from_slice(if more { message.as_slice() } else { &[] });
            more
        };
        let check = move |answer: &[u8]| {
            anyhow::ensure!(answer == message, "another answer");
            Ok(())
        };
        wire.call_all(IN_FLIGHT / connections, next, check)
    });
    futures::future::try_join_all(calls).await.unwrap();
    begun.elapsed()
}

async fn streamed(client: &Client) -> f64 {
    let mut grpc = Grpc::new(client.channel().await);
    grpc.ready().await.unwrap();
    let path = http::uri::PathAndQuery::from_static("/bench.Echo/Stream");
    let codec = ProstCodec::<Message, Message>::default();
    let begun = Instant::now();
    let reply = grpc.server_streaming(request(STREAMED), path, codec).await.unwrap();
    let mut stream = reply.into_inner();
    let mut bytes = 0;
    while let Some(message) = stream.message().await.unwrap() {
        bytes += message.len();
    }
    assert_eq!(bytes, STREAMED << 20);
    bytes as f64 / 1e6 / begun.elapsed().as_secs_f64()
}
