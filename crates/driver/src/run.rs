//! Keeps a driver registered for as long as it lives.
use crate::conversation::{self, Lost};
use crate::data::DataProvider;
use crate::model::Driver;
use crate::work::Work;
use rand::Rng;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;
use tonic::transport::Channel;

/// The first wait before connecting again; doubles up to the longest.
const BACKOFF_FIRST: Duration = Duration::from_millis(200);
/// A server that comes back should not have to wait long for its drivers.
const BACKOFF_LONGEST: Duration = Duration::from_secs(10);
/// A connection that held for so long was a good one: the next loss starts from the first wait.
const STABLE_AFTER: Duration = Duration::from_secs(30);
/// How long what is under way may take once the driver was asked to stop.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(30);
/// Operations at once unless told otherwise: providers throttle those who ask for much more.
pub const MAX_CONCURRENT_DEFAULT: usize = 32;

/// What a driver is, and how it works.
#[derive(Clone, Debug)]
pub struct Options {
    /// What it calls itself, for people.
    pub name: String,
    /// Group, kind and version of the classes it serves.
    pub group: String,
    pub kind: String,
    pub version: String,
    /// Operations at once.
    pub max_concurrent: usize,
    /// The release of the driver, for people.
    pub program_version: String,
    /// Different for each start; the same start connecting again replaces its older connection.
    pub instance: String,
}

impl Options {
    pub fn new(name: &str, group: &str, kind: &str, version: &str) -> Self {
        Self {
            name: name.into(),
            group: group.into(),
            kind: kind.into(),
            version: version.into(),
            max_concurrent: MAX_CONCURRENT_DEFAULT,
            program_version: env!("CARGO_PKG_VERSION").into(),
            instance: uuid::Uuid::new_v4().to_string(),
        }
    }
}

/// Registers `driver` over `channel` (see [`crate::channel`]) and serves until `stop`. A lost
/// connection is made again for ever; what was under way goes on meanwhile. After `stop` the driver
/// tells the server that it leaves and finishes what it has begun.
pub async fn run(
    options: Options,
    channel: Channel,
    driver: Arc<dyn Driver>,
    stop: CancellationToken,
) {
    let work = Work::new(driver, options.max_concurrent.max(1));
    let data = DataProvider::default();
    let mut wait = BACKOFF_FIRST;
    while !stop.is_cancelled() {
        let began = Instant::now();
        tracing::debug!(driver = options.name, "connecting");
        match serve(&options, &work, &data, &channel, &stop).await {
            Some(Ok(())) | None => break,
            Some(Err(lost)) => report(&options, &lost),
        }
        if began.elapsed() >= STABLE_AFTER {
            wait = BACKOFF_FIRST;
        }
        stop.run_until_cancelled(sleep(jittered(wait))).await;
        wait = (wait * 2).min(BACKOFF_LONGEST);
    }
    if timeout(DRAIN_TIMEOUT, work.finished()).await.is_err() {
        tracing::warn!(driver = options.name, running = work.running(), "left work unfinished");
    }
}

/// One connection; `None` if it did not end in time after `stop`.
async fn serve(
    options: &Options,
    work: &Work,
    data: &DataProvider,
    channel: &Channel,
    stop: &CancellationToken,
) -> Option<Result<(), Lost>> {
    let held = conversation::hold(options, work, data, channel.clone(), stop);
    let late = async {
        stop.cancelled().await;
        sleep(DRAIN_TIMEOUT).await;
    };
    tokio::select! {
        ended = held => Some(ended),
        () = late => None,
    }
}

fn report(options: &Options, lost: &Lost) {
    match lost {
        Lost::Refused(_) => tracing::error!(driver = options.name, %lost, "will try again"),
        Lost::Open(_) | Lost::Broken(_) | Lost::Closed | Lost::Silent(_) => {
            tracing::warn!(driver = options.name, %lost, "will connect again");
        }
    }
}

/// Between half of the wait and all of it, so that drivers do not come back all at once.
fn jittered(wait: Duration) -> Duration {
    wait.mul_f64(rand::rng().random_range(0.5..=1.0))
}
