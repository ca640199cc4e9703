//! What a server has to know of this domain: its rules, and what the leader runs.
use crate::controller::addon::AddonReconciler;
use crate::controller::blueprint::BlueprintReconciler;
use crate::controller::cluster::ClusterReconciler;
use crate::names::{ADDON_FINALIZER, BLUEPRINT_FINALIZER, CLUSTER_FINALIZER};
use crate::validate;
use crate::watches::{Queues, Watches};
use orrery_api::SchemeBuilder;
use orrery_hub::{Error, Hub, HubBuilder, ObjectName};
use orrery_runtime::{Controller, OnEnd, Reconciler, Tasks};
use tokio::sync::watch;

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
    run(tasks, "cluster-controller", clusters, synced.clone());
    run(tasks, "blueprint-controller", blueprints, synced.clone());
    run(tasks, "addon-controller", addons, synced);
    Ok(())
}

/// A controller that does not know what is there would do it anew, or let go of what is in use.
fn run<R: Reconciler<ObjectName>>(
    tasks: &mut Tasks,
    name: &'static str,
    controller: Controller<ObjectName, R>,
    synced: Vec<watch::Receiver<bool>>,
) {
    let stop = tasks.stop_token();
    tasks.spawn(name, OnEnd::StopAll, async move {
        for mut synced in synced {
            tokio::select! {
                () = stop.cancelled() => {}
                _ = synced.wait_for(|synced| *synced) => {}
            }
        }
        controller.run(stop).await
    });
}
