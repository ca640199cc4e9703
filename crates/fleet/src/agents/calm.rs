//! While many copies are handed out at once, what agents report of theirs waits.
//!
//! A thousand new workloads make a thousand agents speak at the moment at which the server is busiest.
//! People wait for the copies to be handed out; that they run is known a moment later either way, and
//! stored together it costs less. So reports wait for the end of such a burst, and never for long.
use std::convert::Infallible;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tokio::sync::{Notify, watch};
use tokio_util::sync::CancellationToken;

/// How often it is looked how many copies were handed out.
const LOOK: Duration = Duration::from_millis(5);
/// So many copies between two looks are the begin of a burst.
const MANY: usize = 8;
/// A look that finds fewer copies than these is a quiet one.
const ANY: usize = 2;
/// So many quiet looks in a row are its end: one alone may be a slow disk.
const QUIET: u32 = 4;
/// So many looks a burst may last; then reports are heard whatever comes.
const LONGEST: u32 = 60;

/// Whether copies are handed out by the dozen just now.
pub struct Calm {
    copies: AtomicUsize,
    stirred: Notify,
    pace: watch::Sender<Pace>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Pace {
    /// Nothing worth waiting for.
    Calm,
    /// Copies are handed out at once, for so many looks already, of which the last ones were quiet.
    Burst { looks: u32, quiet: u32 },
    /// They still are, but reports have waited long enough.
    Patient,
}

impl Pace {
    /// What it is after another look that found this many copies.
    fn after(self, copies: usize) -> Self {
        match self {
            Self::Calm if copies < MANY => Self::Calm,
            Self::Calm => Self::Burst { looks: 1, quiet: 0 },
            Self::Patient if copies < ANY => Self::Calm,
            Self::Patient => Self::Patient,
            Self::Burst { quiet, .. } if copies < ANY && QUIET <= quiet + 1 => Self::Calm,
            Self::Burst { looks, quiet } if looks < LONGEST => {
                let quiet = if copies < ANY { quiet + 1 } else { 0 };
                Self::Burst { looks: looks + 1, quiet }
            }
            Self::Burst { .. } => Self::Patient,
        }
    }

    fn reports_wait(self) -> bool {
        matches!(self, Self::Burst { .. })
    }
}

impl Default for Calm {
    fn default() -> Self {
        let (copies, stirred) = (AtomicUsize::new(0), Notify::new());
        Self { copies, stirred, pace: watch::Sender::new(Pace::Calm) }
    }
}

impl Calm {
    /// So many copies were handed out to agents.
    pub fn handed_out(&self, copies: usize) {
        if 0 < copies && self.copies.fetch_add(copies, Ordering::Relaxed) == 0 {
            self.stirred.notify_one();
        }
    }

    /// Returns when no burst is under way.
    pub async fn settled(&self) {
        if self.pace.borrow().reports_wait() {
            let mut pace = self.pace.subscribe();
            // The sender lives in here.
            let _ = pace.wait_for(|pace| !pace.reports_wait()).await;
        }
    }

    /// Looks at what is handed out until it is told to stop. Costs nothing while nothing is.
    pub async fn watch(&self, stop: CancellationToken) -> Result<(), Infallible> {
        let looking = async {
            loop {
                self.stirred.notified().await;
                self.look_until_calm().await;
            }
        };
        stop.run_until_cancelled(looking).await;
        // Whoever waits still is heard.
        self.pace.send_replace(Pace::Calm);
        Ok(())
    }

    async fn look_until_calm(&self) {
        loop {
            tokio::time::sleep(LOOK).await;
            let copies = self.copies.swap(0, Ordering::Relaxed);
            let before = *self.pace.borrow();
            let now = before.after(copies);
            self.pace.send_if_modified(|pace| {
                *pace = now;
                before.reports_wait() != now.reports_wait()
            });
            if copies == 0 && now == Pace::Calm {
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::sync::Arc;
    use tokio::task::JoinHandle;
    use tokio::time::{Instant, sleep, timeout};

    fn watched() -> (Arc<Calm>, CancellationToken, JoinHandle<Result<(), Infallible>>) {
        let (calm, stop) = (Arc::new(Calm::default()), CancellationToken::new());
        let (watching, until) = (calm.clone(), stop.clone());
        let task = tokio::spawn(async move { watching.watch(until).await });
        (calm, stop, task)
    }

    async fn settles_at_once(calm: &Calm) -> bool {
        timeout(Duration::ZERO, calm.settled()).await.is_ok()
    }

    #[tokio::test(start_paused = true)]
    async fn a_few_copies_hold_nobody_up() {
        let (calm, ..) = watched();
        for _ in 0..10 {
            calm.handed_out(MANY - 1);
            sleep(LOOK * 2).await;
            assert!(settles_at_once(&calm).await);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn reports_wait_for_the_end_of_a_burst() {
        let (calm, ..) = watched();
        for copies in [MANY, ANY, 0, MANY * 10, 0, 0, ANY] {
            calm.handed_out(copies);
            sleep(LOOK).await;
            tokio::task::yield_now().await;
            assert!(!settles_at_once(&calm).await, "a slow moment is not the end");
        }
        let since = Instant::now();
        calm.settled().await;
        assert!(since.elapsed() <= LOOK * (QUIET + 1), "{:?}", since.elapsed());
    }

    #[tokio::test(start_paused = true)]
    async fn whoever_waits_is_heard_when_the_server_stops() {
        let (calm, stop, task) = watched();
        calm.handed_out(MANY);
        sleep(LOOK * 3 / 2).await;
        assert!(!settles_at_once(&calm).await);
        stop.cancel();
        task.await.expect("no panic").expect("infallible");
        assert!(settles_at_once(&calm).await);
    }

    proptest! {
        /// Whatever is handed out, reports wait for a bounded time, and only when much was.
        #[test]
        fn nothing_waits_for_ever(looks in prop::collection::vec(0..MANY * 3, 1..400)) {
            let (mut pace, mut waited, mut quiet) = (Pace::Calm, 0, 0);
            for copies in looks {
                let before = pace;
                pace = pace.after(copies);
                waited = if pace.reports_wait() { waited + 1 } else { 0 };
                prop_assert!(waited <= LONGEST);
                let begins = pace.reports_wait() && !before.reports_wait();
                prop_assert!(!begins || (MANY <= copies && before == Pace::Calm));
                quiet = if copies < ANY { quiet + 1 } else { 0 };
                prop_assert!(quiet < QUIET || pace == Pace::Calm);
            }
        }
    }
}
