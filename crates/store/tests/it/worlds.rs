//! Where engines under test come from.

use std::{collections::HashMap, path::PathBuf, sync::Arc};

use async_trait::async_trait;
use orrery_store::{
    EmbeddedOptions, Engine, Incarnation, conformance::World, memory, open_embedded,
};
use tokio::sync::Mutex;

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
