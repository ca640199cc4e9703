//! The default engine: one directory, one process, on the log-structured store `fjall`.
//!
//! ```text
//!   commit ─▶ bounded queue ─▶ committer thread: judge each, one row, one fsync ─▶ answers
//!               (pace)              │                                          └─▶ feed (recent)
//!                                   ▼                                                 │
//!   tables:  commits  last revision -> a group of commits, with the values            ▼
//!            base     key           -> created, modified, value                    watchers
//!            standing how far the base goes, what is compacted, incarnation
//!   memory:  heads    key           -> created, modified      (what expectations read)
//! ```
//!
//! Whatever waits when the committer is free is written as one row, with one sync, before anyone is told: a commit
//! costs the disk its keys and values once. History that is no longer needed is folded into `base`, which holds
//! every key once, as of the revision that the fold has reached; what is current is the base with the commits after it (ADR 0019).
//! Each row carries a checksum
//! over its key and content, so that damage is named and never served.
//!
//! When writing fails, whether the disk is full or an fsync failed, what the disk holds is no
//! longer known: the engine takes no more writes until it was opened again and has recovered.

mod ahead;
mod committer;
mod compaction;
mod contents;
mod directory;
mod feed;
mod followers;
mod format;
mod journal;
mod migrate;
mod options;
mod overlay;
mod pace;
mod queue;
mod reader;
mod restore;
mod sum;
mod tables;
#[cfg(test)]
mod tests;
mod watermark;

use std::{
    path::Path,
    sync::{Arc, OnceLock, Weak},
    time::Duration,
};

use async_trait::async_trait;
use parking_lot::{Mutex, RwLock};
use tokio::sync::oneshot;
use tokio_util::task::TaskTracker;

#[doc(hidden)]
pub use self::format::fuzz as fuzz_row;
pub use self::options::{EmbeddedOptions, Stats};
use self::{
    committer::{Committer, Request},
    contents::{Contents, Heads},
    feed::{Cursor, Feed},
    options::Counters,
    overlay::Overlay,
    queue::Queue,
    tables::Tables,
};
pub(crate) use self::{directory::sync_directory, restore::Restoring};
use crate::{
    engine::{Engine, Follower, Following, ListRequest, Listing, Watch},
    error::{Error, OpenError},
    judge,
    lease::{Lease, LocalLeases},
    model::{Entry, Incarnation, Op, Revision},
};

/// Opens the store in the directory `path`, and makes it there if the directory is new or empty.
pub async fn open_embedded(
    path: &Path,
    options: EmbeddedOptions,
) -> Result<Arc<dyn Engine>, OpenError> {
    Ok(Embedded::open(path, options).await?)
}

/// The engine in one directory. See [`open_embedded`].
#[derive(Debug)]
pub struct Embedded {
    incarnation: Incarnation,
    shared: Arc<Shared>,
    queue: Arc<Queue>,
    committer: Mutex<Option<std::thread::JoinHandle<()>>>,
    leases: LocalLeases,
    /// Finishes what another process had begun; it ends by itself, at the latest on closing.
    settling: TaskTracker,
}

/// What the committer, readers, watchers and compaction share.
#[derive(Debug)]
struct Shared {
    /// `None` once closed; readers that are under way keep the tables open until they are done.
    tables: RwLock<Option<Arc<Tables>>>,
    feed: Feed,
    counters: Counters,
    /// Where every key stands that is there, as far as it is durable. Written by the committer.
    heads: RwLock<Heads>,
    /// Of the list in parts that was asked for last, until its end.
    overlay: Mutex<Option<Arc<Overlay>>>,
    /// Why writing stopped, once it has. Written by the committer.
    failure: OnceLock<Arc<str>>,
    /// One compaction at a time, and how far they came.
    compacting: tokio::sync::Mutex<compaction::Progress>,
}

impl Shared {
    fn tables(&self) -> Result<Arc<Tables>, Error> {
        self.tables.read().clone().ok_or_else(closed)
    }

    /// Runs what may wait for the disk on a thread that may wait.
    async fn blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Tables) -> Result<T, Error> + Send + 'static,
    ) -> Result<T, Error> {
        let tables = self.tables()?;
        let done = tokio::task::spawn_blocking(move || work(&tables)).await;
        done.map_err(|error| Error::unavailable(format!("a read did not finish: {error}")))?
    }
}

fn closed() -> Error {
    Error::unavailable("the engine is closed")
}

