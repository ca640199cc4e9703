//! Finds what names stand for: blueprints, and addons in the version that a blueprint wants.
use crate::names::meta;
use orrery_api::SHARED_FROM;
use orrery_hub::{Error, GetOptions, ObjectName, Resources};
use orrery_proto::infra::v1::{Addon, Blueprint, BlueprintAddon};

/// How many versions of an addon are named where one is missing.
const NAMED_MAX: usize = 10;

/// A blueprint, and the project that it and its addons are of.
pub struct Found {
    pub blueprint: Blueprint,
    pub project: String,
}

/// The blueprint that one of the project means by this name: its own, else one that is shared with it.
pub async fn blueprint(
    blueprints: &Resources<Blueprint>,
    name: &ObjectName,
) -> Result<Option<Found>, Error> {
    let found = blueprints.find_readable(name).await?;
    Ok(found.map(|blueprint| {
        let from = meta(&blueprint.metadata).annotations.get(SHARED_FROM).cloned();
        Found { blueprint, project: from.unwrap_or_else(|| name.project.clone()) }
    }))
}

/// An addon as a blueprint of this project wants it, or why there is none.
pub async fn addon(
    addons: &Resources<Addon>,
    project: &str,
    wanted: &BlueprintAddon,
) -> Result<Result<Addon, String>, Error> {
    let name = ObjectName::new(project, wanted.name());
    let Some(current) = addons.find(&name).await? else {
        return Ok(Err(format!(
            "there is no addon {:?} in project {project:?}: create it, or take it out of the blueprint",
            wanted.name()
        )));
    };
    let at = current.spec.as_ref().map(|spec| spec.version().to_owned()).unwrap_or_default();
    let Some(version) = wanted.version.as_ref().filter(|version| **version != at) else {
        return Ok(Ok(current));
    };
    let options = GetOptions { version: Some(version.clone()), ..name.clone().into() };
    match addons.accessor().get_encoded(options).await {
        Ok(kept) => kept
            .typed()
            .map(Ok)
            .map_err(|error| Error::Internal(format!("cannot read a kept addon: {error}"))),
        Err(Error::NotFound { .. }) => {
            let versions = addons.accessor().versions(name).await?;
            let known: Vec<&str> =
                versions.iter().take(NAMED_MAX).map(|it| it.name.as_str()).collect();
            let known = known.join(", ");
            Ok(Err(format!("addon {:?} has no version {version:?}; it has {known}", wanted.name())))
        }
        Err(error) => Err(error),
    }
}
