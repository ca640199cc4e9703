//! Reads from the tables, each from one snapshot of all of them. Blocking.

use std::{ops::Bound, sync::Arc};

use fjall::{Readable, Snapshot};

use super::{
    format::{self, Kind, Logged, Version},
    tables::{Tables, failed},
};
use crate::{
    engine::{Batch, Change, ListRequest, Listing},
    error::Error,
    model::{Entry, Revision},
};

pub(super) fn get(tables: &Tables, key: &str) -> Result<Option<Entry>, Error> {
    let snapshot = tables.db.snapshot();
    let row = snapshot.get(&tables.heads, key).map_err(|error| failed("read a head", &error))?;
    let Some(row) = row else { return Ok(None) };
    let head = format::decode_head(key, &row)?;
    value_at(tables, &snapshot, key, head.modified).map(Some)
}

pub(super) fn list(tables: &Tables, request: &ListRequest) -> Result<Listing, Error> {
    let snapshot = tables.db.snapshot();
    let current = tables.head_in(&snapshot)?;
    let revision = request.at.unwrap_or(current);
    check_bounds(tables.compacted_in(&snapshot)?, revision, current)?;
    let mut scan = Scan { limit: request.limit, entries: Vec::new(), candidate: None };
    let rows = snapshot.range(&tables.values, (first_row(request), Bound::Unbounded));
    for row in rows {
        let (row_key, row) = row.into_inner().map_err(|error| failed("list", &error))?;
        let (key, version) = format::split_value_key(&row_key)?;
        if !key.starts_with(&request.prefix) {
            break;
        }
        if revision < version {
            continue;
        }
        if scan.offer(key, version, &row_key, &row)? {
            return Ok(Listing { entries: scan.entries, revision, more: true });
        }
    }
    let more = scan.settle()?;
    Ok(Listing { entries: scan.entries, revision, more })
}

fn check_bounds(oldest: Revision, requested: Revision, current: Revision) -> Result<(), Error> {
    if requested < oldest {
        return Err(Error::Compacted { requested, oldest });
    }
    if current < requested {
        return Err(Error::FutureRevision { requested, current });
    }
    Ok(())
}

/// The first row that can belong to the page: after all versions of the key before it.
fn first_row(request: &ListRequest) -> Bound<Vec<u8>> {
    match &request.after {
        Some(after) if request.prefix.as_str() <= after.as_ref() => {
            let mut row = after.as_bytes().to_vec();
            row.push(1);
            Bound::Included(row)
        }
        Some(_) | None => Bound::Included(request.prefix.as_bytes().to_vec()),
    }
}

/// Walks the versions of each key, oldest first, and keeps the last one of each.
struct Scan {
    limit: usize,
    entries: Vec<Entry>,
    candidate: Option<Candidate>,
}

struct Candidate {
    key: Arc<str>,
    modified: Revision,
    row_key: fjall::Slice,
    row: fjall::Slice,
}

impl Scan {
    /// Takes the next version; `true` if the page was full before it.
    fn offer(
        &mut self,
        key: &str,
        modified: Revision,
        row_key: &fjall::Slice,
        row: &fjall::Slice,
    ) -> Result<bool, Error> {
        let (row_key, row) = (row_key.clone(), row.clone());
        match &mut self.candidate {
            Some(candidate) if candidate.key.as_ref() == key => {
                (candidate.modified, candidate.row_key, candidate.row) = (modified, row_key, row);
                Ok(false)
            }
            Some(_) | None => {
                let full = self.settle()?;
                self.candidate = Some(Candidate { key: key.into(), modified, row_key, row });
                Ok(full)
            }
        }
    }

    /// Turns the candidate into an entry, unless it was deleted; `true` if there is no room.
    fn settle(&mut self) -> Result<bool, Error> {
        let Some(candidate) = self.candidate.take() else { return Ok(false) };
        match format::decode_version(&candidate.row_key, &candidate.row)? {
            Version::Tombstone => Ok(false),
            Version::Value { .. } if self.limit != 0 && self.limit == self.entries.len() => {
                Ok(true)
            }
            Version::Value { created, value } => {
                let Candidate { key, modified, .. } = candidate;
                self.entries.push(Entry { key, value, created, modified });
                Ok(false)
            }
        }
    }
}

/// Part of the log: whole commits in order, and the revision up to which nothing is missing.
pub(super) struct Replay {
    pub batches: Vec<Batch>,
    pub up_to: Revision,
}

/// At most `limit` commits after `after`.
pub(super) fn replay(tables: &Tables, after: Revision, limit: usize) -> Result<Replay, Error> {
    let snapshot = tables.db.snapshot();
    let oldest = tables.compacted_in(&snapshot)?;
    if after < oldest {
        return Err(Error::Compacted { requested: after, oldest });
    }
    let from = format::revision_key(after.next());
    let (mut batches, mut last) = (Vec::new(), after);
    for row in snapshot.range(&tables.log, (Bound::Included(from), Bound::Unbounded)).take(limit) {
        let (row_key, row) = row.into_inner().map_err(|error| failed("read the log", &error))?;
        let revision = log_revision(&row_key)?;
        let (before, changes) = format::decode_log(revision, &row)?;
        if last < before {
            return Err(format::corrupt("log", &format::revision_key(before), "it is missing"));
        }
        last = revision;
        let changes = changes.into_iter().map(|logged| change(tables, &snapshot, logged, revision));
        batches.push(Batch { revision, changes: changes.collect::<Result<_, _>>()? });
    }
    let head = tables.head_in(&snapshot)?;
    if batches.len() < limit && last < head {
        return Err(format::corrupt("log", &format::revision_key(head), "it is missing"));
    }
    Ok(Replay { batches, up_to: last })
}

pub(super) fn log_revision(row_key: &[u8]) -> Result<Revision, Error> {
    let bytes = row_key.try_into();
    let bytes = bytes.map_err(|_| format::corrupt("log", row_key, "the key is no revision"))?;
    Ok(Revision(u64::from_be_bytes(bytes)))
}

fn change(
    tables: &Tables,
    snapshot: &Snapshot,
    logged: Logged,
    revision: Revision,
) -> Result<Change, Error> {
    match logged.kind {
        Kind::Put => value_at(tables, snapshot, &logged.key, revision).map(Change::Put),
        Kind::Delete => Ok(Change::Delete { key: logged.key, revision }),
    }
}

fn value_at(
    tables: &Tables,
    snapshot: &Snapshot,
    key: &str,
    modified: Revision,
) -> Result<Entry, Error> {
    let row_key = format::value_key(key, modified);
    let row = snapshot.get(&tables.values, &row_key).map_err(|e| failed("read a value", &e))?;
    let row = row.ok_or_else(|| format::corrupt("values", &row_key, "it is missing"))?;
    match format::decode_version(&row_key, &row)? {
        Version::Value { created, value } => {
            Ok(Entry { key: key.into(), value, created, modified })
        }
        Version::Tombstone => Err(format::corrupt("values", &row_key, "it is deleted")),
    }
}