impl Embedded {
    pub async fn open(path: &Path, options: EmbeddedOptions) -> Result<Arc<Self>, OpenError> {
        let path = path.to_owned();
        let opening = tokio::task::spawn_blocking(move || directory::open(&path, &options));
        let directory::Opened { tables, standing, contents, watermark } = match opening.await {
            Ok(opened) => opened?,
            Err(error) => return Err(Error::unavailable(format!("opening failed: {error}")).into()),
        };
        let tables = Arc::new(tables);
        let Contents { heads, head, sum } = contents;
        let shared = Arc::new(Shared {
            tables: RwLock::new(Some(Arc::clone(&tables))),
            feed: Feed::new(head),
            heads: RwLock::new(heads),
            overlay: Mutex::default(),
            counters: Counters::default(),
            failure: OnceLock::new(),
            compacting: tokio::sync::Mutex::default(),
        });
        let queue = Arc::new(Queue::new());
        let (sharing, taking) = (Arc::clone(&shared), Arc::clone(&queue));
        let committer = Committer::start(tables, watermark, sharing, taking, (head, sum))?;
        let engine = Arc::new_cyclic(|engine: &Weak<Self>| Self {
            incarnation: standing.incarnation,
            shared,
            queue,
            committer: Mutex::new(Some(committer)),
            leases: LocalLeases::new(engine.clone()),
            settling: TaskTracker::new(),
        });
        engine.settle().await?;
        Ok(engine)
    }

    /// Finishes what a process that died here had begun. The history that it was about to forget
    /// goes while the store serves: nobody can read it any more, and a start need not wait for it.
    async fn settle(&self) -> Result<(), Error> {
        LocalLeases::clear(self).await?;
        let shared = Arc::clone(&self.shared);
        self.settling.spawn(async move {
            if let Err(error) = compaction::resume(&shared).await {
                tracing::debug!(%error, "old history stays until it is compacted again");
            }
        });
        Ok(())
    }

    /// Gives the space of what was deleted and compacted back to the file system. Done by itself
    /// after much was compacted; commits and reads go on meanwhile.
    pub async fn reclaim(&self) -> Result<(), Error> {
        compaction::reclaim(&self.shared).await
    }

    /// What the engine has done since it was opened.
    pub fn stats(&self) -> Stats {
        self.shared.counters.read()
    }
}

impl Drop for Embedded {
    fn drop(&mut self) {
        self.queue.close();
    }
}

#[async_trait]
impl Engine for Embedded {
    fn incarnation(&self) -> Incarnation {
        self.incarnation
    }

    fn health(&self) -> Result<(), Error> {
        match self.shared.failure.get() {
            Some(reason) => Err(Error::Unavailable { reason: Arc::clone(reason) }),
            None => Ok(()),
        }
    }

    async fn current(&self, _prefix: &str) -> Result<Revision, Error> {
        self.shared.tables.read().as_ref().ok_or_else(closed)?;
        Ok(self.shared.feed.head())
    }

    async fn get(&self, key: &str) -> Result<Option<Entry>, Error> {
        let (key, shared): (Arc<str>, _) = (key.into(), Arc::clone(&self.shared));
        let head = move |key: &str| shared.heads.read().get(key).copied();
        self.shared.blocking(move |tables| reader::get(tables, &key, head)).await
    }

    async fn list(&self, request: ListRequest) -> Result<Listing, Error> {
        let (shared, current) = (Arc::clone(&self.shared), self.shared.feed.head());
        let list = move |tables: &Tables| reader::list(tables, &shared.overlay, &request, current);
        self.shared.blocking(list).await
    }

    async fn commit(&self, ops: Vec<Op>) -> Result<Revision, Error> {
        judge::validate(&ops)?;
        let (answer, answered) = oneshot::channel();
        self.queue.put(Request { ops, answer }).await?;
        answered.await.map_err(|_| Error::Uncertain {
            reason: "the engine stopped before it answered".to_owned(),
        })?
    }

    async fn watch(&self, prefix: &str, after: Revision) -> Result<Watch, Error> {
        let tables = self.shared.tables()?;
        let current = self.shared.feed.head();
        let oldest = tables.compacted();
        if after < oldest {
            return Err(Error::Compacted { requested: after, oldest });
        }
        if current < after {
            return Err(Error::FutureRevision { requested: after, current });
        }
        Ok(Cursor::new(Arc::clone(&self.shared), prefix, after).into_watch())
    }

    fn follow(&self, prefix: &str, after: Revision, follower: Arc<dyn Follower>) -> Following {
        if self.shared.tables.read().is_none() || self.shared.feed.head() < after {
            return Following::Never;
        }
        Feed::follow(&self.shared, prefix, after, follower).map_or(Following::Behind, Following::On)
    }

    async fn compact(&self, up_to: Revision) -> Result<(), Error> {
        let current = self.current("").await?;
        if current < up_to {
            return Err(Error::FutureRevision { requested: up_to, current });
        }
        compaction::compact(&self.shared, up_to).await
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
        self.queue.close();
        let committer = self.committer.lock().take();
        let tables = self.shared.tables.write().take();
        self.shared.feed.close();
        let Some(tables) = tables else { return };
        self.settling.close();
        self.settling.wait().await;
        let released = tables.released();
        let joining = tokio::task::spawn_blocking(move || {
            if let Some(committer) = committer
                && committer.join().is_err()
            {
                tracing::error!("the committer of the store panicked");
            }
            drop(tables);
        });
        if let Err(error) = joining.await {
            tracing::error!(%error, "closing the store failed");
        }
        released.cancelled().await;
    }
}
