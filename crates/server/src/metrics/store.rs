//! The store in figures: an engine that counts and times what is committed through it.
use super::reading::gauge;
use async_trait::async_trait;
use orrery_store::{
    Engine, Entry, Error, Follower, Following, Incarnation, Lease, ListRequest, Listing, Op,
    Revision, Store, Watch,
};
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::{Registry, Unit};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;
use tracing::Instrument as _;

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Committed {
    outcome: &'static str,
}

/// Passes everything on, and counts commits.
#[derive(Debug)]
pub struct Measured {
    inner: Arc<dyn Engine>,
    commits: Outcomes,
    durations: Histogram,
}

/// Found once: looking them up costs more than counting.
#[derive(Debug)]
struct Outcomes {
    done: Counter,
    conflict: Counter,
    failed: Counter,
}

impl Outcomes {
    fn of(commits: &Family<Committed, Counter>) -> Self {
        let of = |outcome| commits.get_or_create_owned(&Committed { outcome });
        Self { done: of("done"), conflict: of("conflict"), failed: of("failed") }
    }

    fn count(&self, committed: &Result<Revision, Error>) {
        match committed {
            Ok(_) => self.done.inc(),
            Err(Error::Conflict { .. }) => self.conflict.inc(),
            Err(_) => self.failed.inc(),
        };
    }
}

impl Measured {
    pub fn new(inner: Arc<dyn Engine>, registry: &mut Registry) -> Arc<Self> {
        let commits = Family::<Committed, Counter>::default();
        // From 100 µs (memory) to 3 s (a disk in trouble).
        let durations = Histogram::new(exponential_buckets(0.0001, 2.0, 16));
        let registry = registry.sub_registry_with_prefix("orrery_store");
        let outcomes = Outcomes::of(&commits);
        registry.register("commits", "Commits, by outcome", commits);
        registry.register_with_unit(
            "commit_duration",
            "How long commits took until they were durable",
            Unit::Seconds,
            durations.clone(),
        );
        Arc::new(Self { inner, commits: outcomes, durations })
    }
}

/// What can be said about the cache and, for the embedded store, about its folder.
#[allow(clippy::cast_precision_loss, reason = "figures for people")]
pub fn register(registry: &mut Registry, store: &Store, folder: Option<PathBuf>) {
    let reading = store.clone();
    gauge(registry, "orrery_store_revision", "The newest revision that is known here", move || {
        Some(reading.revision().0 as f64)
    });
    let reading = store.clone();
    gauge(registry, "orrery_store_entries", "Objects that are held in memory", move || {
        Some(reading.snapshot_now().len() as f64)
    });
    if let Some(folder) = folder {
        gauge(
            registry,
            "orrery_store_size_bytes",
            "Bytes of the embedded store on disk",
            move || folder_bytes(&folder).map(|bytes| bytes as f64),
        );
    }
}

/// The bytes of all files below a folder. Files that go meanwhile do not count.
fn folder_bytes(folder: &Path) -> Option<u64> {
    let mut bytes = 0;
    for entry in std::fs::read_dir(folder).ok()?.flatten() {
        bytes += match entry.metadata() {
            Ok(found) if found.is_dir() => folder_bytes(&entry.path()).unwrap_or_default(),
            Ok(found) => found.len(),
            Err(_) => 0,
        };
    }
    Some(bytes)
}

#[async_trait]
impl Engine for Measured {
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
        self.inner.get(key).await
    }

    async fn list(&self, request: ListRequest) -> Result<Listing, Error> {
        self.inner.list(request).await
    }

    async fn commit(&self, ops: Vec<Op>) -> Result<Revision, Error> {
        let span =
            tracing::debug_span!("commit", ops = ops.len(), revision = tracing::field::Empty);
        let began = Instant::now();
        let committed = self.inner.commit(ops).instrument(span.clone()).await;
        self.durations.observe(began.elapsed().as_secs_f64());
        self.commits.count(&committed);
        if let Ok(revision) = &committed {
            span.record("revision", revision.0);
        }
        committed
    }

    async fn watch(&self, prefix: &str, after: Revision) -> Result<Watch, Error> {
        self.inner.watch(prefix, after).await
    }

    fn follow(&self, prefix: &str, after: Revision, follower: Arc<dyn Follower>) -> Following {
        self.inner.follow(prefix, after, follower)
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
