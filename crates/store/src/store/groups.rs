//! Fan-out: watchers of the same prefix form a group, and a change reaches only the groups whose
//! prefix it is under.
//!
//! ```text
//!   change of "a/b/c" ──▶ one look-up per distinct prefix length ──▶ group "a/", group "a/b/"
//!                                                                      │ one queue each
//!                                                         watcher, watcher, watcher (cursors)
//! ```
//!
//! A group filters a commit once, however many watchers it has, and keeps one queue for all of
//! them. A watcher is a cursor into it: a slow one costs the others nothing, and finds out by
//! itself when the queue has moved past it.

use std::{
    collections::{BTreeMap, HashMap, VecDeque},
    sync::{Arc, Weak},
};

use foldhash::fast::RandomState;
use parking_lot::Mutex;
use tokio::sync::watch;

use super::events::EventBatch;
use crate::{error::Error, model::Revision};

#[derive(Debug)]
pub(super) struct Group {
    prefix: Box<str>,
    queue: Mutex<Queue>,
    /// Counts what happened to the queue; watchers wait on it.
    moved: watch::Sender<u64>,
}

#[derive(Debug)]
struct Queue {
    batches: VecDeque<Arc<EventBatch>>,
    /// The newest commit under the prefix that is no longer in `batches`.
    floor: Revision,
    ended: Option<Error>,
}

impl Group {
    fn new(prefix: &str, history: &VecDeque<Arc<EventBatch>>, floor: Revision) -> Self {
        let batches = history.iter().filter_map(|batch| filter(batch, prefix)).collect();
        let queue = Mutex::new(Queue { batches, floor, ended: None });
        Self { prefix: prefix.into(), queue, moved: watch::Sender::new(0) }
    }

    pub fn subscribe(&self) -> watch::Receiver<u64> {
        self.moved.subscribe()
    }

    /// The first commit after `after` that is under the prefix, if it has happened.
    pub fn after(&self, after: Revision) -> Result<Option<Arc<EventBatch>>, Error> {
        let queue = self.queue.lock();
        match (queue.batches.get(queue.place(after)?), &queue.ended) {
            (Some(batch), _) => Ok(Some(Arc::clone(batch))),
            (None, Some(error)) => Err(error.clone()),
            (None, None) => Ok(None),
        }
    }

    /// The commits after `after` that are under the prefix and have happened, the first so many.
    pub fn all_after(&self, after: Revision, most: usize) -> Result<Vec<Arc<EventBatch>>, Error> {
        let queue = self.queue.lock();
        Ok(queue.batches.range(queue.place(after)?..).take(most).cloned().collect())
    }

    fn push(&self, batch: Arc<EventBatch>, floor: Revision) {
        let mut queue = self.queue.lock();
        queue.trim(floor);
        queue.batches.push_back(batch);
    }

    pub fn wake(&self) {
        self.moved.send_modify(|moved| *moved += 1);
    }
}

impl Queue {
    /// Where the commits after `after` begin.
    fn place(&self, after: Revision) -> Result<usize, Error> {
        if after < self.floor {
            return Err(Error::Compacted { requested: after, oldest: self.floor });
        }
        Ok(self.batches.partition_point(|batch| batch.revision <= after))
    }

    fn trim(&mut self, floor: Revision) {
        while let Some(batch) = self.batches.pop_front_if(|batch| batch.revision <= floor) {
            self.floor = batch.revision;
        }
    }
}

/// The part of a commit that is under `prefix`; the commit itself if that is all of it.
fn filter(batch: &Arc<EventBatch>, prefix: &str) -> Option<Arc<EventBatch>> {
    let inside = batch.events.iter().filter(|event| event.key().starts_with(prefix));
    match inside.clone().count() {
        0 => None,
        all if all == batch.events.len() => Some(Arc::clone(batch)),
        _ => {
            let events = inside.cloned().collect();
            Some(Arc::new(EventBatch::new(batch.revision, events)))
        }
    }
}

/// All groups, by the length of their prefix: the groups a key belongs to are found with as many
/// look-ups as there are lengths, not groups.
#[derive(Debug, Default)]
pub(super) struct Groups {
    by_length: BTreeMap<usize, HashMap<Box<str>, Weak<Group>, RandomState>>,
    /// Those with something new that their watchers were not told of yet.
    moved: Vec<Arc<Group>>,
}

impl Groups {
    pub fn join(
        &mut self,
        prefix: &str,
        history: &VecDeque<Arc<EventBatch>>,
        floor: Revision,
    ) -> Arc<Group> {
        let groups = self.by_length.entry(prefix.len()).or_default();
        if let Some(group) = groups.get(prefix).and_then(Weak::upgrade) {
            return group;
        }
        let group = Arc::new(Group::new(prefix, history, floor));
        groups.insert(prefix.into(), Arc::downgrade(&group));
        group
    }

    /// Gives a commit to the groups that it concerns; see [`Groups::moved`].
    pub fn publish(&mut self, batch: &Arc<EventBatch>, floor: Revision) {
        for group in self.concerned(batch) {
            let Some(part) = filter(batch, &group.prefix) else { continue };
            group.push(part, floor);
            if !self.moved.iter().any(|moved| Arc::ptr_eq(moved, &group)) {
                self.moved.push(group);
            }
        }
    }

    /// The groups to wake, for what was published since the last call.
    pub fn moved(&mut self) -> Vec<Arc<Group>> {
        std::mem::take(&mut self.moved)
    }

    fn concerned(&self, batch: &EventBatch) -> Vec<Arc<Group>> {
        let mut found: Vec<Arc<Group>> = Vec::new();
        for event in &batch.events {
            for group in self.of_key(event.key()) {
                if !found.iter().any(|known| Arc::ptr_eq(known, &group)) {
                    found.push(group);
                }
            }
        }
        found
    }

    fn of_key<'a>(&'a self, key: &'a str) -> impl Iterator<Item = Arc<Group>> + 'a {
        let lengths = self.by_length.range(..=key.len());
        lengths.filter_map(|(length, groups)| groups.get(key.get(..*length)?)?.upgrade())
    }

    /// Trims idle groups and forgets those without watchers.
    pub fn sweep(&mut self, floor: Revision) {
        for group in self.all() {
            group.queue.lock().trim(floor);
            group.wake();
        }
        self.by_length.retain(|_, groups| {
            groups.retain(|_, group| group.strong_count() != 0);
            !groups.is_empty()
        });
    }

    pub fn reset(&mut self, revision: Revision) {
        for group in self.all() {
            let mut queue = group.queue.lock();
            queue.batches.clear();
            queue.floor = revision;
            drop(queue);
            group.wake();
        }
    }

    pub fn end(&mut self, error: &Error) {
        for group in self.all() {
            group.queue.lock().ended = Some(error.clone());
            group.wake();
        }
    }

    fn all(&self) -> Vec<Arc<Group>> {
        self.by_length.values().flat_map(HashMap::values).filter_map(Weak::upgrade).collect()
    }
}
