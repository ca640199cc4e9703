//! A project goes when nothing is left in it.
use crate::CONTENTS_FINALIZER;
use async_trait::async_trait;
use orrery_api::{Encoded, Object, ObjectError};
use orrery_hub::{Accessor, Error, Hub, ListOptions, ObjectName, Resources};
use orrery_proto::core::v1::{Project, ProjectStatus};
use orrery_proto::meta::v1::ObjectMeta;
use orrery_runtime::{Next, Reconciler};
use std::sync::Arc;
use std::time::Duration;

/// How often a project that waits for its contents is looked at. Its contents tell nobody when they
/// go: there may be a thousand of any kind.
const LOOK_AGAIN: Duration = Duration::from_millis(250);

pub struct ProjectReconciler {
    projects: Resources<Project>,
    contents: Vec<Arc<dyn Accessor>>,
}

impl ProjectReconciler {
    pub fn new(hub: &Hub) -> Result<Self, Error> {
        let contents = hub.accessors().filter(|accessor| !accessor.kind().cluster_scoped());
        Ok(Self { projects: hub.resources()?, contents: contents.cloned().collect() })
    }

    /// Asks everything in the project to go, and tells how much is still there. What has a controller
    /// goes with its owner, in the order that the controller knows; only what is left when all owners
    /// are gone is asked to go by itself.
    async fn empty(&self, project: &str) -> Result<i64, Error> {
        let mut remaining = 0;
        let mut owned = Vec::new();
        for accessor in &self.contents {
            let options =
                ListOptions { project: Some(project.to_owned()), ..ListOptions::default() };
            for object in accessor.list(options).await?.items {
                if has_controller(&object) {
                    owned.push((accessor, ObjectName::of(&object)));
                } else {
                    remaining += remains(accessor, ObjectName::of(&object)).await?;
                }
            }
        }
        if 0 < remaining {
            return Ok(remaining + i64::try_from(owned.len()).unwrap_or(i64::MAX - remaining));
        }
        for (accessor, name) in owned {
            remaining += remains(accessor, name).await?;
        }
        Ok(remaining)
    }

    async fn publish(
        &self,
        name: &ObjectName,
        old: &Project,
        phase: &str,
        remaining: i64,
    ) -> Result<(), Error> {
        let mut status = old.status.clone().unwrap_or_default();
        status = ProjectStatus {
            phase: phase.to_owned(),
            remaining_resources: remaining,
            conditions: status.conditions,
        };
        if old.status.as_ref() == Some(&status) {
            return Ok(());
        }
        let metadata = ObjectMeta { name: name.name.clone(), ..ObjectMeta::default() };
        let next = Project { metadata: Some(metadata), status: Some(status), ..Project::default() };
        match self.projects.write_status(&next).await {
            Ok(_) | Err(Error::NotFound { .. }) => Ok(()),
            Err(error) => Err(error),
        }
    }
}

/// What is published of a project that nobody has asked to go.
const ACTIVE: &str = "Active";

/// What a project is reconciled by: whether it goes, and what was published of it. One that is as it should be
/// needs nobody, and whoever changes anything else of it disturbs nobody.
pub fn unsettled(project: &Encoded) -> Result<Option<Project>, ObjectError> {
    let (going, status) = (project.is_going()?, project.status::<ProjectStatus>()?);
    let active = |it: &ProjectStatus| it.phase == ACTIVE && it.remaining_resources == 0;
    if !going && status.as_ref().is_some_and(active) {
        return Ok(None);
    }
    let marked = ObjectMeta { deletion_timestamp: Some(<_>::default()), ..ObjectMeta::default() };
    Ok(Some(Project { metadata: going.then_some(marked), status, ..Project::default() }))
}

#[async_trait]
impl Reconciler<ObjectName> for ProjectReconciler {
    type Error = Error;

    async fn reconcile(&self, key: &ObjectName) -> Result<Next, Error> {
        let Some(project) = self.projects.find(key).await? else { return Ok(Next::AwaitChange) };
        let deleting =
            project.metadata.as_ref().is_some_and(|meta| meta.deletion_timestamp.is_some());
        if !deleting {
            self.publish(key, &project, ACTIVE, 0).await?;
            return Ok(Next::AwaitChange);
        }
        let remaining = self.empty(&key.name).await?;
        if 0 < remaining {
            self.publish(key, &project, "Terminating", remaining).await?;
            return Ok(Next::After(LOOK_AGAIN));
        }
        let release = |meta: &mut ObjectMeta| meta.finalizers.retain(|f| f != CONTENTS_FINALIZER);
        match self.projects.update_meta(key, release).await {
            Ok(_) | Err(Error::NotFound { .. }) => Ok(Next::AwaitChange),
            Err(error) => Err(error),
        }
    }
}

fn has_controller(object: &Object) -> bool {
    object.meta().owner_references.iter().any(|owner| owner.controller())
}

/// Asks an object to go: 1 if it is still there, 0 if not.
async fn remains(accessor: &Arc<dyn Accessor>, name: ObjectName) -> Result<i64, Error> {
    match accessor.delete(name.into()).await {
        Ok(deleted) => Ok(i64::from(!deleted.gone)),
        Err(Error::NotFound { .. }) => Ok(0),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use orrery_api::{ObjectMeta as Meta, Scheme};
    use prost_types::Timestamp;

    fn of(project: &Project) -> Option<Project> {
        let scheme = Scheme::builtin().expect("our own kinds");
        let kind = scheme.by_full_name(crate::PROJECT).expect("it is one of them");
        let encoded = Encoded::from_typed(kind, project).expect("a project");
        unsettled(&encoded).expect("readable")
    }

    fn project(meta: Meta, phase: &str) -> Project {
        let status = ProjectStatus { phase: phase.to_owned(), ..ProjectStatus::default() };
        Project { metadata: Some(meta), status: Some(status), ..Project::default() }
    }

    #[test]
    fn only_what_it_is_reconciled_by_counts() {
        let noted = Meta { annotations: [("a".into(), "b".into())].into(), ..Meta::default() };
        let going = Meta { deletion_timestamp: Some(Timestamp::default()), ..noted.clone() };
        let new = Project { metadata: Some(noted.clone()), ..Project::default() };
        assert!(of(&new).is_some(), "nothing is published of it yet");
        assert!(of(&project(noted.clone(), "Active")).is_none(), "it is as it should be");
        assert!(of(&project(noted.clone(), "Terminating")).is_some(), "it does not go");
        let leaving = of(&project(going.clone(), "Active"));
        assert!(leaving.is_some(), "it goes");
        let plainly = Meta { annotations: [].into(), ..going.clone() };
        assert_eq!(leaving, of(&project(plainly, "Active")), "what people write on it");
        assert_ne!(leaving, of(&project(going, "Terminating")), "what is published");
    }
}
