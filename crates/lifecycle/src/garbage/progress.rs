//! How far the watches have come.
use orrery_hub::Revision;
use std::sync::atomic::{AtomicU64, Ordering};

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
}
