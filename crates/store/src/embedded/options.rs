//! What can be set, and what can be counted.

use std::sync::atomic::{AtomicU64, Ordering};

/// How the embedded engine is set up.
#[derive(Clone, Debug)]
pub struct EmbeddedOptions {
    /// Memory for blocks read from disk. Current values are served from the cache in front of the
    /// engine, so this only serves starts, catching up and expectations.
    pub block_cache_bytes: u64,
    /// How much may be written before memory is turned into sorted files. Also bounds what is
    /// read again from the journal on opening.
    pub memtable_bytes: u64,
    /// The most space journals may take before the oldest is turned into sorted files.
    pub journal_bytes: u64,
}

impl Default for EmbeddedOptions {
    fn default() -> Self {
        Self { block_cache_bytes: 32 << 20, memtable_bytes: 16 << 20, journal_bytes: 128 << 20 }
    }
}

/// What an engine has done since it was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Commits that got a revision.
    pub commits: u64,
    /// Times the journal was synced for them: far fewer under load.
    pub syncs: u64,
    /// Commits read back from the log for watchers that were behind.
    pub replayed: u64,
    /// Commits whose history was removed.
    pub compacted: u64,
}

#[derive(Debug, Default)]
pub(super) struct Counters {
    pub commits: AtomicU64,
    pub syncs: AtomicU64,
    pub replayed: AtomicU64,
    pub compacted: AtomicU64,
}

impl Counters {
    pub fn read(&self) -> Stats {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Stats {
            commits: read(&self.commits),
            syncs: read(&self.syncs),
            replayed: read(&self.replayed),
            compacted: read(&self.compacted),
        }
    }
}

pub(super) fn count(counter: &AtomicU64, by: usize) {
    counter.fetch_add(u64::try_from(by).unwrap_or(u64::MAX), Ordering::Relaxed);
}
