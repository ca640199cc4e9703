//! Where engines under test come from.

use std::{
    collections::HashMap,
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use async_trait::async_trait;
use bytes::Bytes;
use orrery_store::{
    EmbeddedOptions, Engine, Incarnation, Sealing, conformance::World, memory, open_embedded,
    open_etcd, sealed,
};
use tokio::sync::Mutex;

use crate::etcd_cluster::Cluster;

pub struct Memory;

#[async_trait]
impl World for Memory {
    async fn fresh(&self) -> Arc<dyn Engine> {
        memory()
    }

    fn durable(&self) -> bool {
        false
    }

    async fn reopen(&self, engine: Arc<dyn Engine>) -> Arc<dyn Engine> {
        engine
    }
}

/// Embedded engines, each in a directory of its own.
pub struct Embedded {
    root: tempfile::TempDir,
    directories: Mutex<HashMap<Incarnation, PathBuf>>,
}

impl Embedded {
    pub fn new() -> Self {
        let root = tempfile::tempdir().expect("a temporary directory can be made");
        Self { root, directories: Mutex::default() }
    }

    async fn open(&self, path: PathBuf) -> Arc<dyn Engine> {
        let opened = open_embedded(&path, EmbeddedOptions::default()).await;
        let engine = opened.unwrap_or_else(|error| panic!("{error}"));
        self.directories.lock().await.insert(engine.incarnation(), path);
        engine
    }
}

#[async_trait]
impl World for Embedded {
    async fn fresh(&self) -> Arc<dyn Engine> {
        let number = self.directories.lock().await.len();
        self.open(self.root.path().join(number.to_string())).await
    }

    fn durable(&self) -> bool {
        true
    }

    async fn reopen(&self, engine: Arc<dyn Engine>) -> Arc<dyn Engine> {
        engine.close().await;
        let path = self.directories.lock().await.get(&engine.incarnation()).cloned();
        self.open(path.expect("this world opened it")).await
    }
}

/// Engines of another world behind a seal that keeps the length of values.
pub struct Sealed<W> {
    inner: W,
}

impl<W> Sealed<W> {
    pub fn new(inner: W) -> Self {
        Self { inner }
    }
}

/// Turns every bit around, and so again.
#[derive(Debug)]
struct Inverted;

fn inverted(value: &Bytes) -> Bytes {
    value.iter().map(|byte| !byte).collect::<Vec<u8>>().into()
}

/// Who holds a lease is no secret: the engine itself writes it.
fn is_lease(key: &str) -> bool {
    key.starts_with("leases/")
}

impl Sealing for Inverted {
    fn seal(&self, key: &str, plain: Bytes) -> Result<Bytes, String> {
        Ok(if is_lease(key) { plain } else { inverted(&plain) })
    }

    fn open(&self, key: &str, kept: Bytes) -> Result<Bytes, String> {
        Ok(if is_lease(key) { kept } else { inverted(&kept) })
    }
}

#[async_trait]
impl<W: World> World for Sealed<W> {
    async fn fresh(&self) -> Arc<dyn Engine> {
        sealed(self.inner.fresh().await, Arc::new(Inverted))
    }

    fn durable(&self) -> bool {
        self.inner.durable()
    }

    async fn reopen(&self, engine: Arc<dyn Engine>) -> Arc<dyn Engine> {
        // One that is not reopened is still behind its seal.
        if !self.durable() {
            return engine;
        }
        sealed(self.inner.reopen(engine).await, Arc::new(Inverted))
    }
}

/// Engines on one etcd cluster, each under a root of its own.
pub struct Etcd {
    cluster: Arc<parking_lot::Mutex<Cluster>>,
    roots: AtomicUsize,
    root_of: Mutex<HashMap<Incarnation, String>>,
}

impl Etcd {
    pub fn new(size: usize) -> Self {
        let cluster = Arc::new(parking_lot::Mutex::new(Cluster::start(size)));
        Self { cluster, roots: AtomicUsize::new(0), root_of: Mutex::default() }
    }

    /// The cluster, for a test that kills its members.
    pub fn cluster(&self) -> Arc<parking_lot::Mutex<Cluster>> {
        Arc::clone(&self.cluster)
    }

    async fn open(&self, root: String) -> Arc<dyn Engine> {
        let options = self.cluster.lock().options(&root);
        let opened = open_etcd(options).await;
        let engine = opened.unwrap_or_else(|error| panic!("{error}"));
        self.root_of.lock().await.insert(engine.incarnation(), root);
        engine
    }
}

#[async_trait]
impl World for Etcd {
    async fn fresh(&self) -> Arc<dyn Engine> {
        let number = self.roots.fetch_add(1, Ordering::Relaxed);
        self.open(format!("test{number}/")).await
    }

    async fn beside(&self, engine: &Arc<dyn Engine>) -> Arc<dyn Engine> {
        let root = self.root_of.lock().await.get(&engine.incarnation()).cloned();
        self.open(root.expect("this world opened it")).await
    }

    fn durable(&self) -> bool {
        true
    }

    async fn reopen(&self, engine: Arc<dyn Engine>) -> Arc<dyn Engine> {
        engine.close().await;
        let root = self.root_of.lock().await.get(&engine.incarnation()).cloned();
        self.open(root.expect("this world opened it")).await
    }
}
