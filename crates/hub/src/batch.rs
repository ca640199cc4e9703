//! Several writes in one commit: all of them happen, or none.
use crate::error::Error;
use crate::hub::Hub;
use crate::refusal::from_store;
use orrery_store::{Op, Revision};
use parking_lot::Mutex;
use std::sync::Arc;

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

    /// How many operations wait.
    pub fn len(&self) -> usize {
        self.ops.lock().len()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl Hub {
    /// Writes all of a batch at once. [`Error::Conflict`] means that something in it has changed since
    /// it was read, and that nothing was written.
    pub async fn commit(&self, batch: Batch) -> Result<Revision, Error> {
        let ops = std::mem::take(&mut *batch.ops.lock());
        self.store().commit(ops).await.map_err(from_store)
    }
}
