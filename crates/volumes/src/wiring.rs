//! What a server has to know of this domain: its rules, and what the leader runs.
use crate::{ProxyConfig, controllers};
use orrery_api::SchemeBuilder;
use orrery_hub::{Error, Hub, HubBuilder};
use orrery_proto::storage::v1::StorageController;
use orrery_runtime::{Controller, OnEnd, Reflector, Tasks};

/// Says what resources of this domain must be like.
pub fn rules(builder: SchemeBuilder) -> SchemeBuilder {
    builder.validator("orrery.storage.v1.StorageController", controllers::validate)
}

/// Says what new resources of this domain get.
pub fn register(builder: HubBuilder) -> HubBuilder {
    builder
}

/// Starts what only the leader does, on a hub that is fenced by its lease. Without a way to reach
/// storage controllers nothing is done to volumes.
pub fn spawn_leader(
    hub: &Hub,
    _to_controllers: Option<ProxyConfig>,
    tasks: &mut Tasks,
) -> Result<(), Error> {
    let stop = tasks.stop_token();
    let mut watch = Reflector::<StorageController>::new(hub.resources()?);
    let liveness = Controller::new(
        "storage-controllers",
        controllers::liveness::LivenessReconciler::new(hub)?,
    );
    let queue = liveness.queue();
    watch.on_change(move |change| queue.add(change.name.clone()));
    tasks.spawn("storage-controller-watch", OnEnd::StopAll, watch.run(stop.clone()));
    tasks.spawn("storage-controllers", OnEnd::StopAll, liveness.run(stop));
    Ok(())
}
