//! Where objects came from is told only to those who ask for it.
//!
//! Git sync writes it into one annotation. What becomes of that annotation in a write is decided where
//! the old object is known, in admission; this layer takes it out of everything that is answered.
use crate::accessor::{Accessor, WatchStream};
use crate::error::Error;
use crate::options::{
    Applied, ApplyOptions, DeleteOptions, Deleted, GetOptions, ListOptions, ObjectName, Page,
    StatusOptions, Version, WatchOptions,
};
use crate::store_accessor::unreadable;
use async_trait::async_trait;
use futures::StreamExt;
use orrery_api::{Encoded, Kind, Object};
use std::sync::Arc;

/// The outermost layer of every kind.
pub struct Lineage {
    inner: Arc<dyn Accessor>,
}

impl Lineage {
    pub fn new(inner: Arc<dyn Accessor>) -> Self {
        Self { inner }
    }
}

fn hidden(mut object: Object) -> Object {
    object.take_lineage();
    object
}

/// Most objects have none, and are passed on as they are.
fn hidden_in(found: Encoded) -> Result<Encoded, Error> {
    if !found.has_lineage() {
        return Ok(found);
    }
    found.without_lineage().map_err(unreadable)
}

#[async_trait]
impl Accessor for Lineage {
    fn kind(&self) -> &Arc<Kind> {
        self.inner.kind()
    }

    async fn get(&self, options: GetOptions) -> Result<Object, Error> {
        let include = options.include_lineage;
        let object = self.inner.get(options).await?;
        Ok(if include { object } else { hidden(object) })
    }

    async fn list(&self, options: ListOptions) -> Result<Page, Error> {
        let include = options.include_lineage;
        let page = self.inner.list(options).await?;
        if include { Ok(page) } else { page.try_map(|object| Ok(hidden(object))) }
    }

    async fn apply(&self, object: Object, options: ApplyOptions) -> Result<Applied, Error> {
        let include = options.include_lineage;
        let Applied { object, outcome } = self.inner.apply(object, options).await?;
        Ok(Applied { object: if include { object } else { hidden(object) }, outcome })
    }

    async fn delete(&self, options: DeleteOptions) -> Result<Deleted, Error> {
        let Deleted { object, gone } = self.inner.delete(options).await?;
        Ok(Deleted { object: hidden(object), gone })
    }

    async fn status(&self, options: StatusOptions) -> Result<Object, Error> {
        let include = options.include_lineage;
        let object = self.inner.status(options).await?;
        Ok(if include { object } else { hidden(object) })
    }

    async fn watch(&self, options: WatchOptions) -> Result<WatchStream, Error> {
        let include = options.include_lineage;
        let events = self.inner.watch(options).await?;
        if include {
            return Ok(events);
        }
        Ok(events.map(|event| event?.try_map(|object| Ok(hidden(object)))).boxed())
    }

    async fn get_encoded(&self, options: GetOptions) -> Result<Encoded, Error> {
        let include = options.include_lineage;
        let found = self.inner.get_encoded(options).await?;
        if include { Ok(found) } else { hidden_in(found) }
    }

    async fn apply_encoded(
        &self,
        given: Encoded,
        options: ApplyOptions,
    ) -> Result<Applied<Encoded>, Error> {
        let include = options.include_lineage;
        let Applied { object, outcome } = self.inner.apply_encoded(given, options).await?;
        Ok(Applied { object: if include { object } else { hidden_in(object)? }, outcome })
    }

    async fn list_encoded(&self, options: ListOptions) -> Result<Page<Encoded>, Error> {
        let include = options.include_lineage;
        let page = self.inner.list_encoded(options).await?;
        if include { Ok(page) } else { page.try_map(hidden_in) }
    }

    async fn watch_encoded(&self, options: WatchOptions) -> Result<WatchStream<Encoded>, Error> {
        let include = options.include_lineage;
        let events = self.inner.watch_encoded(options).await?;
        if include {
            return Ok(events);
        }
        // What one change becomes is made once for all who watch.
        let shown = |found: Encoded| match found.has_lineage() {
            true => found.view(|found| found.without_lineage()).map_err(unreadable),
            false => Ok(found),
        };
        Ok(events.map(move |event| event?.try_map(shown)).boxed())
    }

    async fn versions(&self, name: ObjectName) -> Result<Vec<Version>, Error> {
        self.inner.versions(name).await
    }
}
