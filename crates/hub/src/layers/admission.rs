//! What an object must be like before it is written, and what becomes of it.
//!
//! ```text
//!  read what is there ─> precondition ─> merge ─> default ─> validate ─> write at that revision
//!          ^                                                                  │
//!          └──────────── someone was faster, and the caller did not mind ─────┘
//! ```
use crate::accessor::{Accessor, WatchStream};
use crate::clock::Clock;
use crate::error::Error;
use crate::merge;
use crate::options::{
    Applied, ApplyOptions, DeleteOptions, Deleted, GetOptions, ListOptions, ObjectName, Outcome,
    Page, Part, Precondition, StatusOptions, WatchOptions,
};
use async_trait::async_trait;
use orrery_api::{Kind, Object};
use orrery_store::Revision;
use std::sync::Arc;

/// How often a write is tried again because someone else was faster. With more writers than this on
/// one object at one moment, the unlucky one is told.
const ATTEMPTS_MAX: usize = 16;

/// Says what every new object of a kind gets: finalizers, for example.
pub type OnCreate = fn(&mut Object);

pub struct Admission {
    inner: Arc<dyn Accessor>,
    clock: Arc<dyn Clock>,
    on_create: Option<OnCreate>,
}

impl Admission {
    pub fn new(
        inner: Arc<dyn Accessor>,
        clock: Arc<dyn Clock>,
        on_create: Option<OnCreate>,
    ) -> Self {
        Self { inner, clock, on_create }
    }

