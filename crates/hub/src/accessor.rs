//! The one way to resources.
use crate::error::Error;
use crate::options::{
    Applied, ApplyOptions, DeleteOptions, Deleted, GetOptions, ListOptions, ObjectName, Page,
    StatusOptions, Version, WatchEvent, WatchOptions,
};
use async_trait::async_trait;
use futures::stream::{BoxStream, StreamExt};
use orrery_api::{Encoded, Kind, Object};
use std::sync::Arc;

/// Changes, in order, none skipped. It ends with an error when it cannot go on; list again then.
pub type WatchStream<T = Object> = BoxStream<'static, Result<WatchEvent<T>, Error>>;

/// Reads and writes the resources of one kind, in its hub version.
///
/// The rest of the system reaches storage only through accessors. The innermost one talks to the
/// store or to another service; each layer around it takes an accessor and is one
/// ([`Layer`]), so that a call passes them from the outside in and its answer from the inside out.
#[async_trait]
pub trait Accessor: Send + Sync + 'static {
    /// The kind that this accessor serves.
    fn kind(&self) -> &Arc<Kind>;

    /// One resource, with `metadata.resourceVersion` filled in.
    async fn get(&self, options: GetOptions) -> Result<Object, Error>;

    /// Resources in the order of project and name, true at one revision.
    async fn list(&self, options: ListOptions) -> Result<Page, Error>;

    /// Creates or changes a resource.
    async fn apply(&self, object: Object, options: ApplyOptions) -> Result<Applied, Error>;

    /// Asks for a resource to go. It goes at once, or when its last finalizer is gone.
    async fn delete(&self, options: DeleteOptions) -> Result<Deleted, Error>;

    /// The resource for its status: refuses kinds that have none.
    async fn status(&self, options: StatusOptions) -> Result<Object, Error>;

    /// Every change after a revision; or everything that is there, a bookmark, then every change.
    async fn watch(&self, options: WatchOptions) -> Result<WatchStream, Error>;

    /// The versions of an object, the one that it is at first, then those that it left last. Refuses kinds that keep
    /// none.
    async fn versions(&self, _name: ObjectName) -> Result<Vec<Version>, Error> {
        Err(crate::refusal::no_versions(self.kind()))
    }

    /// As [`Accessor::get`], for those who only pass the object on. A layer that changes what is
    /// read need not care: unless it says otherwise, these three follow from the others. One that
    /// lets reads pass hands them through, and nothing is decoded on the way.
    async fn get_encoded(&self, options: GetOptions) -> Result<Encoded, Error> {
        self.get(options).await.map(Encoded::from)
    }

    /// As [`Accessor::apply`], for those who have the object as bytes and pass it on as bytes. What a
    /// write leaves as it is need not be decoded then. Bytes that are no object are a bad request.
    async fn apply_encoded(
        &self,
        given: Encoded,
        options: ApplyOptions,
    ) -> Result<Applied<Encoded>, Error> {
        let object = given.into_object().map_err(|error| Error::BadRequest(error.to_string()))?;
        self.apply(object, options).await.map(Applied::from)
    }

    /// As [`Accessor::list`], for those who only pass the objects on.
    async fn list_encoded(&self, options: ListOptions) -> Result<Page<Encoded>, Error> {
        self.list(options).await?.try_map(|object| Ok(Encoded::from(object)))
    }

    /// As [`Accessor::watch`], for those who only pass the objects on.
    async fn watch_encoded(&self, options: WatchOptions) -> Result<WatchStream<Encoded>, Error> {
        let events = self.watch(options).await?;
        Ok(events.map(|event| event?.try_map(|object| Ok(Encoded::from(object)))).boxed())
    }
}

/// Accessor in, accessor out: acts before or after each call.
pub trait Layer: Send + Sync {
    fn wrap(&self, inner: Arc<dyn Accessor>) -> Arc<dyn Accessor>;
}

impl<F> Layer for F
where
    F: Fn(Arc<dyn Accessor>) -> Arc<dyn Accessor> + Send + Sync,
{
    fn wrap(&self, inner: Arc<dyn Accessor>) -> Arc<dyn Accessor> {
        self(inner)
    }
}
