//! One attempt to write an object.
use super::{Admission, revision_of};
use crate::error::Error;
use crate::merge;
use crate::options::{
    Applied, ApplyOptions, DeleteOptions, ObjectName, Outcome, Part, Precondition,
};
use orrery_api::Object;
use orrery_store::Revision;

impl Admission {
    pub(super) async fn try_apply(
        &self,
        given: &Object,
        options: &ApplyOptions,
    ) -> Result<Applied, Error> {
        let name = ObjectName::of(given);
        let old = self.current(&name).await?;
        self.check_precondition(given, options.precondition, old.as_ref())?;
        let Some(old) = old else { return self.create(given, options).await };
        let next = merge::updated(&old, given, options.part, options.merge)
            .map_err(|error| Error::Internal(error.to_string()))?;
        self.admit(&next, Some(&old), options.part)?;
        if next.same(&old) {
            return Ok(Applied { object: old, outcome: Outcome::Unchanged });
        }
        let at = revision_of(&old)?;
        if next.deletion_timestamp().is_some() && next.finalizers().is_empty() {
            return self.finish_deletion(name, at, options).await;
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
        let options = ApplyOptions { precondition: Precondition::Absent, ..options.clone() };
        self.inner.apply(next, options).await
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
            ..DeleteOptions::default()
        };
        let deleted = self.inner.delete(options).await?;
        Ok(Applied { object: deleted.object, outcome: Outcome::Gone })
    }
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

fn new_uid() -> String {
    uuid::Uuid::new_v4().to_string()
}
