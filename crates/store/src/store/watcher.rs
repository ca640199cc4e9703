//! One consumer of changes: a cursor into the queue of its group.

use std::{fmt, sync::Arc};

use futures::{StreamExt, stream, stream::BoxStream};
use tokio::sync::watch;

use super::{Shared, events::EventBatch, groups::Group};
use crate::{error::Error, model::Revision};

/// Every change under one prefix after one revision. Buffers nothing of its own.
pub struct Watcher {
    shared: Arc<Shared>,
    group: Arc<Group>,
    moved: watch::Receiver<u64>,
    seen: Revision,
}

impl Watcher {
    pub(super) fn new(shared: Arc<Shared>, group: Arc<Group>, after: Revision) -> Self {
        let moved = group.subscribe();
        Self { shared, group, moved, seen: after }
    }

    /// The next commit under the prefix, reduced to it; waits for it if need be. May be dropped
    /// and called again without losing anything. [`Error::Compacted`] means that this watcher was
    /// too slow, or the store had to list anew: list again and open a new watch.
    pub async fn next(&mut self) -> Result<Arc<EventBatch>, Error> {
        loop {
            self.moved.mark_unchanged();
            if let Some(batch) = self.group.after(self.seen)? {
                self.seen = batch.revision;
                return Ok(batch);
            }
            self.moved.changed().await.map_err(|_| super::stopped())?;
        }
    }

    /// The commits under the prefix that have happened already, so many at the most, without waiting.
    pub fn ready(&mut self, most: usize) -> Result<Vec<Arc<EventBatch>>, Error> {
        let batches = self.group.all_after(self.seen, most)?;
        self.seen = batches.last().map_or(self.seen, |last| last.revision);
        Ok(batches)
    }

    /// A revision up to which everything was delivered, as new as it can be without waiting. A
    /// consumer that resumes from it misses nothing and is less likely to find it compacted.
    pub fn bookmark(&mut self) -> Revision {
        let state = self.shared.state.read();
        if matches!(self.group.after(self.seen), Ok(None)) {
            self.seen = self.seen.max(state.revision());
        }
        self.seen
    }

    pub fn into_stream(self) -> BoxStream<'static, Result<Arc<EventBatch>, Error>> {
        let read = |watcher: Option<Self>| async move {
            let mut watcher = watcher?;
            let next = watcher.next().await;
            let rest = next.is_ok().then_some(watcher);
            Some((next, rest))
        };
        stream::unfold(Some(self), read).boxed()
    }
}

impl fmt::Debug for Watcher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Watcher").field("seen", &self.seen).finish_non_exhaustive()
    }
}
