//! One attempt to delete an object.
use super::{Admission, revision_of};
use crate::error::Error;
use crate::merge;
use crate::options::{ApplyOptions, DeleteOptions, Deleted};
use orrery_api::Object;
use orrery_store::Revision;

impl Admission {
    pub(super) async fn try_delete(&self, options: &DeleteOptions) -> Result<Deleted, Error> {
        let old = self.inner.get(options.name.clone().into()).await?;
        let at = revision_of(&old)?;
        self.check_identity(&old, at, options)?;
        let finalizers = merge::finalizers_to_go(&old.meta().finalizers, options.propagation);
        if finalizers.is_empty() {
            let options = DeleteOptions { revision: Some(at), ..options.clone() };
            return self.inner.delete(options).await;
        }
        let marked = merge::marked_for_deletion(&old, finalizers, self.clock.now());
        if marked.same(&old) {
            return Ok(Deleted { object: old, gone: false });
        }
        let write = ApplyOptions {
            dry_run: options.dry_run,
            guards: options.guards.clone(),
            batch: options.batch.clone(),
            ..ApplyOptions::replace_at(at)
        };
        let applied = self.inner.apply(marked, write).await?;
        Ok(Deleted { object: applied.object, gone: false })
    }

    fn check_identity(
        &self,
        old: &Object,
        at: Revision,
        options: &DeleteOptions,
    ) -> Result<(), Error> {
        let refused = match (&options.uid, options.revision) {
            (Some(uid), _) if uid != old.uid() => format!("its uid is {}, not {uid}", old.uid()),
            (_, Some(wanted)) if wanted != at => format!("it is at revision {at}, not {wanted}"),
            (_, _) => return Ok(()),
        };
        Err(self.conflict(&options.name.name, refused))
    }
}
