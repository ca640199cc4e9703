//! How far the watches have come, and who waits for them.
use super::graph::Place;
use orrery_hub::Revision;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::time::Instant;

/// How long a deletion waits for watches that have begun to catch up with it. The watches of the store take a
/// second at most; those of other services may never say how far they are, and must not hold a deletion for ever.
const CATCH_UP_MAX: Duration = Duration::from_secs(10);

/// The revision up to which each watch has told everything.
#[derive(Debug)]
pub struct Progress {
    feeds: Vec<AtomicU64>,
}

impl Progress {
    pub fn new(feeds: usize) -> Self {
        Self { feeds: (0..feeds).map(|_| AtomicU64::new(0)).collect() }
    }

    pub fn reached(&self, feed: usize, revision: Revision) {
        self.feeds[feed].fetch_max(revision.0, Ordering::Release);
    }

    /// Whether a watch has told everything that was there when it began.
    pub fn begun(&self, feed: usize) -> bool {
        self.feeds[feed].load(Ordering::Acquire) != 0
    }

    /// A watch that begins anew knows nothing until it has told everything again.
    pub fn reset(&self, feed: usize) {
        self.feeds[feed].store(0, Ordering::Release);
    }

    /// Whether all of them have told everything up to here.
    pub fn all_reached(&self, revision: Revision) -> bool {
        self.feeds.iter().all(|feed| revision.0 <= feed.load(Ordering::Acquire))
    }

    /// Whether all of them have told everything that was there when they began.
    pub fn all_begun(&self) -> bool {
        (0..self.feeds.len()).all(|feed| self.begun(feed))
    }

    /// Whether whoever has waited so long for those that lag behind need not wait any more. One that has not begun has
    /// told nothing, and is waited for however long that takes.
    pub fn is_long_enough(&self, waited: Duration) -> bool {
        CATCH_UP_MAX < waited && self.all_begun()
    }
}

/// Since when deletions have waited for watches that lag behind. When they were asked for says nothing: it may be
/// long before this collector began, and by another server's clock.
#[derive(Debug, Default)]
pub struct Waits {
    /// Each with the identity of what is deleted.
    since: Mutex<HashMap<Place, (String, Instant)>>,
}

impl Waits {
    /// How long the deletion of this object has waited; it begins to where it did not.
    pub fn waited(&self, place: &Place, uid: &str, now: Instant) -> Duration {
        let mut since = self.since.lock();
        let (waiting, begun) = since.entry(place.clone()).or_insert_with(|| (uid.to_owned(), now));
        if waiting != uid {
            (*waiting, *begun) = (uid.to_owned(), now);
        }
        now.saturating_duration_since(*begun)
    }

    pub fn end(&self, place: &Place) {
        self.since.lock().remove(place);
    }
}
