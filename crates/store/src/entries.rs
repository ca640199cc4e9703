//! An ordered map of entries whose snapshots cost nothing.
//!
//! A persistent B-tree: a clone shares all nodes, and a write after it copies only the few nodes
//! on its path. A reader therefore takes the whole map under a lock held for one reference count,
//! however many entries there are, and iterates without any lock while writes go on. The key is
//! kept once, inside the entry. How many entries there are is known for every folder, which is what
//! stands before the last `/` of a key.

use std::{borrow::Borrow, cmp::Ordering, ops::Bound, sync::Arc};

use imbl::{OrdMap, OrdSet};

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
pub(crate) struct Entries {
    all: OrdSet<ByKey>,
    /// How many entries are right in each folder; no folder is empty.
    folders: OrdMap<Arc<str>, usize>,
}

/// What stands before the last `/` of a key, and that `/`.
fn folder(key: &str) -> &str {
    key.rfind('/').map_or("", |end| &key[..=end])
}

impl Entries {
    pub fn len(&self) -> usize {
        self.all.len()
    }

    pub fn get(&self, key: &str) -> Option<&Arc<Entry>> {
        self.all.get(key).map(|found| &found.0)
    }

    /// Puts the entry and answers the one it replaces.
    pub fn insert(&mut self, entry: Arc<Entry>) -> Option<Arc<Entry>> {
        let key = Arc::clone(&entry.key);
        let replaced = self.all.insert(ByKey(entry)).map(|replaced| replaced.0);
        if replaced.is_none() {
            match self.folders.get_mut(folder(&key)) {
                Some(count) => *count += 1,
                None => _ = self.folders.insert(folder(&key).into(), 1),
            }
        }
        replaced
    }

    pub fn remove(&mut self, key: &str) -> Option<Arc<Entry>> {
        let removed = self.all.remove(key).map(|removed| removed.0)?;
        match self.folders.get_mut(folder(key)) {
            Some(count) if 1 < *count => *count -= 1,
            Some(_) | None => _ = self.folders.remove(folder(key)),
        }
        Some(removed)
    }

    /// How many entries are under `prefix`, without looking at each where it is a folder.
    pub fn count(&self, prefix: &str) -> usize {
        if !prefix.is_empty() && !prefix.ends_with('/') {
            return self.range(prefix, None).count();
        }
        let folders = self.folders.range::<_, str>((Bound::Included(prefix), Bound::Unbounded));
        let inside = folders.take_while(|(folder, _)| folder.starts_with(prefix));
        inside.map(|(_, count)| *count).sum()
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
        self.all
            .range::<_, str>((from, Bound::Unbounded))
            .map(|found| &found.0)
            .take_while(move |entry| entry.key.starts_with(prefix))
    }
}

impl FromIterator<Arc<Entry>> for Entries {
    fn from_iter<I: IntoIterator<Item = Arc<Entry>>>(entries: I) -> Self {
        let mut all = Self::default();
        for entry in entries {
            all.insert(entry);
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Revision;
    use proptest::prelude::*;

    fn entry(key: &str) -> Arc<Entry> {
        let at = Revision(1);
        Arc::new(Entry { key: key.into(), value: "v".into(), created: at, modified: at })
    }

    proptest! {
        /// What is counted by folders is what is there.
        #[test]
        fn counts_are_what_is_there(
            steps in prop::collection::vec((any::<bool>(), "[ab](/[ab]){0,2}"), 0..40),
        ) {
            let mut entries = Entries::default();
            for (put, key) in steps {
                if put {
                    entries.insert(entry(&key));
                } else {
                    entries.remove(&key);
                }
            }
            for prefix in ["", "a", "a/", "a/b/", "b", "b/a", "b/a/"] {
                prop_assert_eq!(entries.count(prefix), entries.range(prefix, None).count());
            }
            prop_assert_eq!(entries.count(""), entries.len());
        }
    }
}
