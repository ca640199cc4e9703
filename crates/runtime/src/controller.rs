//! Takes keys from a queue and reconciles them.
use crate::backoff::Backoff;
use crate::queue::{Done, Queue};
use crate::stats;
use async_trait::async_trait;
use parking_lot::Mutex;
use std::fmt::Debug;
use std::hash::Hash;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tracing::Instrument as _;

/// When to look at a key again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// When something changes.
    AwaitChange,
    /// After this long, or when something changes.
    After(Duration),
}

/// Makes the world follow what is declared, for one key at a time. Level-triggered: it is told
/// which key, never what happened.
#[async_trait]
pub trait Reconciler<K>: Send + Sync + 'static {
    type Error: std::fmt::Display + Send;

    async fn reconcile(&self, key: &K) -> Result<Next, Self::Error>;
}

/// The queue as handlers of watches see it. Cheap to clone.
#[derive(Debug)]
pub struct KeyQueue<K> {
    shared: Arc<Shared<K>>,
}

#[derive(Debug)]
struct Shared<K> {
    queue: Mutex<Queue<K>>,
    changed: Notify,
}

impl<K> Clone for KeyQueue<K> {
    fn clone(&self) -> Self {
        Self { shared: self.shared.clone() }
    }
}

impl<K: Clone + Eq + Hash + Ord> KeyQueue<K> {
    pub fn add(&self, key: K) {
        self.shared.queue.lock().add(key);
        self.shared.changed.notify_one();
    }

    /// What changed can wait: the key is looked at within this time, together with what else changes
    /// until then, and after those that cannot wait.
    pub fn add_within(&self, key: K, wait: Duration) {
        let first = self.shared.queue.lock().add_within(key, Instant::now() + wait);
        if first {
            self.shared.changed.notify_one();
        }
    }
}

/// How many keys of one controller are worked on at once unless it says otherwise; they mostly wait for
/// the store.
const IN_FLIGHT_MAX: usize = 64;

pub struct Controller<K, R> {
    name: &'static str,
    queue: KeyQueue<K>,
    reconciler: Arc<R>,
    in_flight_max: usize,
}

impl<K, R> Controller<K, R>
where
    K: Clone + Eq + Hash + Ord + Debug + Send + Sync + 'static,
    R: Reconciler<K>,
{
    pub fn new(name: &'static str, reconciler: R) -> Self {
        Self::with_backoff(name, reconciler, Backoff::RECONCILE)
    }

    pub fn with_backoff(name: &'static str, reconciler: R, backoff: Backoff) -> Self {
        let shared = Shared { queue: Mutex::new(Queue::new(backoff)), changed: Notify::new() };
        Self {
            name,
            queue: KeyQueue { shared: Arc::new(shared) },
            reconciler: Arc::new(reconciler),
            in_flight_max: IN_FLIGHT_MAX,
        }
    }

    /// Works on so many keys at once: for those that wait for others than the store.
    pub fn at_once(mut self, keys: usize) -> Self {
        self.in_flight_max = keys;
        self
    }

    /// Where watches leave the keys that changed.
    pub fn queue(&self) -> KeyQueue<K> {
        self.queue.clone()
    }

    /// Runs until it is told to stop; what is in flight then is finished first.
    pub async fn run(self, stop: CancellationToken) -> Result<(), std::convert::Infallible> {
        let mut flying: JoinSet<(K, Result<Next, String>)> = JoinSet::new();
        loop {
            self.start_ready(&mut flying);
            let (due, keys) = {
                let queue = self.queue.shared.queue.lock();
                (queue.next_due(), queue.len())
            };
            stats::depth(self.name, keys);
            tokio::select! {
                () = stop.cancelled() => break,
                () = self.queue.shared.changed.notified() => {}
                () = until(due) => {}
                Some(ended) = flying.join_next() => self.finish(ended),
            }
        }
        while let Some(ended) = flying.join_next().await {
            self.finish(ended);
        }
        stats::depth(self.name, 0);
        Ok(())
    }

    fn start_ready(&self, flying: &mut JoinSet<(K, Result<Next, String>)>) {
        while flying.len() < self.in_flight_max {
            let Some(key) = self.queue.shared.queue.lock().take(Instant::now()) else { return };
            let (name, reconciler) = (self.name, self.reconciler.clone());
            let span = tracing::info_span!("reconcile", controller = name, ?key);
            let work = async move {
                let began = Instant::now();
                let outcome = reconciler.reconcile(&key).await.map_err(|error| error.to_string());
                stats::took(name, began.elapsed());
                (key, outcome)
            };
            flying.spawn(work.instrument(span));
        }
    }

    fn finish(&self, ended: Result<(K, Result<Next, String>), tokio::task::JoinError>) {
        let (key, outcome) = match ended {
            Ok(ended) => ended,
            Err(error) => {
                // The key is lost with the task: it stays in flight, so it cannot loop, and a
                // person has to look anyway.
                tracing::error!(controller = self.name, %error, "reconciliation panicked");
                stats::ended(self.name, stats::Outcome::Panicked);
                return;
            }
        };
        let how = if outcome.is_ok() { stats::Outcome::Done } else { stats::Outcome::Failed };
        stats::ended(self.name, how);
        let done = match outcome {
            Ok(Next::AwaitChange) => Done::AwaitChange,
            Ok(Next::After(wait)) => Done::After(wait),
            Err(error) => {
                tracing::warn!(controller = self.name, ?key, %error, "will try again");
                Done::Failed
            }
        };
        self.queue.shared.queue.lock().done(key, done, Instant::now(), rand::random());
    }
}

async fn until(due: Option<Instant>) {
    match due {
        Some(due) => tokio::time::sleep_until(due).await,
        None => std::future::pending().await,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::sync::mpsc;

    /// Fails as often as it is told, then succeeds and asks to look again after a minute.
    struct Flaky {
        failures: Mutex<u32>,
        seen: mpsc::Sender<(Instant, String)>,
    }

    #[async_trait]
    impl Reconciler<String> for Flaky {
        type Error = &'static str;

        async fn reconcile(&self, key: &String) -> Result<Next, &'static str> {
            self.seen.send((Instant::now(), key.clone())).await.expect("the test listens");
            let mut failures = self.failures.lock();
            if *failures == 0 {
                return Ok(Next::After(Duration::from_secs(60)));
            }
            *failures -= 1;
            Err("not yet")
        }
    }

    #[tokio::test(start_paused = true)]
    async fn fails_with_growing_waits_then_looks_again_when_asked() {
        let (seen, mut calls) = mpsc::channel(8);
        let second = Duration::from_secs(1);
        let backoff = Backoff { first: second, longest: 4 * second };
        let reconciler = Flaky { failures: Mutex::new(2), seen };
        let controller = Controller::with_backoff("flaky", reconciler, backoff);
        controller.queue().add("k".to_owned());
        let stop = CancellationToken::new();
        let running = tokio::spawn(controller.run(stop.clone()));
        let mut times = Vec::new();
        for _ in 0..4 {
            times.push(calls.recv().await.expect("a call").0);
        }
        let waits: Vec<f64> = times.windows(2).map(|w| (w[1] - w[0]).as_secs_f64()).collect();
        assert!((0.75..=1.01).contains(&waits[0]), "{waits:?}");
        assert!((1.5..=2.01).contains(&waits[1]), "{waits:?}");
        assert!((60.0..=60.1).contains(&waits[2]), "{waits:?}");
        stop.cancel();
        running.await.expect("no panic").expect("cannot fail");
    }
}
