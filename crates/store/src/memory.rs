//! The engine of tests: everything in memory, and simple enough to be the model for the others.
//!
//! Each commit keeps a snapshot of the whole map, which shares all but a few nodes with the one
//! before, so reading the past is looking it up.

use std::{collections::VecDeque, sync::Arc, time::Duration};

use async_trait::async_trait;
use futures::{StreamExt, stream};
use parking_lot::Mutex;
use tokio::sync::watch;

use crate::{
    engine::{Batch, Change, Changes, Engine, ListRequest, Listing, Watch},
    entries::Entries,
    error::Error,
    judge,
    lease::{Lease, LocalLeases},
    model::{Entry, Incarnation, Op, Revision},
};

/// An empty store that lives as long as its last user.
pub fn memory() -> Arc<dyn Engine> {
    Arc::new_cyclic(|engine: &std::sync::Weak<Memory>| {
        let first =
            Moment { revision: Revision(1), entries: Entries::default(), changes: Changes::new() };
        Memory {
            incarnation: Incarnation::fresh(),
            shared: Arc::new(Shared {
                history: Mutex::new(VecDeque::from([first])),
                head: watch::Sender::new(Some(Revision(1))),
            }),
            leases: LocalLeases::new(engine.clone()),
        }
    })
}

#[derive(Debug)]
struct Memory {
    incarnation: Incarnation,
    shared: Arc<Shared>,
    leases: LocalLeases,
}

#[derive(Debug)]
struct Shared {
    /// Every moment since the last compaction, oldest first, never empty.
    history: Mutex<VecDeque<Moment>>,
    /// The revision of the last moment; `None` once closed.
    head: watch::Sender<Option<Revision>>,
}

/// The state after one commit, and what that commit changed.
#[derive(Debug)]
struct Moment {
    revision: Revision,
    entries: Entries,
    changes: Changes,
}

impl Shared {
    fn open(&self) -> Result<Revision, Error> {
        let head = *self.head.borrow();
        head.ok_or_else(|| Error::unavailable("the engine is closed"))
    }

    fn entries_at(&self, at: Option<Revision>) -> Result<(Revision, Entries), Error> {
        let current = self.open()?;
        let history = self.history.lock();
        let at = at.unwrap_or(current);
        check_bounds(&history, at)?;
        let after = history.partition_point(|moment| moment.revision <= at);
        Ok((at, history[after - 1].entries.clone()))
    }

    fn changes_after(&self, after: Revision) -> Result<Vec<Batch>, Error> {
        let history = self.history.lock();
        check_bounds(&history, after)?;
        let from = history.partition_point(|moment| moment.revision <= after);
        let batch = |m: &Moment| Batch { revision: m.revision, changes: m.changes.clone() };
        Ok(history.range(from..).take(BATCHES_PER_READ).map(batch).collect())
    }

    fn commit(&self, ops: &[Op]) -> Result<Revision, Error> {
        self.open()?;
        let mut history = self.history.lock();
        let last = &history[history.len() - 1];
        let head = |key: &str| Ok(last.entries.get(key).map(|entry| entry.head()));
        judge::judge(ops, head)?;
        if !ops.iter().any(Op::writes) {
            return Ok(last.revision);
        }
        let moment = last.after(ops);
        let revision = moment.revision;
        history.push_back(moment);
        self.head.send_replace(Some(revision));
        Ok(revision)
    }
}

/// How many commits a watcher copies at once, so that it neither holds the lock for long nor
/// buffers much.
const BATCHES_PER_READ: usize = 64;

fn check_bounds(history: &VecDeque<Moment>, at: Revision) -> Result<(), Error> {
    let (oldest, current) = (history[0].revision, history[history.len() - 1].revision);
    if at < oldest {
        return Err(Error::Compacted { requested: at, oldest });
    }
    if current < at {
        return Err(Error::FutureRevision { requested: at, current });
    }
    Ok(())
}

impl Moment {
    fn after(&self, ops: &[Op]) -> Self {
        let revision = self.revision.next();
        let mut entries = self.entries.clone();
        let changes = ops.iter().filter_map(|op| apply(&mut entries, op, revision)).collect();
        Self { revision, entries, changes }
    }
}

