//! Volume snapshots at their storage controllers: taken once, kept without their volume, deleted last.
use super::hosts::Hosts;
use super::{LOOK_AGAIN, Problem, RETRY, ceph};
use crate::quantity;
use crate::status::{self, meta, ready};
use crate::volume::controller::{Views, gone_is_fine, host};
use crate::volume::{DATA_FINALIZER, FORGET_ANNOTATION, handle, kept_handle};
use async_trait::async_trait;
use orrery_hub::events::{Happening, Recorder, Severity};
use orrery_hub::{Clock, Error, Hub, ObjectName, Resources};
use orrery_proto::core::v1::ObjectReference;
use orrery_proto::meta::v1::ObjectMeta;
use orrery_proto::storage::v1::{Volume, VolumeSnapshot, VolumeSnapshotSpec, VolumeSnapshotStatus};
use orrery_proto::volumes::v1 as pb;
use orrery_runtime::{Next, Reconciler, conditions};
use std::sync::Arc;

/// On a snapshot at a controller, so that people who look there know what they see.
const LABEL: &str = "storage.orrery.dev/volume-snapshot";

/// What to do about a snapshot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Write down where it will be; then take it.
    Place {
        controller: String,
        volume_uid: String,
    },
    /// Have the controller take it, or say that it has.
    Take,
    /// It was taken: is it still there?
    Look,
    /// Delete its data.
    Drop,
    /// Nothing is left to undo; what stays on a host, in words.
    Release(Option<String>),
    Wait(Problem),
}

/// Decides. `away` says whether the controller that it is on is not heard of.
pub fn step(found: &VolumeSnapshot, volume: Option<&Volume>, away: bool) -> Step {
    let metadata = meta(&found.metadata);
    let status = found.status.clone().unwrap_or_default();
    let spec = found.spec.clone().unwrap_or_default();
    if metadata.deletion_timestamp.is_some() {
        return ending(metadata, &spec, &status, away);
    }
    if !status.controller.is_empty() {
        return if status.size_bytes == 0 { Step::Take } else { Step::Look };
    }
    let wait = |reason: &'static str, message: String| Step::Wait(Problem { reason, message });
    let name = spec.volume();
    let Some(volume) = volume else {
        return wait("NoVolume", format!("there is no volume {name}"));
    };
    if meta(&volume.metadata).deletion_timestamp.is_some() {
        return wait("VolumeDeleting", format!("the volume {name} is being deleted"));
    }
    if ceph::image(volume).is_some() {
        let message = format!("the volume {name} is an image of Ceph: take its snapshots there");
        return wait("NotSupported", message);
    }
    let placed = volume.status.clone().unwrap_or_default();
    if placed.observed.unwrap_or_default().size_bytes == 0 {
        let why = placed.message;
        return wait("VolumeNotReady", format!("the volume {name} is not there yet: {why}"));
    }
    Step::Place { controller: placed.controller, volume_uid: meta(&volume.metadata).uid.clone() }
}

fn ending(
    metadata: &ObjectMeta,
    spec: &VolumeSnapshotSpec,
    status: &VolumeSnapshotStatus,
    away: bool,
) -> Step {
    if status.controller.is_empty() {
        return Step::Release(None);
    }
    let forget = metadata.annotations.get(FORGET_ANNOTATION).is_some_and(|value| value == "true");
    if spec.deletion_policy() == "keep" || (forget && away) {
        return Step::Release(Some(left_behind(status)));
    }
    Step::Drop
}

fn left_behind(status: &VolumeSnapshotStatus) -> String {
    let VolumeSnapshotStatus { size, controller, handle, .. } = status;
    format!("{size} stay on {controller} under the name {handle}")
}

/// What deleting it would do.
fn impact(spec: &VolumeSnapshotSpec, status: &VolumeSnapshotStatus) -> String {
    match (status.size_bytes, spec.deletion_policy()) {
        (0, _) => "no data is lost: it was never taken".to_owned(),
        (_, "keep") => left_behind(status),
        (_, _) => format!("deletes {} of data on {}", status.size, status.controller),
    }
}

