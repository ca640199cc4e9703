//! Events about copies, told beside the states that cause them.
//!
//! Taking a state in never waits for its event. What happens again to the same copy before it was told
//! is counted into one event; what is too much to remember is dropped, counted and said.
use futures::StreamExt;
use indexmap::IndexMap;
use orrery_hub::events::{Happening, Recorder, Severity};
use orrery_hub::{Error, Hub};
use parking_lot::Mutex;
use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

/// Events that are written in one go, and the pause between two: what people read may come a moment
/// later than what they run, and must not slow it down.
const AT_ONCE: usize = 32;
const PAUSE: Duration = Duration::from_millis(50);
/// So often are events written once the server stops; what is left then is dropped.
const LAST_ROUNDS: usize = 32;
/// How many of them are under way at the same time.
const SIDE_BY_SIDE: usize = 8;

/// Happenings that wait; worries are taken in beyond what is left for the others.
const WAITING_MAX: usize = 16_384;
const NORMAL_MAX: usize = 12_288;

static DROPPED: AtomicU64 = AtomicU64::new(0);

/// How many happenings of copies this process has not told because too many waited.
pub fn dropped() -> u64 {
    DROPPED.load(Ordering::Relaxed)
}

pub struct Telling {
    recorder: Recorder,
    waiting: Mutex<Waiting>,
    came: Notify,
}

#[derive(Default)]
struct Waiting {
    /// By the copy and the reason: the latest happening, and how many there were.
    happenings: IndexMap<(String, &'static str), (Happening, i64)>,
    dropped: u64,
}

impl Telling {
    pub fn new(hub: &Hub) -> Result<Self, Error> {
        let recorder = Recorder::new(hub, "fleet")?;
        Ok(Self { recorder, waiting: Mutex::default(), came: Notify::new() })
    }

    /// Leaves it to be told. Never waits.
    pub fn tell(&self, happening: Happening) {
        self.waiting.lock().add(happening);
        self.came.notify_one();
    }

    /// Tells until it is asked to stop, and then what is left.
    pub async fn run(self: Arc<Self>, stop: CancellationToken) -> Result<(), Infallible> {
        let mut last_rounds = LAST_ROUNDS;
        loop {
            let came = self.came.notified();
            let (some, dropped) = self.waiting.lock().take();
            say_dropped(dropped);
            if stop.is_cancelled() {
                let Some(left) = last_rounds.checked_sub(1) else {
                    say_dropped((some.len() + self.waiting.lock().happenings.len()) as u64);
                    return Ok(());
                };
                last_rounds = left;
            }
            if some.is_empty() {
                tokio::select! {
                    () = came => continue,
                    () = stop.cancelled() => return Ok(()),
                }
            }
            let tell = |(happening, times)| self.recorder.record_times(happening, times);
            futures::stream::iter(some).for_each_concurrent(SIDE_BY_SIDE, tell).await;
            let _ = tokio::time::timeout(PAUSE, stop.cancelled()).await;
        }
    }
}

fn say_dropped(dropped: u64) {
    if 0 < dropped {
        DROPPED.fetch_add(dropped, Ordering::Relaxed);
        tracing::warn!(dropped, "too much happened at once: these events are not told");
    }
}

impl Waiting {
    fn add(&mut self, happening: Happening) {
        let key = (happening.regarding.uid().to_owned(), happening.reason);
        if let Some((latest, times)) = self.happenings.get_mut(&key) {
            *latest = happening;
            *times = times.saturating_add(1);
            return;
        }
        let room = match happening.severity {
            Severity::Normal => NORMAL_MAX,
            Severity::Warning => WAITING_MAX,
        };
        if room <= self.happenings.len() {
            self.dropped = self.dropped.saturating_add(1);
            return;
        }
        self.happenings.insert(key, (happening, 1));
    }

    /// The oldest ones, and how many were dropped since the last time.
    fn take(&mut self) -> (Vec<(Happening, i64)>, u64) {
        let some = self.happenings.len().min(AT_ONCE);
        let some = self.happenings.drain(..some).map(|(_, told)| told).collect();
        (some, std::mem::take(&mut self.dropped))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use orrery_proto::core::v1::ObjectReference;

    fn mk_happening(uid: &str, reason: &'static str, severity: Severity) -> Happening {
        let regarding = ObjectReference { uid: Some(uid.into()), ..ObjectReference::default() };
        Happening { regarding, severity, reason, message: format!("{uid} {reason}") }
    }

    #[test]
    fn the_same_again_is_counted_and_the_oldest_goes_first() {
        let mut waiting = Waiting::default();
        for _ in 0..3 {
            waiting.add(mk_happening("a", "Restarted", Severity::Normal));
        }
        waiting.add(mk_happening("b", "Restarted", Severity::Normal));
        waiting.add(mk_happening("a", "Failed", Severity::Warning));
        let (told, dropped) = waiting.take();
        let told: Vec<_> = told.iter().map(|(what, times)| (&*what.message, *times)).collect();
        assert_eq!(told, [("a Restarted", 3), ("b Restarted", 1), ("a Failed", 1)]);
        assert_eq!((dropped, waiting.take().0.len()), (0, 0));
    }

    #[test]
    fn it_is_bounded_and_worries_have_room_left() {
        let mut waiting = Waiting::default();
        for number in 0..2 * WAITING_MAX {
            waiting.add(mk_happening(&number.to_string(), "Started", Severity::Normal));
        }
        assert_eq!(waiting.happenings.len(), NORMAL_MAX);
        for number in 0..2 * WAITING_MAX {
            waiting.add(mk_happening(&number.to_string(), "Failed", Severity::Warning));
        }
        assert_eq!(waiting.happenings.len(), WAITING_MAX);
        let dropped = (4 * WAITING_MAX - WAITING_MAX) as u64;
        assert_eq!(waiting.take().1, dropped, "every one of them is counted");
        assert_eq!(waiting.take().1, 0, "and said once");
    }
}
