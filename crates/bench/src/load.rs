//! Load from many clients at once.
use crate::wire::{Talk, Target, Wire};
use anyhow::Context as _;
use futures::future::try_join_all;
use std::future::Future;
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::Instant;

/// How it went.
#[derive(Clone, Debug)]
pub struct Outcome {
    pub count: usize,
    pub wall: Duration,
    /// Sorted.
    pub latencies: Vec<Duration>,
}

impl Outcome {
    fn new(mut latencies: Vec<Duration>, wall: Duration) -> Self {
        latencies.sort_unstable();
        Self { count: latencies.len(), wall, latencies }
    }

    pub fn per_second(&self) -> f64 {
        self.count as f64 / self.wall.as_secs_f64()
    }

    /// The latency that this share of the requests stayed below.
    pub fn percentile(&self, share: f64) -> Duration {
        let last = self.latencies.len().saturating_sub(1);
        let place = (last as f64 * share).round() as usize;
        self.latencies.get(place).copied().unwrap_or_default()
    }
}

/// When it ends.
#[derive(Clone, Copy, Debug)]
pub enum Until {
    Time(Duration),
    /// So many requests of all clients together.
    Count(usize),
}

/// Clients that each send one request after the other. Requests are numbered over all of them.
pub async fn run<C, F, Fut>(clients: Vec<C>, until: Until, request: F) -> anyhow::Result<Outcome>
where
    C: Send + 'static,
    F: Fn(C, usize) -> Fut + Clone + Send + 'static,
    Fut: Future<Output = anyhow::Result<C>> + Send,
{
    let start = Instant::now();
    let mut running = JoinSet::new();
    let many = clients.len();
    for (number, mut client) in clients.into_iter().enumerate() {
        let request = request.clone();
        running.spawn(async move {
            let mut latencies = Vec::new();
            let mut sequence = number;
            while match until {
                Until::Time(time) => start.elapsed() < time,
                Until::Count(count) => sequence < count,
            } {
                let sent = Instant::now();
                client = request(client, sequence).await?;
                latencies.push(sent.elapsed());
                sequence += many;
            }
            anyhow::Ok(latencies)
        });
    }
    let mut latencies = Vec::new();
    while let Some(ended) = running.join_next().await {
        latencies.extend(ended??);
    }
    Ok(Outcome::new(latencies, start.elapsed()))
}

/// Does it on one thread, apart from those that the servers' clients run on.
pub async fn apart<T, F>(work: F) -> anyhow::Result<T>
where
    T: Send + 'static,
    F: AsyncFnOnce() -> anyhow::Result<T> + Send + 'static,
{
    let load = tokio::task::spawn_blocking(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        runtime.block_on(work())
    });
    load.await.context("the thread of the load")?
}

/// A method of a server that is called with the same kind of message over and over.
#[derive(Clone, Debug)]
pub struct Method {
    pub address: String,
    pub path: String,
}

impl Method {
    /// Clients with connections of their own that each send one call after the other, for so long. The
    /// messages are numbered over all of them. One thread does it all, apart from the servers' own.
    pub async fn called(
        self,
        clients: usize,
        time: Duration,
        message: impl Fn(usize) -> Vec<u8> + Send + 'static,
    ) -> anyhow::Result<Outcome> {
        apart(async move || self.call(clients, time, &message).await).await
    }

    /// One stream of messages, on a connection of its own.
    pub async fn talk(&self) -> anyhow::Result<Talk<TcpStream>> {
        Talk::new(self.connect().await?, &self.target())
    }

    fn target(&self) -> Target<'_> {
        let Self { address, path } = self;
        Target { scheme: "http", authority: address, path, metadata: &[] }
    }

    async fn connect(&self) -> anyhow::Result<TcpStream> {
        let tcp = TcpStream::connect(&self.address).await?;
        tcp.set_nodelay(true)?;
        Ok(tcp)
    }

    async fn call(
        &self,
        clients: usize,
        time: Duration,
        message: &impl Fn(usize) -> Vec<u8>,
    ) -> anyhow::Result<Outcome> {
        let mut wires = Vec::new();
        for _ in 0..clients {
            wires.push(Wire::new(self.connect().await?, &self.target())?);
        }
        let start = Instant::now();
        let calls = wires.into_iter().enumerate().map(|(number, wire)| {
            let mut sequence = number;
            let next = move |to: &mut bytes::BytesMut| {
                let more = start.elapsed() < time;
                if more {
                    to.extend_from_slice(&message(sequence));
                }
                sequence += clients;
                more
            };
            wire.call_all(1, next, |_| Ok(()))
        });
        let latencies = try_join_all(calls).await?.concat();
        Ok(Outcome::new(latencies, start.elapsed()))
    }
}
