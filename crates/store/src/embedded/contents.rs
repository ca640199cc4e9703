//! All that a directory holds, found by reading every row once: where each key stands, and whether anything is missing.

use std::{collections::HashMap, sync::Arc};

use fjall::Readable;
use foldhash::fast::RandomState;

use super::{
    format::{self, Commits, Written},
    sum::Sum,
    tables::{Folded, Tables, failed},
};
use crate::{
    error::Error,
    model::{Head, Revision},
};

/// Where every key stands that is there.
pub(super) type Heads = HashMap<Arc<str>, Head, RandomState>;

#[derive(Debug)]
pub(super) struct Contents {
    pub heads: Heads,
    /// The last commit.
    pub head: Revision,
    pub sum: Sum,
}

impl Contents {
    /// Reads the base and what was committed after it. Refuses what does not fit together.
    pub fn read(tables: &Tables, folded: Folded) -> Result<Self, Error> {
        let snapshot = tables.db.snapshot();
        let mut contents =
            Self { heads: Heads::default(), head: folded.revision, sum: Sum::default() };
        for row in snapshot.iter(&tables.base) {
            let (key, row) = row.into_inner().map_err(|error| failed("read the base", &error))?;
            let (key, head, _) = format::decode_base(&key, &row)?;
            contents.set(key, Some(head));
        }
        contents.sum.compare("base", folded.sum)?;
        for row in snapshot.iter(&tables.commits) {
            let (key, row) = row.into_inner().map_err(|error| failed("read commits", &error))?;
            contents.take(&Commits::open(&key, &row)?)?;
        }
        Ok(contents)
    }

    fn take(&mut self, commits: &Commits<'_>) -> Result<(), Error> {
        if commits.before != self.head {
            return Err(format::lost(&format::revision_key(commits.before), "it is missing"));
        }
        commits.each(|Written { revision, key, put }| {
            self.set(key, put.map(|(created, _)| Head { created, modified: revision }));
        })?;
        self.head = commits.last;
        self.sum.compare("commits", commits.sum)
    }

    fn set(&mut self, key: &str, head: Option<Head>) {
        let before = match head {
            Some(head) => {
                self.sum.add(key, head.modified);
                match self.heads.get_mut(key) {
                    Some(known) => Some(std::mem::replace(known, head)),
                    None => self.heads.insert(key.into(), head),
                }
            }
            None => self.heads.remove(key),
        };
        if let Some(before) = before {
            self.sum.remove(key, before.modified);
        }
    }
}
