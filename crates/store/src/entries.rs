//! An ordered map of entries whose snapshots cost nothing.
//!
//! A persistent B-tree: a clone shares all nodes, and a write after it copies only the few nodes
//! on its path. A reader therefore takes the whole map under a lock held for one reference count,
//! however many entries there are, and iterates without any lock while writes go on. The key is
//! kept once, inside the entry.

use std::{borrow::Borrow, cmp::Ordering, ops::Bound, sync::Arc};

use imbl::OrdSet;

use crate::model::Entry;

#[derive(Clone, Debug)]
struct ByKey(Arc<Entry>);

impl Borrow<str> for ByKey {
    fn borrow(&self) -> &str {
        &self.0.key
    }
}

impl PartialEq for ByKey {
    fn eq(&self, other: &Self) -> bool {
        self.0.key == other.0.key
    }
}

impl Eq for ByKey {}

impl PartialOrd for ByKey {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for ByKey {
    fn cmp(&self, other: &Self) -> Ordering {
        self.0.key.cmp(&other.0.key)
    }
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Entries(OrdSet<ByKey>);

impl Entries {
    pub fn len(&self) -> usize {
        self.0.len()
    }

    pub fn get(&self, key: &str) -> Option<&Arc<Entry>> {
        let at = (Bound::Included(key), Bound::Included(key));
        self.0.range::<_, str>(at).next().map(|found| &found.0)
    }

    /// Puts the entry and answers the one it replaces.
    pub fn insert(&mut self, entry: Arc<Entry>) -> Option<Arc<Entry>> {
        self.0.insert(ByKey(entry)).map(|replaced| replaced.0)
    }

    pub fn remove(&mut self, key: &str) -> Option<Arc<Entry>> {
        self.0.remove(key).map(|removed| removed.0)
    }

    /// The entries under `prefix`, after the key `after` if there is one, in order.
    pub fn range<'a>(
        &'a self,
        prefix: &'a str,
        after: Option<&'a str>,
    ) -> impl Iterator<Item = &'a Arc<Entry>> {
        let from = match after {
            Some(after) if prefix <= after => Bound::Excluded(after),
            Some(_) | None => Bound::Included(prefix),
        };
        self.0
            .range::<_, str>((from, Bound::Unbounded))
            .map(|found| &found.0)
            .take_while(move |entry| entry.key.starts_with(prefix))
    }
}

impl FromIterator<Arc<Entry>> for Entries {
    fn from_iter<I: IntoIterator<Item = Arc<Entry>>>(entries: I) -> Self {
        Self(entries.into_iter().map(ByKey).collect())
    }
}
