//! Volumes as people declare them: where they are placed, and on which nodes they are needed.
pub mod controller;
mod place;
pub mod plan;
mod validate;
mod words;

pub use validate::validate;

use orrery_proto::infra::v1::Node;
use orrery_proto::storage::v1::{Volume, VolumeSpec};

/// Held by a volume until its data is gone from its host.
pub const DATA_FINALIZER: &str = "storage.orrery.dev/data";
/// Held by an attachment until its device is gone from its host.
pub const DEVICE_FINALIZER: &str = "storage.orrery.dev/device";
/// On a node: the id of the storage controller on its host, if that is not the node's name.
pub const CONTROLLER_LABEL: &str = "storage.orrery.dev/controller";
/// On an attachment that was made for workloads, and goes with them.
pub const FOR_WORKLOADS_LABEL: &str = "storage.orrery.dev/for-workloads";
/// On a volume that is being deleted: do not wait for a host that is away.
pub const FORGET_ANNOTATION: &str = "storage.orrery.dev/forget";

/// The id of the storage controller that serves a node.
pub fn controller_of(name: &str, node: Option<&Node>) -> String {
    let labels = node.and_then(|node| node.metadata.as_ref()).map(|meta| &meta.labels);
    let label = labels.and_then(|labels| labels.get(CONTROLLER_LABEL));
    label.cloned().unwrap_or_else(|| name.to_owned())
}

/// The size that a volume should have; validation has seen to it that there is one.
pub fn size_bytes(volume: &Volume) -> i64 {
    let size = volume.spec.as_ref().map(VolumeSpec::size).unwrap_or_default();
    crate::quantity::parse(size).unwrap_or_default()
}

/// The name of a volume at its storage controller: the same for the same object, and no other's.
pub fn handle(uid: &str) -> String {
    format!("v-{uid}")
}

/// The name of a VolumeSnapshot there.
pub fn kept_handle(uid: &str) -> String {
    format!("k-{uid}")
}
