//! The freeze switch: per deployment, per project, for all.
use super::refs::{FROZEN_ANNOTATION, meta};
use orrery_api::{Encoded, ObjectError, SYSTEM_PROJECT};
use orrery_hub::ObjectName;
use orrery_proto::core::v1::Project;
use orrery_proto::infra::v1::{MachineDeployment, MachineSet};
use orrery_proto::meta::v1::ObjectMeta;
use orrery_runtime::View;
use std::collections::HashMap;

/// Whether a project's annotation freezes its machines. Any word but "false" does: who writes "yes" at
/// three in the morning means it.
pub fn says(project: &Project) -> bool {
    let said = meta(&project.metadata).annotations.get(FROZEN_ANNOTATION);
    said.is_some_and(|said| said != "false")
}

/// What freezes a project, where something does: there may be very many projects, and they may say much.
pub fn switch(project: &Encoded) -> Result<Option<Project>, ObjectError> {
    let Some(said) = project.annotation(FROZEN_ANNOTATION) else { return Ok(None) };
    let annotations = HashMap::from([(FROZEN_ANNOTATION.to_owned(), said.to_owned())]);
    let metadata = ObjectMeta { annotations, ..ObjectMeta::default() };
    Ok(Some(Project { metadata: Some(metadata), ..Project::default() }))
}

/// Whether machines of a project are frozen: by their set, by their deployment, with their project, or
/// with all.
pub fn is_frozen(
    projects: &View<Project>,
    project: &str,
    set: Option<&MachineSet>,
    deployment: Option<&MachineDeployment>,
) -> bool {
    let frozen = |name: &str| projects.get(&ObjectName::new("", name)).is_some_and(|it| says(&it));
    let by_set = set.is_some_and(|it| it.spec.as_ref().is_some_and(|it| it.frozen()));
    let by_deployment = deployment.is_some_and(|it| it.spec.as_ref().is_some_and(|it| it.frozen()));
    by_set || by_deployment || frozen(SYSTEM_PROJECT) || frozen(project)
}
