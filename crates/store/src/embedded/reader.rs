//! Reads from the tables, each from one snapshot of all of them. Blocking.

use std::{iter::Peekable, ops::Bound, sync::Arc};

use bytes::Bytes;
use fjall::Readable;
use parking_lot::Mutex;

use super::{
    format::{self, Commits},
    overlay::Overlay,
    tables::{Tables, failed},
};
use crate::{
    engine::{Batch, ListRequest, Listing},
    error::Error,
    model::{Entry, Head, Revision},
};

/// The entry of a key, which stands where `head` says.
pub(super) fn get(
    tables: &Tables,
    key: &str,
    head: impl Fn(&str) -> Option<Head>,
) -> Result<Option<Entry>, Error> {
    let mut before = None;
    // Again only if the key was written and folded between two lines: then it stands elsewhere.
    loop {
        let Some(Head { modified, .. }) = head(key) else { return Ok(None) };
        if before.replace(modified) == Some(modified) {
            return Err(format::corrupt("base", key.as_bytes(), "it is missing"));
        }
        let snapshot = tables.db.snapshot();
        let found = if tables.folded_in(&snapshot)?.revision < modified {
            committed(tables, &snapshot, key, modified)?
        } else {
            let row = snapshot.get(&tables.base, key);
            let row = row.map_err(|error| failed("read a value", &error))?;
            row.map(|row| based(key.as_bytes(), &row)).transpose()?
        };
        if let Some(found) = found.filter(|found| found.modified == modified) {
            return Ok(Some(found));
        }
    }
}

/// The entry of a key that this very commit wrote.
fn committed(
    tables: &Tables,
    snapshot: &impl Readable,
    key: &str,
    modified: Revision,
) -> Result<Option<Entry>, Error> {
    let first = Bound::Included(format::revision_key(modified));
    let row = snapshot.range(&tables.commits, (first, Bound::Unbounded)).next();
    let row = row.ok_or_else(|| format::lost(&format::revision_key(modified), "it is missing"))?;
    let (row_key, row) = row.into_inner().map_err(|error| failed("read a value", &error))?;
    let mut found = None;
    Commits::open(&row_key, &row)?.each(|written| {
        if written.revision == modified && written.key == key {
            found = written.to_entry();
        }
    })?;
    found.map_or_else(|| Err(format::lost(&row_key, "it lacks a value")), |it| Ok(Some(it)))
}

fn based(row_key: &[u8], row: &[u8]) -> Result<Entry, Error> {
    let (key, Head { created, modified }, value) = format::decode_base(row_key, row)?;
    Ok(Entry { key: key.into(), value: Bytes::copy_from_slice(value), created, modified })
}

/// A list at a revision up to `current`. What lists in parts read once for all parts is kept in `kept`.
pub(super) fn list(
    tables: &Tables,
    kept: &Mutex<Option<Arc<Overlay>>>,
    request: &ListRequest,
    current: Revision,
) -> Result<Listing, Error> {
    let snapshot = tables.db.snapshot();
    let oldest = tables.compacted_in(&snapshot)?;
    // History may have gone since `current` was read, up to a commit that came after it and is there.
    let current = current.max(oldest);
    let revision = request.at.unwrap_or(current);
    check_bounds(oldest, revision, current)?;
    let folded = tables.folded_in(&snapshot)?.revision;
    let overlay = kept.lock().take().filter(|it| it.is_of(&request.prefix, folded, revision));
    let overlay = match overlay {
        Some(overlay) => overlay,
        None => Arc::new(Overlay::read(tables, &snapshot, &request.prefix, revision)?),
    };
    let first = first_key(request);
    let changed = overlay.from(&first).peekable();
    let rows = snapshot.range(&tables.base, first.as_str()..);
    let mut merged = Merged { changed, entries: Vec::new(), limit: request.limit };
    let mut full = false;
    for row in rows {
        let (key, row) = row.into_inner().map_err(|error| failed("list", &error))?;
        if !key.starts_with(request.prefix.as_bytes()) {
            break;
        }
        full = merged.offer(&key, &row)?;
        if full {
            break;
        }
    }
    let more = full || merged.finish();
    let entries = merged.entries;
    if more {
        *kept.lock() = Some(Arc::clone(&overlay));
    }
    Ok(Listing { entries, revision, more })
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

/// The first key that can belong to the page: after the last of the page before. No key has a NUL in it.
fn first_key(request: &ListRequest) -> String {
    match &request.after {
        Some(after) if request.prefix.as_str() <= after.as_ref() => format!("{after}\0"),
        Some(_) | None => request.prefix.clone(),
    }
}

/// Entries of the base and of what changed after it, in the order of their keys.
struct Merged<'a, C: Iterator<Item = (&'a Arc<str>, Option<&'a Entry>)>> {
    changed: Peekable<C>,
    entries: Vec<Entry>,
    limit: usize,
}

impl<'a, C: Iterator<Item = (&'a Arc<str>, Option<&'a Entry>)>> Merged<'a, C> {
    /// Takes the next row of the base, and what changed up to it; `true` if there is no room for all of it.
    fn offer(&mut self, key: &[u8], row: &[u8]) -> Result<bool, Error> {
        let mut replaced = false;
        while let Some((changed, entry)) =
            self.changed.next_if(|(changed, _)| changed.as_bytes() <= key)
        {
            replaced = changed.as_bytes() == key;
            if self.push(entry.cloned()) {
                return Ok(true);
            }
        }
        let entry = if replaced { None } else { Some(based(key, row)?) };
        Ok(self.push(entry))
    }

    /// Takes the rest of what changed; `true` if there is no room for all of it.
    fn finish(&mut self) -> bool {
        while let Some((_, entry)) = self.changed.next() {
            if self.push(entry.cloned()) {
                return true;
            }
        }
        false
    }

    /// `true` if there is no room.
    fn push(&mut self, entry: Option<Entry>) -> bool {
        let Some(entry) = entry else { return false };
        if self.limit != 0 && self.limit == self.entries.len() {
            return true;
        }
        self.entries.push(entry);
        false
    }
}

/// Part of the history: whole commits in order, and the revision up to which nothing is missing.
pub(super) struct Replay {
    pub batches: Vec<Batch>,
    pub up_to: Revision,
}

/// The commits after `after` up to `head` or later, about `limit` of them.
pub(super) fn replay(
    tables: &Tables,
    after: Revision,
    head: Revision,
    limit: usize,
) -> Result<Replay, Error> {
    let snapshot = tables.db.snapshot();
    let oldest = tables.compacted_in(&snapshot)?;
    if after < oldest {
        return Err(Error::Compacted { requested: after, oldest });
    }
    let (mut batches, mut last) = (Vec::new(), after);
    let first = Bound::Excluded(format::revision_key(after));
    for row in snapshot.range(&tables.commits, (first, Bound::Unbounded)) {
        if limit <= batches.len() {
            return Ok(Replay { batches, up_to: last });
        }
        let (row_key, row) = row.into_inner().map_err(|error| failed("read commits", &error))?;
        let commits = Commits::open(&row_key, &row)?;
        // The first row may begin before what is asked for.
        if last < commits.before {
            return Err(format::lost(&format::revision_key(commits.before), "it is missing"));
        }
        batches.extend(commits.batches(after)?);
        last = commits.last;
    }
    if last < head {
        return Err(format::lost(&format::revision_key(head), "it is missing"));
    }
    Ok(Replay { batches, up_to: last })
}
