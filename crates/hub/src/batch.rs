//! Several writes in one commit: all of them happen, or none.
use crate::error::Error;
use crate::hub::Hub;
use crate::refusal::from_store;
use orrery_store::{COMMIT_BYTES_MAX, OPERATIONS_MAX, Op, Revision, SEGMENTS_MAX};
use parking_lot::Mutex;
use std::collections::BTreeSet;
use std::sync::Arc;

/// What batches that are put together leave free of a commit, for what the store adds to each value.
const BYTES_SPARED: usize = 64 << 10;

/// Writes that wait for their commit. Name it in the options of each apply and delete, which then check
/// everything and write nothing, and hand it to [`Hub::commit`]. Each object may be in it once.
///
/// What was applied without changing anything is part of it too: the commit holds only if all objects
/// still are as they were read.
#[derive(Clone, Debug, Default)]
pub struct Batch {
    ops: Arc<Mutex<Vec<Op>>>,
}

impl Batch {
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds operations; what many of them check alike is checked once.
    pub(crate) fn add(&self, ops: impl IntoIterator<Item = Op>) {
        let mut all = self.ops.lock();
        for op in ops {
            if op.writes() || !all.contains(&op) {
                all.push(op);
            }
        }
    }

    /// Takes in all of another one, where both fit into one commit: no object that one of them writes is
    /// in the other, and it is not too large. Whether they do.
    ///
    /// Committed as one, where something has changed that either depends on, nothing of both is written;
    /// the other one is still there to be committed by itself then.
    pub fn absorb(&self, other: &Self) -> bool {
        let more = other.ops.lock().clone();
        let fits = {
            let all = self.ops.lock();
            all.is_empty() || fit(&all, &more)
        };
        if fits {
            self.add(more);
        }
        fits
    }

    /// How many operations wait.
    pub fn len(&self) -> usize {
        self.ops.lock().len()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// Whether two batches may become one.
fn fit(all: &[Op], more: &[Op]) -> bool {
    let fresh = || more.iter().filter(|op| op.writes() || !all.contains(op));
    if OPERATIONS_MAX < all.len() + fresh().count() {
        return false;
    }
    let both = || all.iter().chain(fresh());
    if COMMIT_BYTES_MAX - BYTES_SPARED < both().map(Op::bytes).sum() {
        return false;
    }
    let meet = |one: &Op, other: &Op| one.key() == other.key() && (one.writes() || other.writes());
    if more.iter().any(|op| all.iter().any(|known| meet(known, op))) {
        return false;
    }
    let written = both().filter(|op| op.writes());
    let segments: BTreeSet<&str> = written.map(segment).collect();
    segments.len() <= SEGMENTS_MAX
}

/// The first part of a key; the store limits how many a commit has.
fn segment(op: &Op) -> &str {
    op.key().split('/').next().unwrap_or_default()
}

impl Hub {
    /// Writes all of a batch at once. [`Error::Conflict`] means that something in it has changed since
    /// it was read, and that nothing was written.
    pub async fn commit(&self, batch: Batch) -> Result<Revision, Error> {
        let ops = std::mem::take(&mut *batch.ops.lock());
        self.store().commit(ops).await.map_err(from_store)
    }
}
