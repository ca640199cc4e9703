//! Writes that need not see the whole object: see [`Composed`].
use super::apply::may_retry;
use super::{ATTEMPTS_MAX, Admission};
use crate::accessor::Accessor as _;
use crate::error::Error;
use crate::merge;
use crate::options::{Applied, ApplyOptions, Merge, ObjectName, Outcome, Part, Precondition};
use orrery_api::{Composed, Encoded, is_name};
use orrery_store::Revision;
use tracing::Instrument as _;

impl Admission {
    /// Writes an object without decoding what stays; `None` where it must be decoded, which says nothing
    /// about whether it is good.
    pub(super) async fn apply_composed(
        &self,
        given: &Encoded,
        options: &ApplyOptions,
    ) -> Result<Option<Applied<Encoded>>, Error> {
        let Some((name, options)) = self.composable(given, options) else { return Ok(None) };
        let span = self.span("apply", &name.project, &name.name);
        for _ in 1..ATTEMPTS_MAX {
            let trying = self.try_composed(given, &name, &options);
            match trying.instrument(span.clone()).await {
                Err(error) if may_retry(&error, &options) => {
                    tracing::debug!(%error, "someone else was faster, trying again");
                }
                outcome => return outcome,
            }
        }
        Ok(None)
    }

    /// Which object is meant, and the options, made exact; where nothing needs to be asked or remembered
    /// that only the whole object can tell.
    fn composable(
        &self,
        given: &Encoded,
        options: &ApplyOptions,
    ) -> Option<(ObjectName, ApplyOptions)> {
        let whole = self.on_write.is_some() || options.admit.is_some() || options.include_lineage;
        let recorded = !options.manager.is_empty() || options.merge == Merge::Apply;
        if whole || recorded || options.dry_run || options.batch.is_some() {
            return None;
        }
        let name = ObjectName::new(given.project().ok()?, given.name().ok()?);
        let placed = self.kind().cluster_scoped() || is_name(&name.project);
        if !placed || !is_name(&name.name) {
            return None;
        }
        let version = given.resource_version().ok()?;
        let precondition = match (options.precondition, version) {
            (Precondition::Absent, _) => return None,
            (exact @ Precondition::At(_), _) => exact,
            (Precondition::Any | Precondition::Present, "") => options.precondition,
            (Precondition::Any | Precondition::Present, version) => {
                Precondition::At(version.parse().ok()?)
            }
        };
        Some((name, ApplyOptions { precondition, ..options.clone() }))
    }

    async fn try_composed(
        &self,
        given: &Encoded,
        name: &ObjectName,
        options: &ApplyOptions,
    ) -> Result<Option<Applied<Encoded>>, Error> {
        // What is not there or cannot be read is told by those who decode.
        let Ok(old) = self.inner.get_encoded(name.clone().into()).await else { return Ok(None) };
        let Some(at) = fitting(&old, given, options.precondition) else { return Ok(None) };
        let composed = match (options.part, options.merge) {
            (Part::Status, _) => old.with_status_of(given),
            (Part::Main, Merge::Declared) => old.declare(given, Some(merge::is_wish), &self.holds),
            (Part::Main, Merge::Replace) => old.declare(given, None, &self.holds),
            (Part::Main, Merge::Apply) | (Part::Scale, _) => None,
        };
        match composed {
            None => Ok(None),
            Some(Composed::Same) => Ok(Some(Applied { object: old, outcome: Outcome::Unchanged })),
            Some(Composed::Next(next)) => {
                let precondition = Precondition::At(at);
                let options = ApplyOptions { precondition, ..options.clone() };
                self.inner.apply_encoded(next, options).await.map(Some)
            }
        }
    }
}

/// The revision that an object has, if it is the one that is meant.
fn fitting(old: &Encoded, given: &Encoded, wanted: Precondition) -> Option<Revision> {
    let at = old.resource_version().ok()?.parse().ok()?;
    let uid = given.uid().ok()?;
    if !uid.is_empty() && uid != old.uid().ok()? {
        return None;
    }
    match wanted {
        Precondition::At(wanted) if wanted != at => None,
        Precondition::Absent => None,
        Precondition::At(_) | Precondition::Any | Precondition::Present => Some(at),
    }
}
