//! A project reads its own objects and, where it asks for them, those that others share with it.
//!
//! It works on the stored view, below hydration, where a project is an id and stays the same whatever becomes of its
//! name. What is written passes through: sharing gives others nothing but reading.
use crate::accessor::{Accessor, WatchStream};
use crate::error::Error;
use crate::keys::Keys;
use crate::options::{
    Applied, ApplyOptions, DeleteOptions, Deleted, GetOptions, ListOptions, ObjectName, Page,
    StatusOptions, Version, WatchOptions,
};
use crate::projects::Projects;
use crate::recent::Recent;
use crate::refusal::{self, from_store};
use crate::sharing::{self, Listed, Sight};
use crate::store_accessor::unreadable;
use async_trait::async_trait;
use futures::StreamExt;
use orrery_api::{Encoded, Kind, Object, SHARED_FROM};
use orrery_store::Store;
use std::sync::Arc;

/// Around the objects of one kind that can be shared.
pub struct Sharing {
    inner: Arc<dyn Accessor>,
    keys: Keys,
    store: Store,
    projects: Arc<Projects>,
    recent: Arc<Recent>,
}

impl Sharing {
    pub fn new(
        inner: Arc<dyn Accessor>,
        keys: Keys,
        store: Store,
        projects: Arc<Projects>,
        recent: Arc<Recent>,
    ) -> Self {
        Self { inner, keys, store, projects, recent }
    }

    fn sight(&self, reader: &str) -> Sight {
        Sight {
            kind: self.inner.kind().clone(),
            keys: self.keys.clone(),
            projects: self.projects.clone(),
            reader: reader.to_owned(),
        }
    }

    /// What others share with the project under this name, where it has none of its own.
    async fn shared(&self, name: &ObjectName) -> Result<Encoded, Error> {
        let snapshot = self.store.snapshot().await.map_err(from_store)?;
        let sight = self.sight(&name.project);
        let found = sight.find(&snapshot, &name.name);
        let entry = found.ok_or_else(|| refusal::not_found(self.inner.kind(), name))?;
        sight.view(&entry, entry.modified)
    }

    async fn shared_object(&self, name: &ObjectName) -> Result<Object, Error> {
        self.shared(name).await?.into_object().map_err(unreadable)
    }
}

/// Says why an object that a project only reads cannot be written there. Other errors stay as they are.
pub async fn explain_absence(accessor: &dyn Accessor, name: &ObjectName, error: Error) -> Error {
    if !accessor.kind().shareable() || !matches!(error, Error::NotFound { .. }) {
        return error;
    }
    let options = GetOptions { include_shared: true, ..name.clone().into() };
    let found = accessor.get_encoded(options).await.ok();
    let Some(owner) = found.as_ref().and_then(|found| found.annotation(SHARED_FROM)) else {
        return error;
    };
    let (kind, ObjectName { project, name }) = (accessor.kind().kind(), name);
    Error::Forbidden(format!(
        "{kind} {name:?} is shared with project {project:?} by project {owner:?} and can only be read here: change it there, or create one of your own under this name"
    ))
}

/// What is only shown in a project cannot be written there by sending it back.
fn refuse_foreign(project: Option<&str>, name: &str) -> Result<(), Error> {
    let Some(project) = project else { return Ok(()) };
    Err(Error::BadRequest(format!(
        "{name:?} as it is given here is shared by project {project:?}: change it there, or take the annotation {SHARED_FROM} away to make an object of your own of it"
    )))
}

#[async_trait]
impl Accessor for Sharing {
    fn kind(&self) -> &Arc<Kind> {
        self.inner.kind()
    }

    async fn get(&self, options: GetOptions) -> Result<Object, Error> {
        let asked = options.include_shared.then(|| options.name.clone());
        match (self.inner.get(options).await, asked) {
            (Err(Error::NotFound { .. }), Some(name)) => self.shared_object(&name).await,
            (found, _) => found,
        }
    }

    async fn list(&self, options: ListOptions) -> Result<Page, Error> {
        let page = self.list_encoded(options).await?;
        page.try_map(Encoded::into_object).map_err(unreadable)
    }

    async fn apply(&self, object: Object, options: ApplyOptions) -> Result<Applied, Error> {
        refuse_foreign(object.annotation(SHARED_FROM), object.name())?;
        self.inner.apply(object, options).await
    }

    async fn delete(&self, options: DeleteOptions) -> Result<Deleted, Error> {
        self.inner.delete(options).await
    }

    async fn status(&self, options: StatusOptions) -> Result<Object, Error> {
        let asked = options.include_shared.then(|| options.name.clone());
        match (self.inner.status(options).await, asked) {
            (Err(Error::NotFound { .. }), Some(name)) => self.shared_object(&name).await,
            (found, _) => found,
        }
    }

    async fn watch(&self, options: WatchOptions) -> Result<WatchStream, Error> {
        let events = self.watch_encoded(options).await?;
        Ok(events.map(|event| event?.try_map(Encoded::into_object).map_err(unreadable)).boxed())
    }

    async fn get_encoded(&self, options: GetOptions) -> Result<Encoded, Error> {
        let asked = options.include_shared.then(|| options.name.clone());
        match (self.inner.get_encoded(options).await, asked) {
            (Err(Error::NotFound { .. }), Some(name)) => self.shared(&name).await,
            (found, _) => found,
        }
    }

    async fn apply_encoded(
        &self,
        given: Encoded,
        options: ApplyOptions,
    ) -> Result<Applied<Encoded>, Error> {
        refuse_foreign(given.annotation(SHARED_FROM), given.name().unwrap_or_default())?;
        self.inner.apply_encoded(given, options).await
    }

    async fn list_encoded(&self, mut options: ListOptions) -> Result<Page<Encoded>, Error> {
        let Some(reader) = options.project.clone().filter(|_| options.include_shared) else {
            return self.inner.list_encoded(options).await;
        };
        match sharing::list(&self.sight(&reader), &self.store, &options).await? {
            Listed::Together(page) => Ok(page),
            Listed::OnlyOwn(snapshot) => {
                // The same state: what is shared a moment later is told by the watch that follows.
                options.at = Some(snapshot.revision());
                self.inner.list_encoded(options).await
            }
        }
    }

    async fn watch_encoded(&self, options: WatchOptions) -> Result<WatchStream<Encoded>, Error> {
        let Some(reader) = options.project.clone().filter(|_| options.include_shared) else {
            return self.inner.watch_encoded(options).await;
        };
        sharing::open(self.sight(&reader), &self.store, &self.recent, options).await
    }

    async fn versions(&self, name: ObjectName) -> Result<Vec<Version>, Error> {
        self.inner.versions(name).await
    }
}