/// Carries snapshots out.
pub struct SnapshotEdge {
    resources: Resources<VolumeSnapshot>,
    views: Views,
    hosts: Arc<Hosts>,
    recorder: Recorder,
    clock: Arc<dyn Clock>,
}

impl SnapshotEdge {
    pub fn new(hub: &Hub, views: Views, hosts: Arc<Hosts>) -> Result<Self, Error> {
        let (resources, clock) = (hub.resources()?, hub.clock().clone());
        Ok(Self { resources, views, hosts, recorder: Recorder::new(hub, "volumes")?, clock })
    }

    fn step(&self, key: &ObjectName, found: &VolumeSnapshot) -> Step {
        let volume = found.spec.as_ref().map(VolumeSnapshotSpec::volume).unwrap_or_default();
        let volume = self.views.volumes.get(&ObjectName::new(&key.project, volume));
        let controller = found.status.as_ref().map(|status| status.controller.as_str());
        let hosts = self.views.controllers.all();
        let mut hosts = hosts.iter().filter_map(host);
        let heard = hosts.any(|(id, host)| Some(id.as_str()) == controller && host.ready);
        step(found, volume.as_deref(), !heard)
    }

    async fn take(
        &self,
        key: &ObjectName,
        found: &VolumeSnapshot,
    ) -> Result<pb::Snapshot, Problem> {
        let status = found.status.clone().unwrap_or_default();
        let request = pb::CreateSnapshotRequest {
            name: status.handle,
            volume: handle(&status.volume_uid),
            labels: [(LABEL.to_owned(), key.to_string())].into(),
        };
        let mut host = self.hosts.host(&status.controller)?;
        Ok(host.pool.create_snapshot(request).await?.into_inner())
    }

    async fn look(&self, found: &VolumeSnapshot) -> Result<pb::Snapshot, Problem> {
        let status = found.status.clone().unwrap_or_default();
        let mut host = self.hosts.host(&status.controller)?;
        let listed = host.pool.list_snapshots(pb::ListSnapshotsRequest {}).await?.into_inner();
        let mut there = listed.snapshots.into_iter();
        there.find(|snapshot| snapshot.name == status.handle).ok_or_else(|| {
            let message = "the snapshot was there, and the storage controller of its host does not have \
                           it any more: it runs with another state folder than before, or the data is gone";
            Problem { reason: "Lost", message: message.to_owned() }
        })
    }

    async fn delete(&self, found: &VolumeSnapshot) -> Result<(), Problem> {
        let status = found.status.clone().unwrap_or_default();
        let request = pb::DeleteSnapshotRequest { name: status.handle };
        self.hosts.host(&status.controller)?.pool.delete_snapshot(request).await?;
        Ok(())
    }

    async fn write(
        &self,
        key: &ObjectName,
        change: impl Fn(&mut VolumeSnapshotStatus) + Send + Sync,
    ) -> Result<(), Error> {
        let now = self.clock.now();
        status::update(&self.resources, key, |found| {
            let generation = meta(&found.metadata).generation;
            let spec = found.spec.clone().unwrap_or_default();
            let status = found.status.get_or_insert_default();
            change(status);
            status.impact = vec![impact(&spec, status)];
            status.observed_generation = generation;
            let truth = if status.state == "Ready" { "True" } else { "False" };
            let condition = ready(truth, &status.reason, &status.message, generation);
            conditions::set(&mut status.conditions, condition, now);
        })
        .await
        .map(|_| ())
    }

    async fn place(&self, key: &ObjectName, at: &str, volume_uid: &str) -> Result<(), Error> {
        let found = self.resources.find(key).await?.unwrap_or_default();
        let name = kept_handle(&meta(&found.metadata).uid);
        self.write(key, |status| {
            words(status, "Pending", "Taking", format!("waiting for {at} to take it"));
            at.clone_into(&mut status.controller);
            volume_uid.clone_into(&mut status.volume_uid);
            status.handle.clone_from(&name);
        })
        .await
    }

