//! Writes only as long as a lease is held.
use crate::accessor::{Accessor, WatchStream};
use crate::error::Error;
use crate::options::{
    Applied, ApplyOptions, DeleteOptions, Deleted, GetOptions, ListOptions, ObjectName, Page,
    StatusOptions, Version, WatchOptions,
};
use async_trait::async_trait;
use orrery_api::{Encoded, Kind, Object};
use orrery_store::Op;
use std::sync::Arc;

/// The outermost layer of a controller that acts alone: the store itself refuses what comes from
/// one whose lease has ended, however late it arrives.
pub struct Fence {
    inner: Arc<dyn Accessor>,
    check: Op,
}

impl Fence {
    pub fn new(inner: Arc<dyn Accessor>, check: Op) -> Self {
        Self { inner, check }
    }
}

#[async_trait]
impl Accessor for Fence {
    fn kind(&self) -> &Arc<Kind> {
        self.inner.kind()
    }

    async fn get(&self, options: GetOptions) -> Result<Object, Error> {
        self.inner.get(options).await
    }

    async fn list(&self, options: ListOptions) -> Result<Page, Error> {
        self.inner.list(options).await
    }

    async fn apply(&self, object: Object, mut options: ApplyOptions) -> Result<Applied, Error> {
        options.guards.push(self.check.clone());
        self.inner.apply(object, options).await
    }

    async fn delete(&self, mut options: DeleteOptions) -> Result<Deleted, Error> {
        options.guards.push(self.check.clone());
        self.inner.delete(options).await
    }

    async fn status(&self, options: StatusOptions) -> Result<Object, Error> {
        self.inner.status(options).await
    }

    async fn watch(&self, options: WatchOptions) -> Result<WatchStream, Error> {
        self.inner.watch(options).await
    }

    async fn get_encoded(&self, options: GetOptions) -> Result<Encoded, Error> {
        self.inner.get_encoded(options).await
    }

    async fn apply_encoded(
        &self,
        given: Encoded,
        mut options: ApplyOptions,
    ) -> Result<Applied<Encoded>, Error> {
        options.guards.push(self.check.clone());
        self.inner.apply_encoded(given, options).await
    }

    async fn list_encoded(&self, options: ListOptions) -> Result<Page<Encoded>, Error> {
        self.inner.list_encoded(options).await
    }

    async fn watch_encoded(&self, options: WatchOptions) -> Result<WatchStream<Encoded>, Error> {
        self.inner.watch_encoded(options).await
    }

    async fn versions(&self, name: ObjectName) -> Result<Vec<Version>, Error> {
        self.inner.versions(name).await
    }
}
