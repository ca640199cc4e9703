//! What a server has to know of this domain: its rules, and what the leader runs.
use crate::controllers::liveness::LivenessReconciler;
use crate::edge::{
    attachment::AttachmentEdge, ceph::Keys, hosts::Hosts, snapshot::SnapshotEdge,
    volume::VolumeEdge,
};
use crate::volume::controller::VolumeReconciler;
use crate::watches::{Queues, Watches};
use crate::{ProxyConfig, controllers, volume};
use orrery_api::SchemeBuilder;
use orrery_hub::{Error, Hub, HubBuilder};
use orrery_runtime::{Controller, OnEnd, Tasks};
use std::sync::Arc;

/// Says what resources of this domain must be like.
pub fn rules(builder: SchemeBuilder) -> SchemeBuilder {
    builder
        .validator("orrery.storage.v1.StorageController", controllers::validate)
        .validator("orrery.storage.v1.Volume", volume::validate)
}

/// Says what resources of this domain wait for when they are deleted.
pub fn register(builder: HubBuilder) -> HubBuilder {
    builder
        .held_by("orrery.storage.v1.Volume", volume::DATA_FINALIZER)
        .held_by("orrery.storage.v1.VolumeSnapshot", volume::DATA_FINALIZER)
        .held_by("orrery.storage.v1.VolumeAttachment", volume::DEVICE_FINALIZER)
}

/// Starts what only the leader does, on a hub that is fenced by its lease. Without a way to reach
/// storage controllers nothing is done to volumes.
pub fn spawn_leader(
    hub: &Hub,
    to_controllers: Option<ProxyConfig>,
    tasks: &mut Tasks,
) -> Result<(), Error> {
    let mut watches = Watches::new(hub)?;
    let liveness = Controller::new("storage-controllers", LivenessReconciler::new(hub)?);
    let queue = liveness.queue();
    watches.controllers.on_change(move |change| queue.add(change.name.clone()));
    tasks.spawn("storage-controllers", OnEnd::StopAll, liveness.run(tasks.stop_token()));
    let Some(config) = to_controllers else {
        tracing::warn!("the storage registry is off, so volumes are not carried out here");
        watches.spawn(tasks);
        return Ok(());
    };
    let views = watches.views();
    let hosts = Arc::new(Hosts::new(views.controllers.clone(), &config));
    let keys = Arc::new(Keys::new(hub)?);
    let volumes = Controller::new("volumes", VolumeReconciler::new(hub, views.clone())?);
    let edge = VolumeEdge::new(hub, views.clone(), hosts.clone(), keys.clone())?;
    let edge = Controller::new("volume-edge", edge);
    let attachments = AttachmentEdge::new(hub, views.clone(), hosts.clone(), keys)?;
    let attachments = Controller::new("attachment-edge", attachments);
    let snapshots = Controller::new("snapshot-edge", SnapshotEdge::new(hub, views, hosts)?);
    watches.feed(&Queues {
        volumes: volumes.queue(),
        edge: edge.queue(),
        attachments: attachments.queue(),
        snapshots: snapshots.queue(),
    });
    let synced = watches.synced();
    watches.spawn(tasks);
    volumes.spawn("volumes", synced.clone(), tasks);
    edge.spawn("volume-edge", synced.clone(), tasks);
    attachments.spawn("attachment-edge", synced.clone(), tasks);
    snapshots.spawn("snapshot-edge", synced, tasks);
    Ok(())
}