    async fn taken(&self, key: &ObjectName, there: &pb::Snapshot) -> Result<(), Error> {
        self.write(key, |status| {
            status.size_bytes = there.size_bytes;
            status.size = quantity::show(there.size_bytes);
            status.taken_time = there.created;
            let message = format!("{} on {}", status.size, status.controller);
            words(status, "Ready", "Taken", message);
        })
        .await
    }

    async fn waits(&self, key: &ObjectName, going: bool, problem: &Problem) -> Result<(), Error> {
        self.write(key, |status| {
            let state = match (going, status.size_bytes) {
                (true, _) => "Deleting",
                (false, 0) => "Pending",
                (false, _) => "Degraded",
            };
            let mut message = problem.message.clone();
            if going && problem.reason == "HostAway" {
                message = format!(
                    "{message}; the annotation {FORGET_ANNOTATION}=true lets it go without waiting: {}",
                    left_behind(status)
                );
            }
            words(status, state, problem.reason, message);
        })
        .await
    }

    async fn release(&self, key: &ObjectName, left: Option<&str>) -> Result<(), Error> {
        if let Some(left) = left {
            tracing::info!(snapshot = %key, left, "a snapshot goes without its data");
            let regarding = ObjectReference {
                kind: Some("VolumeSnapshot".into()),
                name: Some(key.name.clone()),
                project: Some(key.project.clone()),
                ..ObjectReference::default()
            };
            let message = format!("deleted without its data: {left}");
            let (severity, reason) = (Severity::Warning, "Forgotten");
            self.recorder.record(Happening { regarding, severity, reason, message }).await;
        }
        let without = |meta: &mut ObjectMeta| meta.finalizers.retain(|held| held != DATA_FINALIZER);
        gone_is_fine(self.resources.update_meta(key, without).await.map(|_| ()))
    }

    /// Does one step; says why it could not.
    async fn carry_out(
        &self,
        key: &ObjectName,
        found: &VolumeSnapshot,
        step: Step,
    ) -> Result<Result<Next, Problem>, Error> {
        let there = match step {
            Step::Wait(problem) => return Ok(Err(problem)),
            Step::Release(left) => {
                self.release(key, left.as_deref()).await?;
                return Ok(Ok(Next::AwaitChange));
            }
            Step::Drop => match self.delete(found).await {
                Ok(()) => {
                    self.release(key, None).await?;
                    return Ok(Ok(Next::AwaitChange));
                }
                Err(problem) => return Ok(Err(problem)),
            },
            // What is written makes us look again, and take it then.
            Step::Place { controller, volume_uid } => {
                self.place(key, &controller, &volume_uid).await?;
                return Ok(Ok(Next::AwaitChange));
            }
            Step::Take => self.take(key, found).await,
            Step::Look => self.look(found).await,
        };
        match there {
            Ok(there) => {
                self.taken(key, &there).await?;
                Ok(Ok(Next::After(LOOK_AGAIN)))
            }
            Err(problem) => Ok(Err(problem)),
        }
    }
}

fn words(status: &mut VolumeSnapshotStatus, state: &str, reason: &str, message: String) {
    state.clone_into(&mut status.state);
    reason.clone_into(&mut status.reason);
    status.message = message;
}

#[async_trait]
impl Reconciler<ObjectName> for SnapshotEdge {
    type Error = Error;

    async fn reconcile(&self, key: &ObjectName) -> Result<Next, Error> {
        let Some(found) = self.resources.find(key).await? else { return Ok(Next::AwaitChange) };
        let held = meta(&found.metadata).finalizers.iter().any(|held| held == DATA_FINALIZER);
        let going = meta(&found.metadata).deletion_timestamp.is_some();
        if going && !held {
            return Ok(Next::AwaitChange);
        }
        let step = self.step(key, &found);
        match self.carry_out(key, &found, step).await? {
            Ok(next) => Ok(next),
            Err(problem) => {
                self.waits(key, going, &problem).await?;
                Ok(Next::After(RETRY))
            }
        }
    }
}

#[cfg(test)]
mod tests;
