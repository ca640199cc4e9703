//! Forgetting history, a slice at a time, while commits and reads go on.
//!
//! The new bound is made durable first; from then on nobody reads what lies before it. Then the
//! commits up to the bound are folded into the base, oldest first: what they leave of each key goes there, and
//! their rows go away, in one batch. A crash in between leaves commits that the next opening folds.
//!
//! ```text
//!   base up to 40 | commits 41-60 | 61-75 | 76-90 | 91-99        bound: 80
//!   base up to 75                         | 76-90 | 91-99        a row that the bound is in stays
//! ```

use std::{collections::HashMap, ops::Bound, sync::Arc, thread, time::Duration};

use fjall::{PersistMode, Readable, Slice};

use super::{
    Shared,
    format::{self, Commits},
    options::count,
    tables::{Folded, Tables, failed},
};
use crate::{
    error::Error,
    model::{Head, Revision},
};

/// After this many commits were removed, their space is given back.
const RECLAIM_AFTER: usize = 10_000;

/// How often to look whether memory has been written to files; fjall has no way to wait for it.
const FLUSH_POLL: Duration = Duration::from_millis(10);

/// Commits and bytes folded in one batch: short enough that a commit waiting behind it does not notice, and long
/// enough that what is written again and again is folded once.
const SLICE_COMMITS: usize = 1024;
const SLICE_BYTES: usize = 1 << 20;

/// Where forgetting stands.
#[derive(Debug, Default)]
pub(super) struct Progress {
    /// Commits removed since space was last given back.
    removed: usize,
}

pub(super) async fn compact(shared: &Arc<Shared>, up_to: Revision) -> Result<(), Error> {
    let mut progress = shared.compacting.lock().await;
    if !shared.blocking(move |tables| advance(tables, up_to)).await? {
        return Ok(());
    }
    sweep(shared, &mut progress).await?;
    if RECLAIM_AFTER <= progress.removed {
        shared.blocking(give_back).await?;
        progress.removed = 0;
    }
    Ok(())
}

/// Goes on with what a process that died had begun.
pub(super) async fn resume(shared: &Arc<Shared>) -> Result<(), Error> {
    sweep(shared, &mut *shared.compacting.lock().await).await
}

pub(super) async fn reclaim(shared: &Arc<Shared>) -> Result<(), Error> {
    let mut progress = shared.compacting.lock().await;
    shared.blocking(give_back).await?;
    progress.removed = 0;
    Ok(())
}

/// Writes every table anew without what was removed from it. What is in memory goes to files
/// first, which lets go of the journals that hold it.
fn give_back(tables: &Tables) -> Result<(), Error> {
    let all = [&tables.commits, &tables.base, &tables.standing];
    for table in all {
        table.rotate_memtable().map_err(|error| failed("give space back", &error))?;
    }
    while all.iter().any(|table| table.sealed_memtable_count() != 0) {
        // Says when the background, which we wait for, has failed and will never be done.
        let alive = tables.db.persist(PersistMode::Buffer);
        alive.map_err(|error| failed("give space back", &error))?;
        wait_a_moment();
    }
    for table in all {
        table.major_compact().map_err(|error| failed("give space back", &error))?;
    }
    let_go(tables)
}

/// fjall removes the files that others took the place of when it next turns memory into a file: so it is given a row that
/// it has already.
fn let_go(tables: &Tables) -> Result<(), Error> {
    let writing = tables.writing();
    let mut batch = tables.batch().durability(Some(PersistMode::SyncData));
    tables.put_compacted(&mut batch, tables.compacted());
    batch.commit().map_err(|error| failed("give space back", &error))?;
    drop(writing);
    let rotated = tables.standing.rotate_memtable();
    rotated.map(drop).map_err(|error| failed("give space back", &error))
}

/// Folds all that lies before the bound.
async fn sweep(shared: &Arc<Shared>, progress: &mut Progress) -> Result<(), Error> {
    loop {
        let folded = shared.blocking(fold).await?;
        if folded == 0 {
            return Ok(());
        }
        count(&shared.counters.compacted, folded);
        progress.removed += folded;
        // Whoever goes on with a list reads what is left anew.
        shared.overlay.lock().take();
    }
}

