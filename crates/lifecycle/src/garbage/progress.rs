//! How far the watches have come, and who waits for them.
use super::graph::Place;
use orrery_hub::Revision;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::time::Instant;

/// How long a deletion waits for watches that have begun to catch up with it. They take a second at most, and whoever
/// holds one up for longer must not hold a deletion for ever.
const CATCH_UP_MAX: Duration = Duration::from_secs(10);

/// How soon something that waits is looked at again at first: watches mostly catch up within half a second.
const LOOK_AGAIN_MIN: Duration = Duration::from_millis(50);
/// And at last: what has waited for long may wait so much longer.
const LOOK_AGAIN_MAX: Duration = Duration::from_secs(5);

/// How soon to look again at what has waited so long: after a tenth of that.
pub fn look_again(waited: Duration) -> Duration {
    (waited / 10).clamp(LOOK_AGAIN_MIN, LOOK_AGAIN_MAX)
}

/// Whether something has waited longer than it should have to: people are told.
pub fn is_too_long(waited: Duration) -> bool {
    CATCH_UP_MAX < waited
}

/// The revision up to which each watch has told everything.
#[derive(Debug)]
pub struct Progress {
    feeds: Vec<Reached>,
}

/// How far the watch of a kind has come; zero until it has told everything that was there.
#[derive(Debug)]
struct Reached {
    kind: String,
    revision: AtomicU64,
}

impl Progress {
    pub fn new(kinds: impl IntoIterator<Item = String>) -> Self {
        let feed = |kind| Reached { kind, revision: AtomicU64::new(0) };
        Self { feeds: kinds.into_iter().map(feed).collect() }
    }

    pub fn reached(&self, feed: usize, revision: Revision) {
        self.feeds[feed].revision.fetch_max(revision.0, Ordering::Release);
    }

    /// Whether a watch has told everything that was there when it began.
    pub fn begun(&self, feed: usize) -> bool {
        self.feeds[feed].revision.load(Ordering::Acquire) != 0
    }

    /// A watch that begins anew knows nothing until it has told everything again.
    pub fn reset(&self, feed: usize) {
        self.feeds[feed].revision.store(0, Ordering::Release);
    }

    /// Whether all of them have told everything up to here.
    pub fn all_reached(&self, revision: Revision) -> bool {
        self.behind(revision).is_empty()
    }

    /// The kinds whose watches have not come so far.
    pub fn behind(&self, revision: Revision) -> Vec<&str> {
        let is_behind = |feed: &&Reached| feed.revision.load(Ordering::Acquire) < revision.0;
        self.feeds.iter().filter(is_behind).map(|feed| feed.kind.as_str()).collect()
    }

    /// Whether all of them have told everything that was there when they began.
    pub fn all_begun(&self) -> bool {
        (0..self.feeds.len()).all(|feed| self.begun(feed))
    }

    /// Whether whoever has waited so long for those that lag behind need not wait any more. One that has not begun has
    /// told nothing, and is waited for however long that takes.
    pub fn is_long_enough(&self, waited: Duration) -> bool {
        is_too_long(waited) && self.all_begun()
    }
}

/// Since when deletions have waited for watches that lag behind. When they were asked for says nothing: it may be
/// long before this collector began, and by another server's clock.
#[derive(Debug, Default)]
pub struct Waits {
    since: Mutex<HashMap<Place, Waiting>>,
}

#[derive(Debug)]
struct Waiting {
    uid: String,
    begun: Instant,
    /// Whether people were told what it waits for.
    told: bool,
}

impl Waits {
    /// How long the deletion of this object has waited; it begins to where it did not.
    pub fn waited(&self, place: &Place, uid: &str, now: Instant) -> Duration {
        let mut since = self.since.lock();
        let begin = || Waiting { uid: uid.to_owned(), begun: now, told: false };
        let waiting = since.entry(place.clone()).or_insert_with(begin);
        if waiting.uid != uid {
            *waiting = begin();
        }
        now.saturating_duration_since(waiting.begun)
    }

    /// Whether people are still to be told of it, which then counts as done.
    pub fn is_untold(&self, place: &Place) -> bool {
        let mut since = self.since.lock();
        since.get_mut(place).is_some_and(|waiting| !std::mem::replace(&mut waiting.told, true))
    }

    pub fn end(&self, place: &Place) {
        self.since.lock().remove(place);
    }
}
