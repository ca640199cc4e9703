//! All entries at one revision, immutable and shared.

use std::sync::Arc;

use super::{
    events::{Event, EventBatch},
    index::Index,
};
use crate::{
    entries::Entries,
    model::{Entry, Revision},
};

/// All cached entries at one revision. Holding it blocks nobody; it costs the memory of what has
/// changed since.
#[derive(Clone, Debug)]
pub struct Snapshot {
    pub(super) entries: Entries,
    pub(super) index: Option<Index>,
    pub(super) revision: Revision,
}

impl Snapshot {
    pub fn revision(&self) -> Revision {
        self.revision
    }

    pub fn get(&self, key: &str) -> Option<&Arc<Entry>> {
        self.entries.get(key)
    }

    /// The entries under `prefix` in the order of their keys.
    pub fn range<'a>(&'a self, prefix: &'a str) -> impl Iterator<Item = &'a Arc<Entry>> {
        self.entries.range(prefix, None)
    }

    /// The entries under `prefix` whose key comes after `after`: the rest of a list in pages.
    pub fn range_after<'a>(
        &'a self,
        prefix: &'a str,
        after: &'a str,
    ) -> impl Iterator<Item = &'a Arc<Entry>> {
        self.entries.range(prefix, Some(after))
    }

    /// The keys under `prefix` and after `after` of the entries that have a term, in order; `None`
    /// where nobody knows, because no index is kept.
    pub fn keys_with<'a>(
        &'a self,
        term: &'a str,
        prefix: &'a str,
        after: &'a str,
    ) -> Option<impl Iterator<Item = &'a str>> {
        self.index.as_ref().map(|index| index.keys(term, prefix, after))
    }

    /// Whether entries can be found by their terms.
    pub fn has_index(&self) -> bool {
        self.index.is_some()
    }

    /// How many entries are under `prefix`, which costs little where it ends with a `/`.
    pub fn count(&self, prefix: &str) -> usize {
        self.entries.count(prefix)
    }

    pub fn len(&self) -> usize {
        self.entries.len()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// A later state and the way back from it, taken under the lock and walked without it.
pub(super) struct Past {
    pub from: Snapshot,
    /// Everything after the wanted revision up to that state, newest first.
    pub undo: Vec<Arc<EventBatch>>,
    pub revision: Revision,
}

impl Past {
    pub fn rebuild(self) -> Snapshot {
        let Snapshot { mut entries, mut index, .. } = self.from;
        for event in self.undo.iter().flat_map(|batch| batch.events.iter().rev()) {
            undo(&mut entries, event);
            if let Some(index) = &mut index {
                let (now, before) = sides(event);
                index.change(now, before);
            }
        }
        Snapshot { entries, index, revision: self.revision }
    }
}

fn undo(entries: &mut Entries, event: &Event) {
    match event {
        Event::Put { previous: Some(previous), .. } | Event::Delete { previous, .. } => {
            entries.insert(Arc::clone(previous));
        }
        Event::Put { entry, previous: None } => {
            entries.remove(&entry.key);
        }
    }
}

/// What an event left, and what it found.
fn sides(event: &Event) -> (Option<&Entry>, Option<&Entry>) {
    match event {
        Event::Put { entry, previous } => (Some(entry.as_ref()), previous.as_deref()),
        Event::Delete { previous, .. } => (None, Some(previous.as_ref())),
    }
}