fn apply(entries: &mut Entries, op: &Op, revision: Revision) -> Option<Change> {
    match op {
        Op::Put { key, value, .. } => {
            let created = entries.get(key).map_or(revision, |entry| entry.created);
            let (key, value) = (Arc::clone(key), value.clone());
            let entry = Entry { key, value, created, modified: revision };
            entries.insert(Arc::new(entry.clone()));
            Some(Change::Put(entry))
        }
        Op::Delete { key, .. } => {
            entries.remove(key);
            Some(Change::Delete { key: Arc::clone(key), revision })
        }
        Op::Check { .. } => None,
    }
}

#[async_trait]
impl Engine for Memory {
    fn incarnation(&self) -> Incarnation {
        self.incarnation
    }

    async fn current(&self, _prefix: &str) -> Result<Revision, Error> {
        self.shared.open()
    }

    async fn get(&self, key: &str) -> Result<Option<Entry>, Error> {
        let (_, entries) = self.shared.entries_at(None)?;
        Ok(entries.get(key).map(|entry| entry.as_ref().clone()))
    }

    async fn list(&self, request: ListRequest) -> Result<Listing, Error> {
        let (revision, entries) = self.shared.entries_at(request.at)?;
        let mut rest = entries.range(&request.prefix, request.after.as_deref());
        let limit = if request.limit == 0 { usize::MAX } else { request.limit };
        let page = rest.by_ref().take(limit).map(|entry| entry.as_ref().clone()).collect();
        Ok(Listing { entries: page, revision, more: rest.next().is_some() })
    }

    async fn commit(&self, ops: Vec<Op>) -> Result<Revision, Error> {
        judge::validate(&ops)?;
        self.shared.commit(&ops)
    }

    async fn watch(&self, prefix: &str, after: Revision) -> Result<Watch, Error> {
        self.shared.open()?;
        check_bounds(&self.shared.history.lock(), after)?;
        let cursor = Cursor {
            shared: Arc::clone(&self.shared),
            head: self.shared.head.subscribe(),
            prefix: prefix.into(),
            after,
        };
        Ok(stream::try_unfold(cursor, Cursor::read).map(flatten).flatten().boxed())
    }

    async fn compact(&self, up_to: Revision) -> Result<(), Error> {
        let current = self.shared.open()?;
        if current < up_to {
            return Err(Error::FutureRevision { requested: up_to, current });
        }
        let mut history = self.shared.history.lock();
        let kept = history.partition_point(|moment| moment.revision <= up_to);
        history.drain(..kept.saturating_sub(1));
        // A compaction between two commits must refuse what lies before it as every other does.
        history[0].revision = history[0].revision.max(up_to);
        Ok(())
    }

    async fn acquire(
        &self,
        name: &str,
        holder: &str,
        ttl: Duration,
    ) -> Result<Option<Lease>, Error> {
        self.leases.acquire(name, holder, ttl).await
    }

    async fn renew(&self, lease: &Lease) -> Result<bool, Error> {
        Ok(self.leases.renew(lease))
    }

    async fn resign(&self, lease: Lease) -> Result<(), Error> {
        self.leases.resign(lease).await
    }

    async fn close(&self) {
        self.leases.close().await;
        self.shared.head.send_replace(None);
    }
}

/// Where one watcher is.
struct Cursor {
    shared: Arc<Shared>,
    head: watch::Receiver<Option<Revision>>,
    prefix: Box<str>,
    after: Revision,
}

impl Cursor {
    async fn read(mut self) -> Result<Option<(Vec<Batch>, Self)>, Error> {
        let after = self.after;
        let seen = self.head.wait_for(|head| head.is_none_or(|head| after < head)).await;
        seen.map_err(|_| Error::unavailable("the engine is closed"))?;
        self.shared.open()?;
        let batches = self.shared.changes_after(after)?;
        self.after = batches.last().map_or(after, |batch| batch.revision);
        let batches = batches.iter().map(|batch| batch.filtered(&self.prefix)).collect();
        Ok(Some((batches, self)))
    }
}

fn flatten(
    read: Result<Vec<Batch>, Error>,
) -> stream::Iter<std::vec::IntoIter<Result<Batch, Error>>> {
    let items = match read {
        Ok(batches) => batches.into_iter().map(Ok).collect::<Vec<_>>(),
        Err(error) => vec![Err(error)],
    };
    stream::iter(items)
}
