//! Forgetting history, a slice at a time, while commits and reads go on.
//!
//! The new bound is made durable first; from then on nobody reads what lies before it. Then the
//! log is walked from its beginning to the bound: each commit there names the version it took the
//! place of, which is removed together with the log row. A crash in between leaves rows that the
//! next opening removes.

use std::{ops::Bound, sync::Arc, thread, time::Duration};

use fjall::{PersistMode, Readable};

use super::{
    Shared,
    format::{self, Kind, Logged},
    options::count,
    reader,
    tables::{Tables, failed},
};
use crate::{error::Error, model::Revision};

/// After this many commits were removed, their space is given back.
const RECLAIM_AFTER: usize = 10_000;

/// How often to look whether memory has been written to files; fjall has no way to wait for it.
const FLUSH_POLL: Duration = Duration::from_millis(10);

/// Commits removed in one batch: short enough that a commit waiting behind it does not notice.
const SLICE: usize = 256;

/// Where forgetting stands.
#[derive(Debug, Default)]
pub(super) struct Progress {
    /// Commits removed since space was last given back.
    removed: usize,
    /// The newest commit removed since the store was opened. What was removed leaves marks in the
    /// log until its files are written anew, and a walk that began before them would read each one.
    swept: Revision,
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
    let all = [&tables.log, &tables.values, &tables.heads, &tables.meta];
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
    Ok(())
}

/// Removes all that lies before the bound.
async fn sweep(shared: &Arc<Shared>, progress: &mut Progress) -> Result<(), Error> {
    loop {
        let after = progress.swept;
        let Slice { removed, last } = shared.blocking(move |tables| slice(tables, after)).await?;
        count(&shared.counters.compacted, removed);
        progress.removed += removed;
        progress.swept = last;
        if removed < SLICE {
            return Ok(());
        }
    }
}

/// Moves the bound forward; `false` if it is there already.
fn advance(tables: &Tables, up_to: Revision) -> Result<bool, Error> {
    if up_to <= tables.compacted() {
        return Ok(false);
    }
    let mut batch = tables.batch().durability(Some(PersistMode::SyncData));
    tables.put_compacted(&mut batch, up_to);
    let writing = tables.writing();
    batch.commit().map_err(|error| failed("move the bound of the history", &error))?;
    drop(writing);
    tables.set_compacted(up_to);
    Ok(true)
}

/// What one batch removed.
struct Slice {
    removed: usize,
    last: Revision,
}

/// Removes the oldest commits after `after` and up to the bound.
fn slice(tables: &Tables, after: Revision) -> Result<Slice, Error> {
    let snapshot = tables.db.snapshot();
    let bound = format::revision_key(tables.compacted_in(&snapshot)?);
    // Synced like every other batch, so that only the last one of a journal can ever be torn.
    let mut batch = tables.batch().durability(Some(PersistMode::SyncData));
    let mut done = Slice { removed: 0, last: after };
    let after = Bound::Excluded(format::revision_key(after));
    let rows = snapshot.range(&tables.log, (after, Bound::Included(bound)));
    for row in rows.take(SLICE) {
        let (row_key, row) = row.into_inner().map_err(|error| failed("read the log", &error))?;
        let revision = reader::log_revision(&row_key)?;
        let (_, changes) = format::decode_log(revision, &row)?;
        for logged in changes {
            remove_superseded(tables, &mut batch, &logged, revision);
        }
        batch.remove(&tables.log, row_key);
        done = Slice { removed: done.removed + 1, last: revision };
    }
    let _writing = tables.writing();
    batch.commit().map_err(|error| failed("remove history", &error))?;
    Ok(done)
}

/// What nobody can read any more once history begins at or after `revision`: the version before,
/// and the mark of a deletion.
fn remove_superseded(
    tables: &Tables,
    batch: &mut fjall::OwnedWriteBatch,
    logged: &Logged,
    revision: Revision,
) {
    if logged.previous != Revision::ZERO {
        batch.remove(&tables.values, format::value_key(&logged.key, logged.previous));
    }
    match logged.kind {
        Kind::Put => {}
        Kind::Delete => batch.remove(&tables.values, format::value_key(&logged.key, revision)),
    }
}

#[allow(clippy::disallowed_methods, reason = "this is a thread of its own, and fjall tells nobody")]
fn wait_a_moment() {
    thread::sleep(FLUSH_POLL);
}
