//! What the rest of the system reads from: current values and recent history in memory.
//!
//! ```text
//!   Engine ── follow or one watch ──▶ State { entries, history, groups } ──▶ Watcher, Watcher ...
//!     ▲                                   │
//!     └─────────── commit ── Store ◀──────┘ snapshot in O(1)
//! ```
//!
//! Guarantees: a read that starts after a commit was acknowledged anywhere sees it; a commit
//! through this store returns only after the cache has applied it; a snapshot is whole commits
//! only; a watcher sees every change under its prefix in order, or [`Error::Compacted`].

mod events;
mod feed;
mod groups;
mod index;
mod kept;
mod load;
mod snapshot;
mod state;
#[cfg(test)]
mod tests;
mod watcher;

use std::sync::{Arc, OnceLock};

use parking_lot::RwLock;
use tokio::sync::watch;
use tokio_util::{sync::CancellationToken, task::TaskTracker};

pub use self::{
    events::{Event, EventBatch},
    index::Terms,
    snapshot::Snapshot,
    watcher::Watcher,
};
use self::{feed::Feed, state::State};
use crate::{
    engine::Engine,
    error::Error,
    model::{Entry, Incarnation, Op, Revision},
};

/// How a [`Store`] is set up.
#[derive(Clone, Debug)]
pub struct StoreOptions {
    /// Only keys under it are cached and can be read or watched here; the empty prefix is all.
    pub prefix: String,
    /// How many commits watchers and continued lists can go back. A client that lost its
    /// connection for a minute under a steady hundred commits per second still resumes.
    pub history_revisions: usize,
    /// How many bytes of superseded and current values the history may hold on to.
    pub history_bytes: usize,
    /// By what entries can be found, if by anything but their keys.
    pub terms: Option<Arc<dyn Terms>>,
}

impl Default for StoreOptions {
    fn default() -> Self {
        Self {
            prefix: String::new(),
            history_revisions: 10_000,
            history_bytes: 64 << 20,
            terms: None,
        }
    }
}

/// A cache of all current values under one prefix of an engine. Clones share it.
#[derive(Clone, Debug)]
pub struct Store {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    engine: Arc<dyn Engine>,
    prefix: Box<str>,
    shared: Arc<Shared>,
    stop: CancellationToken,
    tasks: TaskTracker,
}

/// What the feed writes and everyone else reads.
#[derive(Debug)]
struct Shared {
    state: RwLock<State>,
    /// The revision the state has reached. Written after the state, by whoever writes that.
    applied: watch::Sender<Revision>,
    /// Cancelled when the feed is over, whether stopped or failed.
    ended: CancellationToken,
    /// Why it is over, if it has failed.
    failed: OnceLock<Error>,
}

impl Store {
    /// Loads the current values and goes on following the engine until [`Store::stop`].
    pub async fn start(engine: Arc<dyn Engine>, options: StoreOptions) -> Result<Self, Error> {
        let state = load::load(engine.as_ref(), &options).await?;
        let shared = Arc::new(Shared {
            applied: watch::Sender::new(state.revision()),
            state: RwLock::new(state),
            ended: CancellationToken::new(),
            failed: OnceLock::new(),
        });
        let (stop, tasks) = (CancellationToken::new(), TaskTracker::new());
        let feed = Feed::new(Arc::clone(&engine), options.clone(), Arc::clone(&shared));
        tasks.spawn(feed.run(stop.clone()));
        let prefix = options.prefix.into();
        let store = Self { inner: Arc::new(Inner { engine, prefix, shared, stop, tasks }) };
        store.sync().await?;
        Ok(store)
    }

    /// Whether it still can do its work, as far as is known without trying; if not, only a restart helps.
    pub fn health(&self) -> Result<(), Error> {
        match self.inner.shared.failed.get() {
            Some(error) => Err(error.clone()),
            None => self.inner.engine.health(),
        }
    }

    pub fn engine(&self) -> &Arc<dyn Engine> {
        &self.inner.engine
    }

    pub fn incarnation(&self) -> Incarnation {
        self.inner.engine.incarnation()
    }

    /// The revision the cache has reached; what [`Store::snapshot_now`] would be at.
    pub fn revision(&self) -> Revision {
        *self.inner.shared.applied.borrow()
    }

