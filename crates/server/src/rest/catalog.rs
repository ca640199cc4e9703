//! Everything that can be asked for, found by its place in a path.
use super::resource::{Face, Resource};
use orrery_hub::{Error, Hub};
use std::sync::Arc;

/// The message of projects.
pub const PROJECT: &str = "orrery.core.v1.Project";
/// The message of events.
pub const EVENT: &str = "orrery.core.v1.Event";
/// The message of leases.
pub const LEASE: &str = "orrery.core.v1.Lease";

/// All resources of a server.
pub struct Catalog {
    resources: Vec<Arc<Resource>>,
}

/// The resources of one group in one version.
pub struct GroupVersion<'a> {
    /// Empty for the core group.
    pub group: &'a str,
    pub version: &'a str,
    pub resources: Vec<&'a Resource>,
}

impl GroupVersion<'_> {
    /// `apps.orrery.dev/v1`, or `v1` for the core group.
    pub fn name(&self) -> String {
        match self.group {
            "" => self.version.to_owned(),
            group => format!("{group}/{}", self.version),
        }
    }
}

impl Catalog {
    pub fn new(hub: &Hub) -> Result<Self, Error> {
        let mut resources = Vec::new();
        let faces =
            [(PROJECT, Face::Namespace), (EVENT, Face::CoreEvent), (EVENT, Face::GroupEvent)];
        for (message, face) in faces {
            if let Some(kind) = hub.scheme().by_full_name(message) {
                resources.push(Arc::new(Resource::new(hub, kind, face)?));
            }
        }
        for kind in hub.scheme().kinds() {
            resources.push(Arc::new(Resource::new(hub, kind, Face::Own)?));
        }
        Ok(Self { resources })
    }

    pub fn resources(&self) -> impl Iterator<Item = &Resource> {
        self.resources.iter().map(|resource| &**resource)
    }

    pub fn find(&self, group: &str, version: &str, plural: &str) -> Option<&Arc<Resource>> {
        self.resources
            .iter()
            .find(|r| r.group() == group && r.version() == version && r.plural() == plural)
    }

    /// Groups and versions in the order of the scheme: the preferred version of a group first.
    pub fn group_versions(&self) -> Vec<GroupVersion<'_>> {
        let mut found: Vec<GroupVersion<'_>> = Vec::new();
        for resource in &self.resources {
            let (group, version) = (resource.group(), resource.version());
            match found.iter_mut().find(|known| known.group == group && known.version == version) {
                Some(known) => known.resources.push(resource),
                None => found.push(GroupVersion { group, version, resources: vec![resource] }),
            }
        }
        found
    }
}
