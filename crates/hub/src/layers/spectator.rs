//! What another service keeps is not written by the parts of this server.
//!
//! Their deeds follow from what they read; what becomes of the objects themselves is the business of the parts of the
//! service that keeps them. If both published how an object fares, each would undo what the other says.
use crate::accessor::{Accessor, WatchStream};
use crate::error::Error;
use crate::options::{
    Applied, ApplyOptions, DeleteOptions, Deleted, GetOptions, ListOptions, ObjectName, Outcome,
    Page, Part, StatusOptions, Version, WatchOptions,
};
use async_trait::async_trait;
use orrery_api::{Encoded, Kind, Object};
use std::sync::Arc;

/// The outermost layer of an upstream's kind, for controllers and all else that acts by itself.
pub struct Spectator {
    inner: Arc<dyn Accessor>,
    upstream: String,
}

impl Spectator {
    pub fn new(inner: Arc<dyn Accessor>, upstream: &str) -> Self {
        Self { inner, upstream: upstream.to_owned() }
    }

    fn refusal(&self) -> Error {
        let (plural, upstream) = (self.kind().plural(), &self.upstream);
        Error::Forbidden(format!(
            "{plural} are kept at {upstream}; they are changed by people, or by what runs there"
        ))
    }
}

#[async_trait]
impl Accessor for Spectator {
    fn kind(&self) -> &Arc<Kind> {
        self.inner.kind()
    }

    async fn get(&self, options: GetOptions) -> Result<Object, Error> {
        self.inner.get(options).await
    }

    async fn list(&self, options: ListOptions) -> Result<Page, Error> {
        self.inner.list(options).await
    }

    /// A status stays as it is, which is no failure of whoever would have written one.
    async fn apply(&self, object: Object, options: ApplyOptions) -> Result<Applied, Error> {
        if options.part != Part::Status {
            return Err(self.refusal());
        }
        let object = self.inner.get(ObjectName::of(&object).into()).await?;
        Ok(Applied { object, outcome: Outcome::Unchanged })
    }

    async fn delete(&self, _: DeleteOptions) -> Result<Deleted, Error> {
        Err(self.refusal())
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
