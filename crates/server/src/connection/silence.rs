//! How long nothing has come from a peer, and a timer that minds it.
//!
//! hyper asks a connection whether it lives when no request and no answer has come for a while; that the peer
//! asks the same all the time is no answer to it. Agents do ask, every few seconds, and a server has thousands
//! of them: what they ask is proof enough, so the timer that hyper is given rings after silence only.
use super::moment;
use hyper::rt::{Sleep, Timer};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::time::Instant;

/// When the peer of one connection was last heard.
#[derive(Debug)]
pub struct Silence {
    began: Instant,
    /// Milliseconds after the beginning.
    heard: AtomicU64,
}

impl Silence {
    pub fn new() -> Arc<Self> {
        Arc::new(Self { began: Instant::now(), heard: AtomicU64::new(0) })
    }

    /// Something came.
    pub fn broken(&self) {
        let after = moment::now().saturating_duration_since(self.began).as_millis();
        let after = u64::try_from(after).unwrap_or(u64::MAX);
        self.heard.store(after, Ordering::Relaxed);
    }

    fn since(&self) -> Instant {
        self.began + Duration::from_millis(self.heard.load(Ordering::Relaxed))
    }
}

/// A timer whose times are over when they are over and nothing has come for `quiet`.
#[derive(Clone, Debug)]
pub struct QuietTimer {
    silence: Arc<Silence>,
    quiet: Duration,
}

impl QuietTimer {
    pub fn new(silence: Arc<Silence>, quiet: Duration) -> Self {
        Self { silence, quiet }
    }
}

impl Timer for QuietTimer {
    fn sleep(&self, duration: Duration) -> Pin<Box<dyn Sleep>> {
        self.sleep_until(self.now() + duration)
    }

    fn sleep_until(&self, deadline: std::time::Instant) -> Pin<Box<dyn Sleep>> {
        let sleep = tokio::time::sleep_until(deadline.into());
        Box::pin(QuietSleep { sleep: Box::pin(sleep), timer: self.clone() })
    }

    fn now(&self) -> std::time::Instant {
        moment::now().into_std()
    }

    fn reset(&self, sleep: &mut Pin<Box<dyn Sleep>>, deadline: std::time::Instant) {
        match sleep.as_mut().downcast_mut_pin::<QuietSleep>() {
            Some(sleep) => sleep.get_mut().sleep.as_mut().reset(deadline.into()),
            None => *sleep = self.sleep_until(deadline),
        }
    }
}

struct QuietSleep {
    sleep: Pin<Box<tokio::time::Sleep>>,
    timer: QuietTimer,
}

impl Sleep for QuietSleep {}

impl Future for QuietSleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        loop {
            ready!(self.sleep.as_mut().poll(context));
            let quiet = self.timer.silence.since() + self.timer.quiet;
            if quiet <= Instant::now() {
                return Poll::Ready(());
            }
            self.sleep.as_mut().reset(quiet);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const QUIET: Duration = Duration::from_secs(5);

    /// How many seconds a time of `asked` lasts when the peer is heard at these.
    async fn lasts(asked: u64, heard: &[u64]) -> u64 {
        let silence = Silence::new();
        let timer = QuietTimer::new(silence.clone(), QUIET);
        let began = Instant::now();
        let hearing = async {
            for at in heard {
                tokio::time::sleep_until(began + Duration::from_secs(*at)).await;
                silence.broken();
            }
            std::future::pending::<()>().await;
        };
        tokio::select! {
            () = timer.sleep(Duration::from_secs(asked)) => began.elapsed().as_secs(),
            () = hearing => unreachable!("it never ends"),
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_time_is_over_when_it_was_quiet_as_well() {
        assert_eq!(lasts(5, &[]).await, 5);
        assert_eq!(lasts(3, &[]).await, 5, "the beginning counts as a word");
        assert_eq!(lasts(9, &[1, 2]).await, 9, "it was quiet before it was over");
        assert_eq!(lasts(5, &[4, 8, 12]).await, 17, "a peer that asks is alive");
    }

    #[tokio::test(start_paused = true)]
    async fn a_time_that_is_set_anew_begins_anew() {
        let timer = QuietTimer::new(Silence::new(), QUIET);
        let began = Instant::now();
        let mut sleep = timer.sleep(Duration::from_secs(60));
        timer.reset(&mut sleep, timer.now() + Duration::from_secs(7));
        sleep.await;
        assert_eq!(began.elapsed().as_secs(), 7);
    }
}
