//! The freeze switch: per deployment, per project, for all.
use super::refs::{FROZEN_ANNOTATION, meta};
use super::views::Views;
use orrery_api::SYSTEM_PROJECT;
use orrery_hub::ObjectName;
use orrery_proto::core::v1::Project;
use orrery_proto::infra::v1::{MachineDeployment, MachineSet};
use orrery_runtime::View;

/// Whether a project's annotation freezes its machines. Any word but "false" does: who writes "yes" at
/// three in the morning means it.
pub fn says(project: &Project) -> bool {
    let said = meta(&project.metadata).annotations.get(FROZEN_ANNOTATION);
    said.is_some_and(|said| said != "false")
}

/// Whether a project's machines are frozen, by itself or with all.
pub fn project(projects: &View<Project>, name: &str) -> bool {
    let frozen = |name: &str| projects.get(&ObjectName::new("", name)).is_some_and(|it| says(&it));
    frozen(SYSTEM_PROJECT) || frozen(name)
}

pub fn deployment(projects: &View<Project>, name: &str, it: &MachineDeployment) -> bool {
    it.spec.as_ref().is_some_and(|spec| spec.frozen()) || project(projects, name)
}

/// Whether a set is frozen, with its deployment or by itself.
pub fn set(views: &Views, name: &str, it: &MachineSet) -> bool {
    let own = it.spec.as_ref().is_some_and(|spec| spec.frozen());
    let with = views.deployment_of(name, it);
    own || with.is_some_and(|it| it.spec.as_ref().is_some_and(|spec| spec.frozen()))
        || project(&views.projects, name)
}
