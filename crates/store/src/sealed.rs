//! An engine whose values are sealed on their way in and opened on their way out.
//!
//! ```text
//!   Store ── plain values ──▶ Sealed ── sealed values ──▶ engine: files, etcd, backups
//! ```
//!
//! What seals, and which keys it is asked about, the crate above decides. Leases pass untouched.

use std::{fmt, sync::Arc, time::Duration};

use async_trait::async_trait;
use bytes::Bytes;
use futures::StreamExt;

use crate::{
    engine::{Batch, Change, Engine, Follower, Following, ListRequest, Listing, Watch},
    error::Error,
    lease::Lease,
    model::{Entry, Incarnation, Op, Revision},
};

/// Seals values and opens them.
pub trait Sealing: fmt::Debug + Send + Sync + 'static {
    /// The value as it is kept, or why it must not be kept.
    fn seal(&self, key: &str, plain: Bytes) -> Result<Bytes, String>;

    /// The value as it was given, or why it cannot be read.
    fn open(&self, key: &str, kept: Bytes) -> Result<Bytes, String>;
}

/// Puts a seal around an engine. A backup of the inner engine holds what is sealed.
pub fn sealed(inner: Arc<dyn Engine>, sealing: Arc<dyn Sealing>) -> Arc<dyn Engine> {
    Arc::new(Sealed { inner, sealing })
}

#[derive(Debug)]
struct Sealed {
    inner: Arc<dyn Engine>,
    sealing: Arc<dyn Sealing>,
}

fn open(sealing: &dyn Sealing, entry: Entry) -> Result<Entry, Error> {
    let Entry { key, value, created, modified } = entry;
    let value = sealing
        .open(&key, value)
        .map_err(|detail| Error::Corrupt { what: key.to_string(), detail })?;
    Ok(Entry { key, value, created, modified })
}

fn opened(sealing: &dyn Sealing, batch: Batch) -> Result<Batch, Error> {
    let changes = batch.changes.into_iter().map(|change| match change {
        Change::Put(entry) => open(sealing, entry).map(Change::Put),
        gone @ Change::Delete { .. } => Ok(gone),
    });
    Ok(Batch { revision: batch.revision, changes: changes.collect::<Result<_, _>>()? })
}

/// Opens what its follower is given.
struct Opening {
    sealing: Arc<dyn Sealing>,
    follower: Arc<dyn Follower>,
}

impl Follower for Opening {
    fn take(&self, batches: Vec<Batch>) -> Result<(), Error> {
        let batches = batches.into_iter().map(|batch| opened(&*self.sealing, batch));
        self.follower.take(batches.collect::<Result<_, _>>()?)
    }

    fn acknowledged(&self) {
        self.follower.acknowledged();
    }
}

impl Sealed {
    fn seal(&self, op: Op) -> Result<Op, Error> {
        match op {
            Op::Put { key, value, expect } => {
                let value = self.sealing.seal(&key, value).map_err(Error::invalid)?;
                Ok(Op::Put { key, value, expect })
            }
            other @ (Op::Delete { .. } | Op::Check { .. }) => Ok(other),
        }
    }
}

#[async_trait]
impl Engine for Sealed {
    fn incarnation(&self) -> Incarnation {
        self.inner.incarnation()
    }

    fn health(&self) -> Result<(), Error> {
        self.inner.health()
    }

    async fn ready(&self) -> Result<(), Error> {
        self.inner.ready().await
    }

    async fn current(&self, prefix: &str) -> Result<Revision, Error> {
        self.inner.current(prefix).await
    }

    async fn get(&self, key: &str) -> Result<Option<Entry>, Error> {
        let entry = self.inner.get(key).await?;
        entry.map(|entry| open(&*self.sealing, entry)).transpose()
    }

    async fn list(&self, request: ListRequest) -> Result<Listing, Error> {
        let Listing { entries, revision, more } = self.inner.list(request).await?;
        let entries = entries.into_iter().map(|entry| open(&*self.sealing, entry));
        Ok(Listing { entries: entries.collect::<Result<_, _>>()?, revision, more })
    }

    async fn commit(&self, ops: Vec<Op>) -> Result<Revision, Error> {
        let ops = ops.into_iter().map(|op| self.seal(op)).collect::<Result<_, _>>()?;
        self.inner.commit(ops).await
    }

    async fn watch(&self, prefix: &str, after: Revision) -> Result<Watch, Error> {
        let sealing = Arc::clone(&self.sealing);
        let watch = self.inner.watch(prefix, after).await?;
        Ok(watch.map(move |batch| batch.and_then(|batch| opened(&*sealing, batch))).boxed())
    }

    fn follow(&self, prefix: &str, after: Revision, follower: Arc<dyn Follower>) -> Following {
        let sealing = Arc::clone(&self.sealing);
        self.inner.follow(prefix, after, Arc::new(Opening { sealing, follower }))
    }

    async fn compact(&self, up_to: Revision) -> Result<(), Error> {
        self.inner.compact(up_to).await
    }

    async fn acquire(
        &self,
        name: &str,
        holder: &str,
        ttl: Duration,
    ) -> Result<Option<Lease>, Error> {
        self.inner.acquire(name, holder, ttl).await
    }

    async fn renew(&self, lease: &Lease) -> Result<bool, Error> {
        self.inner.renew(lease).await
    }

    async fn resign(&self, lease: Lease) -> Result<(), Error> {
        self.inner.resign(lease).await
    }

    async fn close(&self) {
        self.inner.close().await;
    }
}
