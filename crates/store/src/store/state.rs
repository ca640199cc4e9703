//! The cache itself: entries, the history that led to them, and who wants to hear of changes.
//! Synchronous; the lock around it is held for one commit at a time.

use std::{collections::VecDeque, sync::Arc};

use parking_lot::Mutex;
use smallvec::SmallVec;

use super::{
    StoreOptions,
    events::{Event, EventBatch},
    groups::{Group, Groups},
    index::Index,
    kept::Kept,
    load::Loaded,
    snapshot::{Past, Snapshot},
};
use crate::{
    engine::{Batch, Change},
    entries::Entries,
    error::Error,
    model::{Entry, Revision},
};

#[derive(Debug)]
pub(super) struct State {
    entries: Entries,
    revision: Revision,
    /// Commits with changes, oldest first, all after `floor`.
    history: VecDeque<Arc<EventBatch>>,
    history_bytes: usize,
    /// What left the history and was not taken apart yet; see [`State::moved`].
    gone: Vec<Arc<EventBatch>>,
    /// The oldest revision that can be watched from or gone back to.
    floor: Revision,
    /// How many commits left the history since the groups were last told.
    evicted: usize,
    groups: Groups,
    index: Option<Index>,
    /// States that lists go on from, none older than `floor`.
    kept: Mutex<Kept>,
    limits: Limits,
}

#[derive(Clone, Copy, Debug)]
struct Limits {
    revisions: usize,
    bytes: usize,
}

impl State {
    pub fn new(loaded: Loaded, options: &StoreOptions) -> Self {
        let Loaded { entries, index, revision } = loaded;
        Self {
            entries,
            index,
            revision,
            history: VecDeque::new(),
            history_bytes: 0,
            gone: Vec::new(),
            floor: revision,
            evicted: 0,
            groups: Groups::default(),
            kept: Mutex::default(),
            limits: Limits { revisions: options.history_revisions, bytes: options.history_bytes },
        }
    }

    pub fn revision(&self) -> Revision {
        self.revision
    }

    pub fn entries(&self) -> &Entries {
        &self.entries
    }

    pub fn snapshot(&self) -> Snapshot {
        Snapshot {
            entries: self.entries.clone(),
            index: self.index.clone(),
            revision: self.revision,
        }
    }

    /// What it takes to see the state at `revision` again.
    pub fn past(&self, revision: Revision) -> Result<Past, Error> {
        self.check_bounds(revision)?;
        let from = self.kept.lock().nearest(revision).unwrap_or_else(|| self.snapshot());
        let after = |revision: Revision| self.history.partition_point(|b| b.revision <= revision);
        let way = self.history.range(after(revision)..after(from.revision()));
        Ok(Past { undo: way.rev().cloned().collect(), from, revision })
    }

    /// Keeps a state for lists that go on from it, while history reaches back so far.
    pub fn keep(&self, snapshot: &Snapshot) {
        if self.floor <= snapshot.revision() {
            self.kept.lock().keep(snapshot);
        }
    }

    /// Takes in one commit, and leaves it for the groups it concerns; see [`State::moved`].
    pub fn apply(&mut self, batch: Batch) {
        let Batch { revision, changes } = batch;
        debug_assert!(self.revision < revision || changes.is_empty(), "commits come in order");
        let events: SmallVec<_> = changes.into_iter().filter_map(|c| self.change(c)).collect();
        self.revision = self.revision.max(revision);
        if events.is_empty() {
            return;
        }
        let batch = Arc::new(EventBatch::new(revision, events));
        self.groups.publish(&batch, self.floor);
        self.remember(batch);
    }

    /// The groups to wake, for what was taken in since the last call, and the commits that history had no more room
    /// for. Those are as cold as memory gets: nobody should wait while they are taken apart.
    pub fn moved(&mut self) -> (Vec<Arc<Group>>, Vec<Arc<EventBatch>>) {
        (self.groups.moved(), std::mem::take(&mut self.gone))
    }

    fn change(&mut self, change: Change) -> Option<Event> {
        Some(match change {
            Change::Put(entry) => {
                let entry = Arc::new(entry);
                let previous = self.entries.insert(Arc::clone(&entry));
                self.reindex(previous.as_deref(), Some(entry.as_ref()));
                Event::Put { entry, previous }
            }
            Change::Delete { key, revision } => {
                let previous = self.entries.remove(&key)?;
                self.reindex(Some(previous.as_ref()), None);
                Event::Delete { previous, revision }
            }
        })
    }

    fn reindex(&mut self, old: Option<&Entry>, new: Option<&Entry>) {
        if let Some(index) = &mut self.index {
            index.change(old, new);
        }
    }

    fn remember(&mut self, batch: Arc<EventBatch>) {
        self.history_bytes += batch.bytes();
        self.history.push_back(batch);
        while self.limits.revisions < self.history.len() || self.limits.bytes < self.history_bytes {
            let oldest = self.evict();
            self.gone.extend(oldest);
        }
        // Groups trim themselves as they publish; now and then the idle ones are trimmed too, so
        // that together they hold no more than a constant times the history.
        if self.limits.revisions / 4 < self.evicted {
            self.evicted = 0;
            self.groups.sweep(self.floor);
        }
    }

    fn evict(&mut self) -> Option<Arc<EventBatch>> {
        let oldest = self.history.pop_front()?;
        self.history_bytes -= oldest.bytes();
        self.floor = self.floor.max(oldest.revision);
        self.kept.get_mut().forget_before(self.floor);
        self.evicted += 1;
        Some(oldest)
    }

    /// Drops the history up to `revision`, as the engine was told to.
    pub fn forget(&mut self, revision: Revision) {
        while self.history.front().is_some_and(|batch| batch.revision <= revision) {
            self.evict();
        }
        self.floor = self.floor.max(revision.min(self.revision));
        self.kept.get_mut().forget_before(self.floor);
        self.evicted = 0;
        self.groups.sweep(self.floor);
    }

    /// The group of all watchers of `prefix`, filled so that one can start at `after`.
    pub fn group(&mut self, prefix: &str, after: Revision) -> Result<Arc<Group>, Error> {
        self.check_bounds(after)?;
        Ok(self.groups.join(prefix, &self.history, self.floor))
    }

    /// Starts anew from a list, because the engine's history no longer reaches back to ours. What
    /// happened between is unknown, so every watcher is told to list again.
    pub fn reset(&mut self, loaded: Loaded) {
        let Loaded { entries, index, revision } = loaded;
        (self.entries, self.index, self.revision) = (entries, index, revision);
        self.history.clear();
        self.history_bytes = 0;
        *self.kept.get_mut() = Kept::default();
        self.floor = revision;
        self.groups.reset(revision);
    }

    /// Ends every watcher with this error.
    pub fn end(&mut self, error: &Error) {
        self.groups.end(error);
    }

    fn check_bounds(&self, requested: Revision) -> Result<(), Error> {
        if requested < self.floor {
            return Err(Error::Compacted { requested, oldest: self.floor });
        }
        if self.revision < requested {
            return Err(Error::FutureRevision { requested, current: self.revision });
        }
        Ok(())
    }
}
