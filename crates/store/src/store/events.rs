//! What watchers receive: one allocation per commit, shared by all of them.

use std::sync::Arc;

use smallvec::SmallVec;

use crate::model::{Entry, Revision};

/// What one commit changed under a prefix.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventBatch {
    pub revision: Revision,
    pub events: SmallVec<[Event; 1]>,
    /// What keeping this batch costs, roughly: keys and values, old and new. Reckoned while they are at hand.
    bytes: usize,
}

/// One change with what was there before, so that a watcher with a selector can tell an object
/// that left it from one that never was inside.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    Put { entry: Arc<Entry>, previous: Option<Arc<Entry>> },
    Delete { previous: Arc<Entry>, revision: Revision },
}

impl Event {
    pub fn key(&self) -> &Arc<str> {
        match self {
            Self::Put { entry, .. } => &entry.key,
            Self::Delete { previous, .. } => &previous.key,
        }
    }

    pub fn revision(&self) -> Revision {
        match self {
            Self::Put { entry, .. } => entry.modified,
            Self::Delete { revision, .. } => *revision,
        }
    }
}

impl EventBatch {
    pub(super) fn new(revision: Revision, events: SmallVec<[Event; 1]>) -> Self {
        let bytes = events.iter().map(size).sum();
        Self { revision, events, bytes }
    }

    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }
}

fn size(event: &Event) -> usize {
    let entry = |entry: &Arc<Entry>| entry.key.len() + entry.value.len();
    match event {
        Event::Put { entry: now, previous } => entry(now) + previous.as_ref().map_or(0, entry),
        Event::Delete { previous, .. } => entry(previous),
    }
}
