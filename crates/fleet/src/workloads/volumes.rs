//! What volumes have to say about where a copy can run: a volume is on the host of one storage
//! controller, and a copy that mounts it runs there or not at all.
use orrery_hub::ObjectName;
use orrery_proto::apps::v1::Workload;
use orrery_proto::infra::v1::Node;
use orrery_proto::storage::v1::{StorageController, Volume};
use orrery_runtime::View;
use std::collections::BTreeSet;

/// On a node: the id of the storage controller on its host, if that is not the node's name.
const CONTROLLER_LABEL: &str = "storage.orrery.dev/controller";

/// A volume that the copies of a workload mount.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Anchor {
    pub volume: String,
    /// The id of the storage controller that has it; nothing while it goes where it is used first.
    pub controller: Option<String>,
}

/// The id of the storage controller that serves a node.
pub fn controller_of(node: &Node) -> String {
    let metadata = node.metadata.clone().unwrap_or_default();
    metadata.labels.get(CONTROLLER_LABEL).cloned().unwrap_or(metadata.name)
}

/// The ids of all storage controllers that have registered.
pub fn registered(controllers: &View<StorageController>) -> BTreeSet<String> {
    let id = |(name, controller): (ObjectName, std::sync::Arc<StorageController>)| {
        let spec = controller.spec.as_ref();
        spec.and_then(|spec| spec.controller_id.clone()).unwrap_or(name.name)
    };
    controllers.all().into_iter().map(id).collect()
}

/// The volumes that hold the copies of a workload to their hosts. One that is not declared (yet) holds
/// nothing: the copy says what it waits for.
pub fn anchors(project: &str, workload: &Workload, volumes: &View<Volume>) -> Vec<Anchor> {
    let mut anchors: Vec<Anchor> = Vec::new();
    for volume in mounted(workload) {
        let known = anchors.iter().any(|anchor| anchor.volume == volume);
        let found = volumes.get(&ObjectName::new(project, volume)).filter(|_| !known);
        if let Some(found) = found {
            let placed = found.status.as_ref().map(|status| status.controller.clone());
            let controller = placed.filter(|placed| !placed.is_empty());
            anchors.push(Anchor { volume: volume.to_owned(), controller });
        }
    }
    anchors
}

/// The names of the volumes that a workload mounts.
pub fn mounted(workload: &Workload) -> impl Iterator<Item = &str> {
    workload.spec.iter().flat_map(|spec| &spec.volumes).map(|mount| mount.volume())
}
