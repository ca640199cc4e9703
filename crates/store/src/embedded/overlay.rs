//! What the commits after the base make of it, as of one revision: what a list is read through.

use std::{collections::BTreeMap, ops::Bound, sync::Arc};

use fjall::{Readable, Snapshot};

use super::{
    format::{self, Commits},
    tables::{Tables, failed},
};
use crate::{
    error::Error,
    model::{Entry, Revision},
};

/// Keys under one prefix that changed after the base.
#[derive(Debug)]
pub(super) struct Overlay {
    prefix: Box<str>,
    /// How far the base went.
    folded: Revision,
    at: Revision,
    /// What became of them; `None` where they are gone.
    changed: BTreeMap<Arc<str>, Option<Entry>>,
}

impl Overlay {
    pub fn read(
        tables: &Tables,
        snapshot: &Snapshot,
        prefix: &str,
        at: Revision,
    ) -> Result<Self, Error> {
        let folded = tables.folded_in(snapshot)?.revision;
        let mut changed = BTreeMap::new();
        let mut last = folded;
        let first = Bound::Excluded(format::revision_key(folded));
        for row in snapshot.range(&tables.commits, (first, Bound::Unbounded)) {
            if at <= last {
                break;
            }
            let (key, row) = row.into_inner().map_err(|error| failed("list", &error))?;
            let commits = Commits::open(&key, &row)?;
            if commits.before != last {
                return Err(format::lost(&format::revision_key(commits.before), "it is missing"));
            }
            commits.each(|written| {
                if written.revision <= at && written.key.starts_with(prefix) {
                    changed.insert(Arc::from(written.key), written.to_entry());
                }
            })?;
            last = commits.last;
        }
        if last < at {
            return Err(format::lost(&format::revision_key(at), "it is missing"));
        }
        Ok(Self { prefix: prefix.into(), folded, at, changed })
    }

    /// Whether it is the one that is needed.
    pub fn is_of(&self, prefix: &str, folded: Revision, at: Revision) -> bool {
        &*self.prefix == prefix && self.folded == folded && self.at == at
    }

    /// In order, from a key on.
    pub fn from(&self, first: &str) -> impl Iterator<Item = (&Arc<str>, Option<&Entry>)> {
        let changed = self.changed.range::<str, _>((Bound::Included(first), Bound::Unbounded));
        changed.map(|(key, entry)| (key, entry.as_ref()))
    }
}
