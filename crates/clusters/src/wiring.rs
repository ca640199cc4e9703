//! What a server has to know of this domain: its rules, and what the leader runs.
use crate::controller::addon::AddonReconciler;
use crate::controller::blueprint::BlueprintReconciler;
use crate::controller::cluster::ClusterReconciler;
use crate::names::{ADDON_FINALIZER, BLUEPRINT_FINALIZER, CLUSTER_FINALIZER};
use crate::validate;
use crate::watches::{Queues, Watches};
use orrery_api::SchemeBuilder;
use orrery_hub::{Error, Hub, HubBuilder};
use orrery_runtime::{Controller, Tasks};

/// Says what resources of this domain must be like.
pub fn rules(builder: SchemeBuilder) -> SchemeBuilder {
    builder
        .validator("orrery.infra.v1.Cluster", validate::cluster)
        .validator("orrery.infra.v1.Blueprint", validate::blueprint)
        .validator("orrery.infra.v1.Addon", validate::addon)
}

/// Says what resources of this domain wait for when they are deleted.
pub fn register(builder: HubBuilder) -> HubBuilder {
    builder
        .held_by("orrery.infra.v1.Cluster", CLUSTER_FINALIZER)
        .held_by("orrery.infra.v1.Blueprint", BLUEPRINT_FINALIZER)
        .held_by("orrery.infra.v1.Addon", ADDON_FINALIZER)
}

/// Starts what only the leader does, on a hub that is fenced by its lease.
pub fn spawn_leader(hub: &Hub, tasks: &mut Tasks) -> Result<(), Error> {
    let mut watches = Watches::new(hub)?;
    let views = watches.views();
    let clusters = Controller::new("clusters", ClusterReconciler::new(hub, views.clone())?);
    let blueprints = Controller::new("blueprints", BlueprintReconciler::new(hub, views.clone())?);
    let addons = Controller::new("addons", AddonReconciler::new(hub, views)?);
    watches.feed(&Queues {
        clusters: clusters.queue(),
        blueprints: blueprints.queue(),
        addons: addons.queue(),
    });
    let synced = watches.synced();
    watches.spawn(tasks);
    clusters.spawn("cluster-controller", synced.clone(), tasks);
    blueprints.spawn("blueprint-controller", synced.clone(), tasks);
    addons.spawn("addon-controller", synced, tasks);
    Ok(())
}