    async fn current(&self, name: &ObjectName) -> Result<Option<Object>, Error> {
        match self.inner.get(name.clone().into()).await {
            Ok(object) => Ok(Some(object)),
            Err(Error::NotFound { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    async fn try_apply(&self, given: &Object, options: &ApplyOptions) -> Result<Applied, Error> {
        let name = ObjectName::of(given);
        let old = self.current(&name).await?;
        self.check_precondition(&name, given, options.precondition, old.as_ref())?;
        let Some(old) = old else { return self.create(given, options).await };
        let next = merge::updated(&old, given, options.part, options.merge)
            .map_err(|error| Error::Internal(error.to_string()))?;
        self.admit(&next, Some(&old), options.part)?;
        if next.same(&old) {
            return Ok(Applied { object: old, outcome: Outcome::Unchanged });
        }
        let at = revision_of(&old)?;
        if next.deletion_timestamp().is_some() && next.finalizers().is_empty() {
            return self.finish_deletion(next, name, at, options).await;
        }
        if options.dry_run {
            return Ok(Applied { object: next, outcome: Outcome::Changed });
        }
        let options = ApplyOptions { precondition: Precondition::At(at), ..options.clone() };
        self.inner.apply(next, options).await
    }

    async fn create(&self, given: &Object, options: &ApplyOptions) -> Result<Applied, Error> {
        let mut next = merge::created(given, new_uid(), self.clock.now());
        if let Some(on_create) = self.on_create {
            on_create(&mut next);
        }
        next.default();
        self.admit(&next, None, Part::Main)?;
        if options.dry_run {
            return Ok(Applied { object: next, outcome: Outcome::Created });
        }
        let options = ApplyOptions { precondition: Precondition::Absent, ..options.clone() };
        self.inner.apply(next, options).await
    }

    async fn finish_deletion(
        &self,
        object: Object,
        name: ObjectName,
        at: Revision,
        options: &ApplyOptions,
    ) -> Result<Applied, Error> {
        if options.dry_run {
            return Ok(Applied { object, outcome: Outcome::Gone });
        }
        let guards = options.guards.clone();
        let options =
            DeleteOptions { name, revision: Some(at), guards, ..DeleteOptions::default() };
        let deleted = self.inner.delete(options).await?;
        Ok(Applied { object: deleted.object, outcome: Outcome::Gone })
    }

    fn check_precondition(
        &self,
        name: &ObjectName,
        given: &Object,
        wanted: Precondition,
        old: Option<&Object>,
    ) -> Result<(), Error> {
        let kind = || self.kind().qualified_plural();
        let ObjectName { project, name } = name.clone();
        match (wanted, old) {
            (Precondition::Absent, Some(old)) if old.deletion_timestamp().is_some() => {
                Err(Error::BeingDeleted { kind: kind(), name })
            }
            (Precondition::Absent, Some(_)) => {
                Err(Error::AlreadyExists { kind: kind(), project, name })
            }
            (Precondition::Present | Precondition::At(_), None) => {
                Err(Error::NotFound { kind: kind(), project, name })
            }
            (Precondition::At(at), Some(old)) if revision_of(old)? != at => Err(Error::Conflict {
                kind: kind(),
                name,
                message: format!(
                    "it is at revision {}, not {at}; read it again and repeat the change",
                    old.resource_version()
                ),
            }),
            (_, Some(old)) if !given.uid().is_empty() && given.uid() != old.uid() => {
                Err(Error::Conflict {
                    kind: kind(),
                    name,
                    message: "another object has this name now (its uid differs)".into(),
                })
            }
            (Precondition::Any | Precondition::Absent, None)
            | (Precondition::Any | Precondition::Present | Precondition::At(_), Some(_)) => Ok(()),
        }
    }

    fn admit(&self, next: &Object, old: Option<&Object>, part: Part) -> Result<(), Error> {
        let mut violations = next.validate(old);
        // Whoever writes a status is not to blame for a spec that an older version let in.
        if part == Part::Status {
            violations.retain(|violation| violation.path.starts_with("status"));
        }
        if violations.is_empty() {
            return Ok(());
        }
        let (kind, name) = (self.kind().kind().to_owned(), next.name().to_owned());
        Err(Error::Invalid { kind, name, violations })
    }

    async fn try_delete(&self, options: &DeleteOptions) -> Result<Deleted, Error> {
        let old = self.inner.get(options.name.clone().into()).await?;
        let at = revision_of(&old)?;
        let refused = match (&options.uid, options.revision) {
            (Some(uid), _) if uid != old.uid() => Some(format!("its uid is {}", old.uid())),
            (_, Some(wanted)) if wanted != at => Some(format!("it is at revision {at}")),
            (_, _) => None,
        };
        if let Some(message) = refused {
            let (kind, name) = (self.kind().qualified_plural(), options.name.name.clone());
            return Err(Error::Conflict { kind, name, message });
        }
        let gone = old.finalizers().is_empty();
        if options.dry_run || (!gone && old.deletion_timestamp().is_some()) {
            return Ok(Deleted { object: old, gone });
        }
        if gone {
            let options = DeleteOptions { revision: Some(at), ..options.clone() };
            return self.inner.delete(options).await;
        }
        let marked = merge::marked_for_deletion(&old, self.clock.now());
        let guards = options.guards.clone();
        let replace = ApplyOptions { guards, ..ApplyOptions::replace_at(at) };
        let applied = self.inner.apply(marked, replace).await?;
        Ok(Deleted { object: applied.object, gone: false })
    }
}

#[async_trait]
impl Accessor for Admission {
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
        self.check_names(&object)?;
        options.precondition = pinned(options.precondition, &object)?;
        let mut attempt = 0;
        loop {
            attempt += 1;
            match self.try_apply(&object, &options).await {
                Err(error) if attempt < ATTEMPTS_MAX && may_retry(&error, options.precondition) => {
                    tracing::debug!(%error, attempt, "someone else was faster, trying again");
                }
                outcome => return outcome,
            }
        }
    }

    async fn delete(&self, options: DeleteOptions) -> Result<Deleted, Error> {
        let mut attempt = 0;
        loop {
            attempt += 1;
            match self.try_delete(&options).await {
                Err(Error::Conflict { .. })
                    if attempt < ATTEMPTS_MAX
                        && options.uid.is_none()
                        && options.revision.is_none() => {}
                outcome => return outcome,
            }
        }
    }

    async fn status(&self, options: StatusOptions) -> Result<Object, Error> {
        self.inner.status(options).await
    }

    async fn watch(&self, options: WatchOptions) -> Result<WatchStream, Error> {
        self.inner.watch(options).await
    }
}

impl Admission {
    /// What has no proper name cannot even be looked up.
    fn check_names(&self, object: &Object) -> Result<(), Error> {
        let mut violations = object.validate(None);
        violations.retain(|v| matches!(v.path.as_str(), "metadata.name" | "metadata.project"));
        if violations.is_empty() {
            return Ok(());
        }
        let (kind, name) = (self.kind().kind().to_owned(), object.name().to_owned());
        // Tell everything at once, as if the object were new.
        let mut all = object.clone();
        all.default();
        Err(Error::Invalid { kind, name, violations: all.validate(None) })
    }
}

/// A revision in the object itself is as good as one in the options.
fn pinned(wanted: Precondition, object: &Object) -> Result<Precondition, Error> {
    let given = object.resource_version();
    match wanted {
        Precondition::Any | Precondition::Present if !given.is_empty() => {
            let revision = given.parse().map_err(|_| {
                Error::BadRequest(format!("metadata.resourceVersion {given:?} is no revision"))
            })?;
            Ok(Precondition::At(revision))
        }
        Precondition::Any | Precondition::Present | Precondition::Absent | Precondition::At(_) => {
            Ok(wanted)
        }
    }
}

fn may_retry(error: &Error, wanted: Precondition) -> bool {
    match (error, wanted) {
        (Error::Conflict { .. }, Precondition::Any | Precondition::Present) => true,
        // The project changed between the look and the write.
        (Error::Conflict { .. }, Precondition::Absent) => true,
        (Error::AlreadyExists { .. } | Error::NotFound { .. }, Precondition::Any) => true,
        (_, _) => false,
    }
}

fn revision_of(object: &Object) -> Result<Revision, Error> {
    object.resource_version().parse().map_err(|_| {
        Error::Internal(format!("{} has no revision after it was read", object.name()))
    })
}

fn new_uid() -> String {
    uuid::Uuid::new_v4().to_string()
}
