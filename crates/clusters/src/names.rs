//! Names: of labels and finalizers, of what a cluster makes, and of what belongs to it.
use orrery_proto::infra::v1::Cluster;
use orrery_proto::meta::v1::{ObjectMeta, OwnerReference};
pub use orrery_runtime::owned::{is_going, meta};

/// Held by a cluster until its addons and machines are gone.
pub const CLUSTER_FINALIZER: &str = "orrery.dev/cluster";
/// Held by a blueprint while a cluster names it.
pub const BLUEPRINT_FINALIZER: &str = "orrery.dev/blueprint-in-use";
/// Held by an addon while a blueprint names it.
pub const ADDON_FINALIZER: &str = "orrery.dev/addon-in-use";

/// What labels of ours begin with; nobody else sets them.
pub const LABELS: &str = "clusters.orrery.dev/";
/// On machines, their nodes, and workloads: the cluster. Clusters of other projects may have the same name.
pub const CLUSTER_LABEL: &str = "clusters.orrery.dev/cluster";
/// On the same: the identity of the cluster, by which its nodes are chosen.
pub const CLUSTER_UID_LABEL: &str = "clusters.orrery.dev/cluster-uid";
/// On machines and nodes: the pool.
pub const POOL_LABEL: &str = "clusters.orrery.dev/pool";
/// On workloads and their copies: the addon.
pub const ADDON_LABEL: &str = "clusters.orrery.dev/addon";
/// On nodes, followed by the name of an addon: it has been ready here, so that the next one may come.
pub const HAS_ADDON_LABEL: &str = "clusters.orrery.dev/has.";

/// The longest name of a cluster. With a dash and the name of a pool or an addon it is a name.
pub const CLUSTER_NAME_MAX: usize = 30;
/// The longest name of a pool or an addon.
pub const PART_NAME_MAX: usize = 32;

/// Whose fields they are that a cluster declares in what it makes. Fields that it does not declare are others'.
pub const MANAGER: &str = "orrery-clusters";

/// How the kind is called where an owner is named.
pub const CLUSTER_KIND: &str = "Cluster";

/// What a pool or an addon of a cluster becomes.
pub fn part(cluster: &str, part: &str) -> String {
    format!("{cluster}-{part}")
}

/// The label of a node on which an addon has been ready.
pub fn has_addon(addon: &str) -> String {
    format!("{HAS_ADDON_LABEL}{addon}")
}

/// The cluster that controls an object, if one does.
pub fn owner(metadata: &Option<ObjectMeta>) -> Option<&OwnerReference> {
    let owners = &meta(metadata).owner_references;
    owners.iter().find(|it| it.controller() && it.kind == CLUSTER_KIND)
}

/// Says that an object belongs to a cluster.
pub fn owned_by(cluster: &Cluster) -> OwnerReference {
    let own = meta(&cluster.metadata);
    OwnerReference {
        api_version: cluster.api_version.clone(),
        kind: CLUSTER_KIND.to_owned(),
        name: own.name.clone(),
        uid: own.uid.clone(),
        controller: Some(true),
        block_owner_deletion: Some(true),
    }
}

/// The labels by which what belongs to a cluster is found.
pub fn labels(cluster: &Cluster) -> [(String, String); 2] {
    let own = meta(&cluster.metadata);
    [(CLUSTER_LABEL.to_owned(), own.name.clone()), (CLUSTER_UID_LABEL.to_owned(), own.uid.clone())]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_cluster_makes_has_a_name() {
        let (cluster, pool) = ("c".repeat(CLUSTER_NAME_MAX), "p".repeat(PART_NAME_MAX));
        assert!(orrery_api::is_name(&part(&cluster, &pool)));
        assert!(orrery_api::is_qualified_name(&has_addon(&pool)));
    }
}
