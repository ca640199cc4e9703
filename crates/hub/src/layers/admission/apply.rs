//! One attempt to write an object.
use super::{Admission, revision_of};
use crate::accessor::Accessor;
use crate::error::Error;
use crate::merge;
use crate::options::{
    Applied, ApplyOptions, DeleteOptions, Merge, ObjectName, Outcome, Part, Precondition,
};
use crate::ownership::{self, Manager, Operation};
use futures::future::BoxFuture;
use orrery_api::{Encoded, Object, ObjectError};
use orrery_store::Revision;

/// How what was admitted is handed on, and in which form it is answered.
pub(super) type Write<T> =
    for<'a> fn(&'a dyn Accessor, Object, ApplyOptions) -> BoxFuture<'a, Result<Applied<T>, Error>>;

pub(super) fn as_object(
    inner: &dyn Accessor,
    next: Object,
    options: ApplyOptions,
) -> BoxFuture<'_, Result<Applied, Error>> {
    inner.apply(next, options)
}

/// It is encoded once, for the store and for the answer.
pub(super) fn as_encoded(
    inner: &dyn Accessor,
    next: Object,
    options: ApplyOptions,
) -> BoxFuture<'_, Result<Applied<Encoded>, Error>> {
    inner.apply_encoded(next.into(), options)
}

impl Admission {
    pub(super) async fn try_apply<T>(
        &self,
        given: &Object,
        lineage: Option<&str>,
        options: &ApplyOptions,
        write: Write<T>,
    ) -> Result<Applied<T>, Error>
    where
        Applied<T>: From<Applied>,
    {
        let name = ObjectName::of(given);
        let old = self.current(&name).await?;
        self.check_precondition(given, options.precondition, old.as_ref())?;
        let Some(mut old) = old else {
            let (next, options) = self.created(given, lineage, options)?;
            return write(&*self.inner, next, options).await;
        };
        // Nobody declares where an object came from, so nobody is recorded as its manager.
        let came_from = old.take_lineage();
        let mut next = self.compose(&old, given, options)?;
        let declared = options.include_lineage && options.part == Part::Main;
        next.set_lineage(if declared { lineage } else { came_from.as_deref() });
        old.set_lineage(came_from.as_deref());
        self.admit(&next, Some(&old), options)?;
        let at = revision_of(&old)?;
        if next.same(&old) {
            self.hold(&old, at, options).await?;
            return Ok(Applied { object: old, outcome: Outcome::Unchanged }.into());
        }
        self.stamp(&mut next, options);
        if next.deletion_timestamp().is_some() && next.finalizers().is_empty() {
            return self.finish_deletion(name, at, options).await.map(Applied::from);
        }
        let options = ApplyOptions { precondition: Precondition::At(at), ..options.clone() };
        write(&*self.inner, next, options).await
    }

    /// In a batch, what does not change must at least stay as it is until the commit.
    async fn hold(&self, old: &Object, at: Revision, options: &ApplyOptions) -> Result<(), Error> {
        if options.batch.is_none() {
            return Ok(());
        }
        let precondition = Precondition::At(at);
        let options = ApplyOptions { precondition, dry_run: true, ..options.clone() };
        self.inner.apply(old.clone(), options).await.map(|_| ())
    }

    /// What an object becomes, and whose its fields are then.
    fn compose(
        &self,
        old: &Object,
        given: &Object,
        options: &ApplyOptions,
    ) -> Result<Object, Error> {
        let manager = manager_of(options);
        match (options.merge, manager) {
            (Merge::Apply, Some(manager)) => {
                let mut next = self.declare(old, given, &manager, options.force)?;
                self.hold_on(&mut next);
                if options.part != Part::Status {
                    next.default();
                }
                Ok(merge::counted(next, old))
            }
            (merge @ (Merge::Declared | Merge::Replace | Merge::Apply), manager) => {
                let updated = merge::updated(old, given, options.part, merge);
                let mut next = updated.map_err(unfit)?;
                self.hold_on(&mut next);
                ownership::update(old, given, &mut next, manager.as_ref());
                Ok(next)
            }
        }
    }

    /// What is being deleted may be let go by anybody who is allowed to change it.
    fn hold_on(&self, next: &mut Object) {
        if next.deletion_timestamp().is_none() {
            self.holds.iter().for_each(|finalizer| next.add_finalizer(finalizer));
        }
    }

    fn declare(
        &self,
        live: &Object,
        given: &Object,
        manager: &Manager,
        force: bool,
    ) -> Result<Object, Error> {
        ownership::apply(live, given, manager, force).map_err(|conflicts| {
            let (kind, name) = (live.kind().qualified_plural(), given.name().to_owned());
            Error::ApplyConflict { kind, name, conflicts }
        })
    }

    fn created(
        &self,
        given: &Object,
        lineage: Option<&str>,
        options: &ApplyOptions,
    ) -> Result<(Object, ApplyOptions), Error> {
        let mut next = merge::created(given, &uuid::Uuid::new_v4().to_string(), self.clock.now());
        if !options.with_status {
            next.clear_status();
        }
        let (nothing, manager) = (Object::new(given.kind()), manager_of(options));
        if let (Merge::Apply, Some(manager)) = (options.merge, &manager) {
            // What is filled in below is not what the manager declares.
            next = self.declare(&next, given, manager, options.force)?;
        }
        self.hold_on(&mut next);
        next.default();
        if options.merge != Merge::Apply {
            ownership::update(&nothing, &nothing, &mut next, manager.as_ref());
        }
        next.set_lineage(lineage.filter(|_| options.include_lineage));
        self.admit(&next, None, options)?;
        self.stamp(&mut next, options);
        Ok((next, ApplyOptions { precondition: Precondition::Absent, ..options.clone() }))
    }

    fn stamp(&self, next: &mut Object, options: &ApplyOptions) {
        if let Some(manager) = manager_of(options) {
            ownership::stamp(next, &manager, self.clock.now());
        }
    }

    async fn finish_deletion(
        &self,
        name: ObjectName,
        at: Revision,
        options: &ApplyOptions,
    ) -> Result<Applied, Error> {
        let options = DeleteOptions {
            name,
            revision: Some(at),
            dry_run: options.dry_run,
            guards: options.guards.clone(),
            batch: options.batch.clone(),
            ..DeleteOptions::default()
        };
        let deleted = self.inner.delete(options).await?;
        Ok(Applied { object: deleted.object, outcome: Outcome::Gone })
    }
}

/// Whose fields are written; nobody's when the caller names no manager.
fn manager_of(options: &ApplyOptions) -> Option<Manager> {
    let operation = match options.merge {
        Merge::Apply => Operation::Apply,
        Merge::Declared | Merge::Replace => Operation::Update,
    };
    (!options.manager.is_empty()).then(|| Manager {
        name: options.manager.clone(),
        operation,
        scope: options.part.into(),
    })
}

fn unfit(error: ObjectError) -> Error {
    Error::Internal(error.to_string())
}

/// Whether the write may be tried again after this: the caller did not say which state it changes.
pub(super) fn may_retry(error: &Error, options: &ApplyOptions) -> bool {
    match (error, options.precondition) {
        (Error::Conflict { .. }, Precondition::Any | Precondition::Present) => true,
        // The project changed between the look and the write.
        (Error::Conflict { .. }, Precondition::Absent) => true,
        (Error::AlreadyExists { .. } | Error::NotFound { .. }, Precondition::Any) => true,
        (_, _) => false,
    }
}
