//! The freeze switch: per deployment, per project, for all.
use super::refs::{FROZEN_ANNOTATION, meta};
use orrery_api::SYSTEM_PROJECT;
use orrery_hub::ObjectName;
use orrery_proto::core::v1::Project;
use orrery_proto::infra::v1::{MachineDeployment, MachineSet};
use orrery_proto::meta::v1::ObjectMeta;
use orrery_runtime::View;

/// Whether a project's annotation freezes its machines. Any word but "false" does: who writes "yes" at
/// three in the morning means it.
pub fn says(project: &Project) -> bool {
    let said = meta(&project.metadata).annotations.get(FROZEN_ANNOTATION);
    said.is_some_and(|said| said != "false")
}

/// Leaves of a project what freezes it: there may be very many projects, and they may say much.
pub fn keep_switch(project: &mut Project) {
    let metadata = project.metadata.take().unwrap_or_default();
    let annotations = metadata.annotations.into_iter();
    let annotations = annotations.filter(|(name, _)| name == FROZEN_ANNOTATION).collect();
    let metadata = ObjectMeta { name: metadata.name, annotations, ..ObjectMeta::default() };
    *project = Project { metadata: Some(metadata), ..Project::default() };
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