    /// The entry of a key, with every commit acknowledged before the call.
    pub async fn get(&self, key: &str) -> Result<Option<Arc<Entry>>, Error> {
        self.check_inside(key)?;
        self.sync().await?;
        Ok(self.inner.shared.state.read().entries().get(key).cloned())
    }

    /// All entries at one revision, with every commit acknowledged before the call.
    pub async fn snapshot(&self) -> Result<Snapshot, Error> {
        self.sync().await?;
        Ok(self.snapshot_now())
    }

    /// All entries as the cache holds them, without asking the engine how far others have come.
    pub fn snapshot_now(&self) -> Snapshot {
        self.inner.shared.state.read().snapshot()
    }

    /// All entries as they were at `revision`, for a list that is continued. Answers
    /// [`Error::Compacted`] if the history does not reach back so far. Costs nothing where the state
    /// is kept, and keeps it for the next who asks.
    pub async fn snapshot_at(&self, revision: Revision) -> Result<Snapshot, Error> {
        if self.revision() < revision {
            self.sync().await?;
        }
        let past = self.inner.shared.state.read().past(revision)?;
        let snapshot = past.rebuild();
        self.keep(&snapshot);
        Ok(snapshot)
    }

    /// Keeps a state for lists that go on from it, see [`Store::snapshot_at`].
    pub fn keep(&self, snapshot: &Snapshot) {
        self.inner.shared.state.read().keep(snapshot);
    }

    /// Commits through to the engine; on return, reads here see it.
    pub async fn commit(&self, ops: Vec<Op>) -> Result<Revision, Error> {
        let inside = |op: &Op| op.writes() && op.key().starts_with(self.inner.prefix.as_ref());
        let cached = ops.iter().any(inside);
        let revision = self.inner.engine.commit(ops).await?;
        if cached {
            // Should the feed end meanwhile, the commit has still happened and is acknowledged.
            let _ = self.reached(revision).await;
        }
        Ok(revision)
    }

    /// Every change under `prefix` after the revision `after`.
    pub fn watch(&self, prefix: &str, after: Revision) -> Result<Watcher, Error> {
        self.check_inside(prefix)?;
        let group = self.inner.shared.state.write().group(prefix, after)?;
        Ok(Watcher::new(Arc::clone(&self.inner.shared), group, after))
    }

    /// Forgets the history before `up_to`, here and in the engine.
    pub async fn compact(&self, up_to: Revision) -> Result<(), Error> {
        self.inner.engine.compact(up_to).await?;
        self.inner.shared.state.write().forget(up_to);
        Ok(())
    }

    /// Forgets all but the last `keep` revisions of history. What a periodic task calls; with more
    /// than one server it may be called on each.
    pub async fn trim(&self, keep: u64) -> Result<(), Error> {
        match self.revision().0.checked_sub(keep) {
            Some(up_to) if 0 < up_to => self.compact(Revision(up_to)).await,
            Some(_) | None => Ok(()),
        }
    }

    /// Ends the watch on the engine and every watcher here. The engine stays open.
    pub async fn stop(&self) {
        self.inner.stop.cancel();
        self.inner.tasks.close();
        self.inner.tasks.wait().await;
    }

    /// Waits until the cache has everything that was acknowledged before this call. One that follows nobody any more
    /// never will.
    async fn sync(&self) -> Result<(), Error> {
        if let Some(error) = self.inner.shared.failed.get() {
            return Err(error.clone());
        }
        let current = self.inner.engine.current(&self.inner.prefix).await?;
        self.reached(current).await
    }

    async fn reached(&self, revision: Revision) -> Result<(), Error> {
        let shared = &self.inner.shared;
        if revision <= *shared.applied.borrow() {
            return Ok(());
        }
        let mut applied = shared.applied.subscribe();
        tokio::select! {
            biased;
            _ = applied.wait_for(|applied| revision <= *applied) => Ok(()),
            () = shared.ended.cancelled() => Err(stopped()),
        }
    }

    fn check_inside(&self, key: &str) -> Result<(), Error> {
        let prefix = &self.inner.prefix;
        if key.starts_with(prefix.as_ref()) {
            return Ok(());
        }
        Err(Error::invalid(format!("{key:?} is outside of {prefix:?}, which this store caches")))
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

fn stopped() -> Error {
    Error::unavailable("the cache in front of it has stopped")
}
