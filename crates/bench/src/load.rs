//! Load from many clients at once.
use std::future::Future;
use std::time::Duration;
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
    let wall = start.elapsed();
    latencies.sort_unstable();
    Ok(Outcome { count: latencies.len(), wall, latencies })
}
