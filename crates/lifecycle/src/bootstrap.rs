//! The projects that every installation has.
use orrery_api::SYSTEM_PROJECT;
use orrery_hub::{Error, Hub};
use orrery_proto::core::v1::{Project, ProjectSpec};
use orrery_proto::meta::v1::ObjectMeta;

/// Where people begin.
pub const DEFAULT_PROJECT: &str = "default";

/// Makes them, where they are not there yet.
pub async fn ensure_projects(hub: &Hub) -> Result<(), Error> {
    let projects = hub.resources::<Project>()?;
    let described = [
        (SYSTEM_PROJECT, "What the installation itself needs."),
        (DEFAULT_PROJECT, "For what was not given a project of its own."),
    ];
    for (name, description) in described {
        let metadata = ObjectMeta {
            name: name.to_owned(),
            description: description.to_owned(),
            ..ObjectMeta::default()
        };
        let project =
            Project { metadata: Some(metadata), spec: Some(ProjectSpec {}), ..Project::default() };
        match projects.create(&project).await {
            Ok(_) | Err(Error::AlreadyExists { .. } | Error::BeingDeleted { .. }) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}