/// Moves the bound forward; `false` if it is there already.
fn advance(tables: &Tables, up_to: Revision) -> Result<bool, Error> {
    // Before the look at the bound: a compaction that was given up may still be here, and must not move it back.
    let _writing = tables.writing();
    if up_to <= tables.compacted() {
        return Ok(false);
    }
    let mut batch = tables.batch().durability(Some(PersistMode::SyncData));
    tables.put_compacted(&mut batch, up_to);
    batch.commit().map_err(|error| failed("move the bound of the history", &error))?;
    tables.set_compacted(up_to);
    Ok(true)
}

/// Folds the oldest commits before the bound; how many. None where there is no whole row of them.
fn fold(tables: &Tables) -> Result<usize, Error> {
    prepare(tables)?.map_or(Ok(0), |slice| slice.write(tables))
}

/// Commits on their way into the base.
pub(super) struct Prepared {
    before: Folded,
    folded: Folded,
    batch: fjall::OwnedWriteBatch,
}

impl Prepared {
    /// Writes it, unless another was faster: one that was given up goes on where it was, and what it has read is old.
    pub fn write(self, tables: &Tables) -> Result<usize, Error> {
        let Self { before, folded, batch } = self;
        let _writing = tables.writing();
        let now = tables.folded_in(&tables.db.snapshot())?;
        if now != before {
            return Ok(distance(before, now));
        }
        batch.commit().map_err(|error| failed("fold history", &error))?;
        Ok(distance(before, folded))
    }
}

fn distance(before: Folded, after: Folded) -> usize {
    usize::try_from(after.revision.0.saturating_sub(before.revision.0)).unwrap_or(usize::MAX)
}

/// Reads the oldest commits before the bound.
pub(super) fn prepare(tables: &Tables) -> Result<Option<Prepared>, Error> {
    let snapshot = tables.db.snapshot();
    let before = tables.folded_in(&snapshot)?;
    let bound = Bound::Included(format::revision_key(tables.compacted_in(&snapshot)?));
    let first = Bound::Excluded(format::revision_key(before.revision));
    let (mut rows, mut bytes, mut folded) = (Vec::new(), 0, before);
    for row in snapshot.range(&tables.commits, (first, bound)) {
        let row = row.into_inner().map_err(|error| failed("read commits", &error))?;
        let commits = Commits::open(&row.0, &row.1)?;
        // What is missing now could never be named again.
        if commits.before != folded.revision {
            return Err(format::lost(&format::revision_key(commits.before), "it is missing"));
        }
        folded = Folded { revision: commits.last, sum: commits.sum };
        bytes += row.1.len();
        rows.push(row);
        if SLICE_COMMITS <= distance(before, folded) || SLICE_BYTES <= bytes {
            break;
        }
    }
    if rows.is_empty() {
        return Ok(None);
    }
    // Synced like every other batch, so that only the last one of a journal can ever be torn.
    let mut batch = tables.batch().durability(Some(PersistMode::SyncData));
    settle(tables, &mut batch, &rows)?;
    tables.put_folded(&mut batch, folded);
    Ok(Some(Prepared { before, folded, batch }))
}

/// What these commits leave of each key goes to the base, and they go.
fn settle(
    tables: &Tables,
    batch: &mut fjall::OwnedWriteBatch,
    rows: &[(Slice, Slice)],
) -> Result<(), Error> {
    let mut last = HashMap::new();
    for (row_key, row) in rows {
        Commits::open(row_key, row)?.each(|written| _ = last.insert(written.key, written))?;
        batch.remove(&tables.commits, row_key.clone());
    }
    for (key, written) in last {
        match written.put {
            Some((created, value)) => {
                let head = Head { created, modified: written.revision };
                batch.insert(&tables.base, key, format::encode_base(key, head, value));
            }
            None => batch.remove(&tables.base, key),
        }
    }
    Ok(())
}

#[allow(clippy::disallowed_methods, reason = "this is a thread of its own, and fjall tells nobody")]
fn wait_a_moment() {
    thread::sleep(FLUSH_POLL);
}
