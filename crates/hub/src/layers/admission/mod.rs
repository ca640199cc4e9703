//! What an object must be like before it is written, and what becomes of it.
//!
//! ```text
//!  read what is there ─> precondition ─> merge ─> default ─> validate ─> write at that revision
//!          ^                                                                  │
//!          └──────────── someone was faster, and the caller did not mind ─────┘
//! ```
//! A dry run goes the same way to the end: the store itself is asked whether it would take it.
mod apply;
mod checks;
mod composed;
mod delete;

use crate::accessor::{Accessor, WatchStream};
use crate::clock::Clock;
use crate::error::Error;
use crate::options::{
    Applied, ApplyOptions, DeleteOptions, Deleted, GetOptions, ListOptions, ObjectName, Page,
    StatusOptions, Version, WatchOptions,
};
use async_trait::async_trait;
use orrery_api::{Encoded, Kind, Object};
use orrery_store::Revision;
use std::sync::Arc;
use tracing::Instrument as _;

/// How often a write is tried again because someone else was faster. With more writers than this on
/// one object at one moment, the unlucky one is told.
const ATTEMPTS_MAX: usize = 16;

/// Brings what is given for a kind into the form that is kept.
pub type OnWrite = fn(&mut Object);

pub struct Admission {
    inner: Arc<dyn Accessor>,
    clock: Arc<dyn Clock>,
    /// The finalizers that every object of the kind has until it is deleted: what it stands for is not
    /// left behind because somebody replaced it by a file that does not name them.
    holds: Vec<&'static str>,
    on_write: Option<OnWrite>,
}

impl Admission {
    pub fn new(
        inner: Arc<dyn Accessor>,
        clock: Arc<dyn Clock>,
        holds: Vec<&'static str>,
        on_write: Option<OnWrite>,
    ) -> Self {
        Self { inner, clock, holds, on_write }
    }

    /// Writes an object that is seen as a whole.
    async fn apply_whole<T>(
        &self,
        mut object: Object,
        options: ApplyOptions,
        write: apply::Write<T>,
    ) -> Result<Applied<T>, Error>
    where
        Applied<T>: From<Applied>,
    {
        if let Some(on_write) = self.on_write {
            on_write(&mut object);
        }
        let lineage = object.take_lineage();
        let options = self.check_request(&object, options)?;
        let span = self.span("apply", object.project(), object.name());
        let mut attempt = 0;
        loop {
            attempt += 1;
            let trying = self.try_apply(&object, lineage.as_deref(), &options, write);
            match trying.instrument(span.clone()).await {
                Err(error) if attempt < ATTEMPTS_MAX && apply::may_retry(&error, &options) => {
                    tracing::debug!(%error, attempt, "someone else was faster, trying again");
                }
                outcome => return outcome,
            }
        }
    }

    async fn current(&self, name: &ObjectName) -> Result<Option<Object>, Error> {
        match self.inner.get(name.clone().into()).await {
            Ok(object) => Ok(Some(object)),
            Err(Error::NotFound { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Versions can be had of kinds that keep them.
    fn check_version(&self, options: &GetOptions) -> Result<(), Error> {
        match options.version.is_some() && !self.kind().versioned() {
            true => Err(crate::refusal::no_versions(self.kind())),
            false => Ok(()),
        }
    }

    /// What is done, in a trace. There is a span only where traces are taken or somebody looks closely: it would
    /// cost as much as a read does.
    fn span(&self, operation: &'static str, project: &str, name: &str) -> tracing::Span {
        let kind = self.kind().kind();
        tracing::debug_span!("accessor", operation, kind, project, name)
    }

    fn conflict(&self, name: &str, message: String) -> Error {
        Error::Conflict { kind: self.kind().qualified_plural(), name: name.to_owned(), message }
    }
}

#[async_trait]
impl Accessor for Admission {
    fn kind(&self) -> &Arc<Kind> {
        self.inner.kind()
    }

    async fn get(&self, options: GetOptions) -> Result<Object, Error> {
        let span = self.span("get", &options.name.project, &options.name.name);
        self.check_version(&options)?;
        self.inner.get(options).instrument(span).await
    }

    async fn list(&self, options: ListOptions) -> Result<Page, Error> {
        let span = self.span("list", options.project.as_deref().unwrap_or_default(), "");
        self.inner.list(options).instrument(span).await
    }

    async fn apply(&self, object: Object, options: ApplyOptions) -> Result<Applied, Error> {
        self.apply_whole(object, options, apply::as_object).await
    }

    async fn delete(&self, options: DeleteOptions) -> Result<Deleted, Error> {
        let span = self.span("delete", &options.name.project, &options.name.name);
        let mut attempt = 0;
        loop {
            attempt += 1;
            match self.try_delete(&options).instrument(span.clone()).await {
                Err(error @ Error::Conflict { .. })
                    if attempt < ATTEMPTS_MAX && options.revision.is_none() =>
                {
                    tracing::debug!(%error, attempt, "someone else was faster, trying again");
                }
                outcome => return outcome,
            }
        }
    }

    async fn status(&self, options: StatusOptions) -> Result<Object, Error> {
        self.inner.status(options).await
    }

    async fn watch(&self, options: WatchOptions) -> Result<WatchStream, Error> {
        let span = self.span("watch", options.project.as_deref().unwrap_or_default(), "");
        self.inner.watch(options).instrument(span).await
    }

    async fn get_encoded(&self, options: GetOptions) -> Result<Encoded, Error> {
        let span = self.span("get", &options.name.project, &options.name.name);
        self.check_version(&options)?;
        self.inner.get_encoded(options).instrument(span).await
    }

    async fn apply_encoded(
        &self,
        given: Encoded,
        options: ApplyOptions,
    ) -> Result<Applied<Encoded>, Error> {
        if let Some(applied) = self.apply_composed(&given, &options).await? {
            return Ok(applied);
        }
        let object = given.into_object().map_err(|error| Error::BadRequest(error.to_string()))?;
        self.apply_whole(object, options, apply::as_encoded).await
    }

    async fn list_encoded(&self, options: ListOptions) -> Result<Page<Encoded>, Error> {
        let span = self.span("list", options.project.as_deref().unwrap_or_default(), "");
        self.inner.list_encoded(options).instrument(span).await
    }

    async fn watch_encoded(&self, options: WatchOptions) -> Result<WatchStream<Encoded>, Error> {
        let span = self.span("watch", options.project.as_deref().unwrap_or_default(), "");
        self.inner.watch_encoded(options).instrument(span).await
    }

    async fn versions(&self, name: ObjectName) -> Result<Vec<Version>, Error> {
        self.inner.versions(name).await
    }
}

fn revision_of(object: &Object) -> Result<Revision, Error> {
    object.resource_version().parse().map_err(|_| {
        Error::Internal(format!("{} has no revision after it was read", object.name()))
    })
}
