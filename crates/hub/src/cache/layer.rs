//! The cache as a layer: accessor in, accessor out.
use super::Cache;
use crate::accessor::{Accessor, WatchStream};
use crate::error::Error;
use crate::options::{
    Applied, ApplyOptions, DeleteOptions, Deleted, GetOptions, ListOptions, ObjectName, Page,
    StatusOptions, Version, WatchOptions,
};
use crate::store_accessor::unreadable;
use async_trait::async_trait;
use futures::StreamExt as _;
use orrery_api::{Encoded, Kind, Object};
use std::sync::Arc;

/// Around the accessor of a kind that another service keeps.
pub struct Cached {
    cache: Arc<Cache>,
}

impl Cached {
    pub fn new(cache: Arc<Cache>) -> Self {
        Self { cache }
    }

    /// What was written is told before it is answered, whatever became of it: an answer that did not come in time says
    /// nothing about what the upstream did.
    async fn after_write<T>(
        &self,
        name: &ObjectName,
        dry_run: bool,
        outcome: Result<T, Error>,
    ) -> Result<T, Error> {
        if !dry_run {
            let told = self.cache.written(name).await;
            if let (Ok(_), Err(error)) = (&outcome, told) {
                let text = format!("{name} was written, but other servers cannot be told: {error}");
                // Whoever is told to come back would write it twice.
                return Err(Error::Uncertain(text));
            }
        }
        outcome
    }

    /// A list that cannot be followed any more is not given out again.
    async fn outdated(cache: &Cache) {
        if let Err(error) = cache.marks.advance_lists().await {
            tracing::debug!(%error, "cannot say that lists are outdated");
        }
    }
}

#[async_trait]
impl Accessor for Cached {
    fn kind(&self) -> &Arc<Kind> {
        self.cache.kind()
    }

    async fn get(&self, options: GetOptions) -> Result<Object, Error> {
        self.cache.get(options).await?.into_object().map_err(unreadable)
    }

    async fn list(&self, options: ListOptions) -> Result<Page, Error> {
        let page = self.cache.list(options).await?;
        page.try_map(|item| item.into_object().map_err(unreadable))
    }

    async fn apply(&self, object: Object, options: ApplyOptions) -> Result<Applied, Error> {
        let (name, dry_run) = (ObjectName::of(&object), options.dry_run);
        let outcome = self.cache.upstream.apply(object, options).await;
        self.after_write(&name, dry_run, outcome).await
    }

    async fn delete(&self, options: DeleteOptions) -> Result<Deleted, Error> {
        let (name, dry_run) = (options.name.clone(), options.dry_run);
        let outcome = self.cache.upstream.delete(options).await;
        self.after_write(&name, dry_run, outcome).await
    }

    async fn status(&self, options: StatusOptions) -> Result<Object, Error> {
        if !self.kind().has_status() {
            return self.cache.upstream.status(options).await;
        }
        let StatusOptions { name, include_lineage, include_shared } = options;
        self.get(GetOptions { name, include_lineage, include_shared, version: None }).await
    }

    async fn watch(&self, options: WatchOptions) -> Result<WatchStream, Error> {
        let events = self.watch_encoded(options).await?;
        let decoded = |found: Encoded| found.into_object().map_err(unreadable);
        Ok(events.map(move |event| event?.try_map(decoded)).boxed())
    }

    async fn versions(&self, name: ObjectName) -> Result<Vec<Version>, Error> {
        self.cache.upstream.versions(name).await
    }

    async fn get_encoded(&self, options: GetOptions) -> Result<Encoded, Error> {
        self.cache.get(options).await
    }

    async fn apply_encoded(
        &self,
        given: Encoded,
        options: ApplyOptions,
    ) -> Result<Applied<Encoded>, Error> {
        let bad = |error: orrery_api::ObjectError| Error::BadRequest(error.to_string());
        let name = ObjectName::new(given.project().map_err(bad)?, given.name().map_err(bad)?);
        let dry_run = options.dry_run;
        let outcome = self.cache.upstream.apply_encoded(given, options).await;
        self.after_write(&name, dry_run, outcome).await
    }

    async fn list_encoded(&self, options: ListOptions) -> Result<Page<Encoded>, Error> {
        self.cache.list(options).await
    }

    async fn watch_encoded(&self, options: WatchOptions) -> Result<WatchStream<Encoded>, Error> {
        let opened = self.cache.upstream.watch_encoded(options).await;
        if matches!(opened, Err(Error::Expired { .. })) {
            Self::outdated(&self.cache).await;
        }
        let cache = self.cache.clone();
        let noted = move |event| {
            let cache = cache.clone();
            async move {
                if matches!(event, Err(Error::Expired { .. })) {
                    Self::outdated(&cache).await;
                }
                event
            }
        };
        Ok(opened?.then(noted).boxed())
    }
}
