//! Takes keys from a queue and reconciles them.
use crate::backoff::Backoff;
use crate::queue::{Done, Queue};
use crate::reflector::until_synced;
use crate::stats::{Outcome, Stats};
use crate::tasks::{OnEnd, Tasks};
use async_trait::async_trait;
use parking_lot::Mutex;
use std::fmt::Debug;
use std::hash::Hash;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{Notify, watch};
use tokio::task::JoinSet;
use tokio::time::{Instant, Sleep};
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

    /// Spawns it, to begin when these views are there: one that does not know what is there would make it anew, or
    /// undo it.
    pub fn spawn(self, task: &'static str, synced: Vec<watch::Receiver<bool>>, tasks: &mut Tasks) {
        let stop = tasks.stop_token();
        tasks.spawn(task, OnEnd::StopAll, async move {
            until_synced(synced, &stop).await;
            self.run(stop).await
        });
    }

    /// Runs until it is told to stop; what is in flight then is finished first.
    pub async fn run(self, stop: CancellationToken) -> Result<(), std::convert::Infallible> {
        let stats = Stats::of(self.name);
        let mut flying: JoinSet<(K, Result<Next, String>)> = JoinSet::new();
        let mut alarm = Alarm::default();
        let mut stopped = pin!(stop.cancelled());
        let mut changed = pin!(self.queue.shared.changed.notified());
        loop {
            let (due, keys) = self.start_ready(&mut flying, &stats);
            stats.depth(keys);
            alarm.set(due);
            tokio::select! {
                biased;
                () = &mut stopped => break,
                () = &mut changed => changed.set(self.queue.shared.changed.notified()),
                Some(ended) = flying.join_next() => self.finish(ended, &stats),
                () = alarm.rung() => {}
            }
            while let Some(ended) = flying.try_join_next() {
                self.finish(ended, &stats);
            }
        }
        while let Some(ended) = flying.join_next().await {
            self.finish(ended, &stats);
        }
        stats.depth(0);
        Ok(())
    }

    /// Begins with what is ready, as far as there is room. When there will be more to begin with, and how many keys
    /// there are. While there is no room nothing is waited for but the end of something.
    fn start_ready(
        &self,
        flying: &mut JoinSet<(K, Result<Next, String>)>,
        stats: &Stats,
    ) -> (Option<Instant>, usize) {
        let now = Instant::now();
        loop {
            let key = {
                let mut queue = self.queue.shared.queue.lock();
                if self.in_flight_max <= flying.len() {
                    return (None, queue.len());
                }
                let Some(key) = queue.take(now) else { return (queue.next_due(), queue.len()) };
                key
            };
            let (reconciler, stats) = (self.reconciler.clone(), stats.clone());
            let span = tracing::info_span!("reconcile", controller = self.name, ?key);
            let work = async move {
                let began = Instant::now();
                let outcome = reconciler.reconcile(&key).await.map_err(|error| error.to_string());
                stats.took(began.elapsed());
                (key, outcome)
            };
            flying.spawn(work.instrument(span));
        }
    }

    fn finish(
        &self,
        ended: Result<(K, Result<Next, String>), tokio::task::JoinError>,
        stats: &Stats,
    ) {
        let (key, outcome) = match ended {
            Ok(ended) => ended,
            Err(error) => {
                // The key is lost with the task: it stays in flight, so it cannot loop, and a
                // person has to look anyway.
                tracing::error!(controller = self.name, %error, "reconciliation panicked");
                stats.ended(Outcome::Panicked);
                return;
            }
        };
        stats.ended(if outcome.is_ok() { Outcome::Done } else { Outcome::Failed });
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

/// One timer for all that is delayed. It is set anew only for what is due before it rings: to ring once for
/// nothing costs less than to be set for each key.
#[derive(Default)]
struct Alarm {
    sleep: Option<Pin<Box<Sleep>>>,
    rings: Option<Instant>,
}

impl Alarm {
    fn set(&mut self, due: Option<Instant>) {
        let Some(due) = due.filter(|due| self.rings.is_none_or(|rings| *due < rings)) else {
            return;
        };
        self.rings = Some(due);
        match &mut self.sleep {
            Some(sleep) => sleep.as_mut().reset(due),
            None => self.sleep = Some(Box::pin(tokio::time::sleep_until(due))),
        }
    }

    /// Returns when something may be due.
    async fn rung(&mut self) {
        match (&mut self.sleep, self.rings) {
            (Some(sleep), Some(_)) => sleep.await,
            (None, _) | (_, None) => std::future::pending().await,
        }
        self.rings = None;
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

    /// Tells when it is asked to look at what.
    struct Telling(mpsc::Sender<(Instant, String)>);

    #[async_trait]
    impl Reconciler<String> for Telling {
        type Error = &'static str;

        async fn reconcile(&self, key: &String) -> Result<Next, &'static str> {
            self.0.send((Instant::now(), key.clone())).await.expect("the test listens");
            Ok(Next::AwaitChange)
        }
    }

    /// When a key became due while there was no room for it, the controller asked again and again whether it could
    /// begin, until another ended.
    #[tokio::test(start_paused = true)]
    async fn what_is_due_and_has_no_room_is_not_waited_for() {
        let (seen, _calls) = mpsc::channel(8);
        let controller = Controller::new("telling", Telling(seen)).at_once(1);
        controller.queue().add("now".to_owned());
        controller.queue().add_within("soon".to_owned(), Duration::from_secs(1));
        let (stats, mut flying) = (Stats::of("telling"), JoinSet::new());
        assert_eq!(controller.start_ready(&mut flying, &stats), (None, 2));
        tokio::time::advance(Duration::from_secs(2)).await;
        assert_eq!(controller.start_ready(&mut flying, &stats), (None, 2));
        let ended = flying.join_next().await.expect("one is under way");
        controller.finish(ended, &stats);
        assert_eq!(controller.start_ready(&mut flying, &stats), (None, 1));
        assert_eq!(flying.len(), 1, "there is room for the other");
    }

    #[tokio::test(start_paused = true)]
    async fn each_key_is_looked_at_when_it_is_due() {
        let (seen, mut calls) = mpsc::channel(8);
        let controller = Controller::new("telling", Telling(seen));
        let (queue, stop) = (controller.queue(), CancellationToken::new());
        let (begun, running) = (Instant::now(), tokio::spawn(controller.run(stop.clone())));
        for (key, seconds) in [("late", 60), ("soon", 2), ("between", 30), ("first", 1)] {
            queue.add_within(key.to_owned(), Duration::from_secs(seconds));
            tokio::task::yield_now().await;
        }
        let mut told = Vec::new();
        for _ in 0..4 {
            let (at, key) = calls.recv().await.expect("a call");
            told.push(((at - begun).as_secs(), key));
        }
        let expect = [(1, "first"), (2, "soon"), (30, "between"), (60, "late")];
        assert_eq!(told, expect.map(|(at, key)| (at, key.to_owned())));
        stop.cancel();
        running.await.expect("no panic").expect("cannot fail");
    }
}
