//! The project `system` never goes.
use async_trait::async_trait;
use orrery_api::{Encoded, Kind, Object, ObjectError, SYSTEM_PROJECT};
use orrery_hub::{
    Accessor, Applied, ApplyOptions, DeleteOptions, Deleted, Error, GetOptions, ListOptions, Page,
    StatusOptions, WatchOptions, WatchStream,
};
use std::sync::Arc;

/// A layer around the accessor of projects.
pub fn keep_system_project(inner: Arc<dyn Accessor>) -> Arc<dyn Accessor> {
    Arc::new(KeepSystemProject { inner })
}

struct KeepSystemProject {
    inner: Arc<dyn Accessor>,
}

fn refuse(name: &str) -> Result<(), Error> {
    if name == SYSTEM_PROJECT {
        let text = format!("project \"{SYSTEM_PROJECT}\" belongs to the installation and stays");
        return Err(Error::Forbidden(text));
    }
    Ok(())
}

#[async_trait]
impl Accessor for KeepSystemProject {
    fn kind(&self) -> &Arc<Kind> {
        self.inner.kind()
    }

    async fn get(&self, options: GetOptions) -> Result<Object, Error> {
        self.inner.get(options).await
    }

    async fn list(&self, options: ListOptions) -> Result<Page, Error> {
        self.inner.list(options).await
    }

    async fn apply(&self, object: Object, options: ApplyOptions) -> Result<Applied, Error> {
        if object.deletion_timestamp().is_some() {
            refuse(object.name())?;
        }
        self.inner.apply(object, options).await
    }

    async fn delete(&self, options: DeleteOptions) -> Result<Deleted, Error> {
        refuse(&options.name.name)?;
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
        options: ApplyOptions,
    ) -> Result<Applied<Encoded>, Error> {
        let unreadable = |error: ObjectError| Error::BadRequest(error.to_string());
        if given.name().map_err(unreadable)? == SYSTEM_PROJECT {
            let object = given.into_object().map_err(unreadable)?;
            return self.apply(object, options).await.map(Applied::from);
        }
        self.inner.apply_encoded(given, options).await
    }

    async fn list_encoded(&self, options: ListOptions) -> Result<Page<Encoded>, Error> {
        self.inner.list_encoded(options).await
    }

    async fn watch_encoded(&self, options: WatchOptions) -> Result<WatchStream<Encoded>, Error> {
        self.inner.watch_encoded(options).await
    }
}
