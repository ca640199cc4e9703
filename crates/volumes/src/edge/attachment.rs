//! Attachments: a volume as a device on the host of a node.
use super::hosts::Hosts;
use super::{LOOK_AGAIN, Problem, RETRY, ceph};
use crate::status::{self, meta, ready};
use crate::volume::controller::{Views, gone_is_fine};
use crate::volume::{DEVICE_FINALIZER, controller_of};
use async_trait::async_trait;
use orrery_hub::{Clock, Error, Hub, ObjectName, Resources};
use orrery_proto::infra::v1::Node;
use orrery_proto::meta::v1::ObjectMeta;
use orrery_proto::oim::v0::{
    MallocParams, MapVolumeRequest, UnmapVolumeRequest, map_volume_request::Params,
};
use orrery_proto::storage::v1::{
    Volume, VolumeAttachment, VolumeAttachmentSpec, VolumeAttachmentStatus, VolumeSpec,
};
use orrery_runtime::{Next, Reconciler, View, conditions};
use std::sync::Arc;

/// What to do about an attachment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    Map {
        controller: String,
        handle: String,
    },
    Unmap {
        controller: String,
        handle: String,
    },
    /// Nothing is left to undo.
    Release,
    Wait(Problem),
}

/// Decides. `others` says whether another attachment needs the same device.
pub fn step(
    attachment: &VolumeAttachment,
    volume: Option<&Volume>,
    node_controller: &str,
    others: bool,
) -> Step {
    let known = attachment.status.clone().unwrap_or_default();
    let placed = volume.and_then(|volume| volume.status.clone()).unwrap_or_default();
    if meta(&attachment.metadata).deletion_timestamp.is_some() {
        let uid = volume.map(|volume| meta(&volume.metadata).uid.clone()).unwrap_or_default();
        // A volume that was forgotten, or made anew under its name, has no device to take away.
        let same = known.volume_uid.is_empty() || known.volume_uid == uid;
        if placed.controller.is_empty() || !same || others {
            return Step::Release;
        }
        return Step::Unmap { controller: placed.controller, handle: placed.handle };
    }
    let spec = attachment.spec.clone().unwrap_or_default();
    let wait = |reason: &'static str, message: String| Step::Wait(Problem { reason, message });
    let Some(volume) = volume else {
        return wait("NoVolume", format!("there is no volume {}", spec.volume()));
    };
    if meta(&volume.metadata).deletion_timestamp.is_some() {
        return wait("VolumeDeleting", format!("the volume {} is being deleted", spec.volume()));
    }
    let observed = placed.observed.clone().unwrap_or_default();
    if placed.controller.is_empty() || observed.size_bytes == 0 {
        let (name, why) = (spec.volume(), placed.message);
        return wait("VolumeNotReady", format!("the volume {name} is not there yet: {why}"));
    }
    if !observed.fault.is_empty() {
        return wait("VolumeFaulty", format!("the volume {}: {}", spec.volume(), observed.fault));
    }
    if placed.controller != node_controller {
        return wait(
            "OtherHost",
            format!(
                "the volume {} is on {}, and the node {} is served by {node_controller}",
                spec.volume(),
                placed.controller,
                spec.node()
            ),
        );
    }
    Step::Map { controller: placed.controller, handle: placed.handle }
}

/// Carries attachments out.
pub struct AttachmentEdge {
    resources: Resources<VolumeAttachment>,
    volumes: Arc<View<Volume>>,
    attachments: Arc<View<VolumeAttachment>>,
    nodes: Arc<View<Node>>,
    hosts: Arc<Hosts>,
    keys: Arc<ceph::Keys>,
    clock: Arc<dyn Clock>,
}

impl AttachmentEdge {
    pub fn new(
        hub: &Hub,
        views: Views,
        hosts: Arc<Hosts>,
        keys: Arc<ceph::Keys>,
    ) -> Result<Self, Error> {
        let Views { volumes, attachments, nodes, .. } = views;
        let (resources, clock) = (hub.resources()?, hub.clock().clone());
        Ok(Self { resources, volumes, attachments, nodes, hosts, keys, clock })
    }

    fn step(&self, key: &ObjectName, attachment: &VolumeAttachment) -> (Step, Option<Arc<Volume>>) {
        let spec = attachment.spec.clone().unwrap_or_default();
        let volume = ObjectName::new(&key.project, VolumeAttachmentSpec::volume(&spec));
        let node = self.nodes.get(&ObjectName::new("", spec.node()));
        let controller = controller_of(spec.node(), node.as_deref());
        let beside = self.attachments.indexed(&volume.to_string());
        let others = beside
            .iter()
            .any(|(name, other)| name != key && meta(&other.metadata).deletion_timestamp.is_none());
        let volume = self.volumes.get(&volume);
        (step(attachment, volume.as_deref(), &controller, others), volume)
    }

    async fn map(
        &self,
        project: &str,
        volume: &Volume,
        controller: &str,
        handle: &str,
    ) -> Result<(String, String), Problem> {
        let params = Some(match ceph::image(volume) {
            Some(image) => Params::Ceph(self.keys.params(project, image).await?),
            None => Params::Malloc(MallocParams {}),
        });
        let mut host = self.hosts.host(controller)?;
        let request = MapVolumeRequest { volume_id: handle.to_owned(), params };
        let reply = host.controller.map_volume(request).await.map_err(ceph::problem)?.into_inner();
        Ok((reply.device, reply.scsi))
    }

    async fn unmap(&self, controller: &str, handle: &str) -> Result<(), Problem> {
        let request = UnmapVolumeRequest { volume_id: handle.to_owned() };
        let mut host = self.hosts.host(controller)?;
        host.controller.unmap_volume(request).await.map_err(ceph::problem)?;
        Ok(())
    }

    async fn write(
        &self,
        key: &ObjectName,
        change: impl Fn(&mut VolumeAttachmentStatus) + Send + Sync,
    ) -> Result<(), Error> {
        let now = self.clock.now();
        status::update(&self.resources, key, |attachment| {
            let status = attachment.status.get_or_insert_default();
            change(status);
            let truth = if status.state == "Attached" { "True" } else { "False" };
            let condition = ready(truth, &status.reason, &status.message, 0);
            conditions::set(&mut status.conditions, condition, now);
        })
        .await
        .map(|_| ())
    }

    async fn attached(
        &self,
        key: &ObjectName,
        volume: &Volume,
        controller: &str,
        (device, scsi): (String, String),
    ) -> Result<(), Error> {
        let file_system = volume.spec.as_ref().map(VolumeSpec::file_system).unwrap_or_default();
        self.write(key, |status| {
            "Attached".clone_into(&mut status.state);
            "Mapped".clone_into(&mut status.reason);
            status.message = format!("a device on {controller}");
            status.device.clone_from(&device);
            status.scsi.clone_from(&scsi);
            controller.clone_into(&mut status.controller);
            file_system.clone_into(&mut status.file_system);
            status.volume_uid.clone_from(&meta(&volume.metadata).uid);
        })
        .await
    }

    /// An attachment whose device is there stays attached while its host cannot be asked.
    async fn waits(&self, key: &ObjectName, going: bool, problem: &Problem) -> Result<(), Error> {
        self.write(key, |status| {
            let state = match (going, status.state.as_str()) {
                (true, _) => "Detaching",
                (false, "Attached") if problem.reason == "HostAway" => "Attached",
                (false, _) => "Pending",
            };
            if state == "Pending" {
                status.device.clear();
                status.scsi.clear();
            }
            state.clone_into(&mut status.state);
            problem.reason.clone_into(&mut status.reason);
            status.message.clone_from(&problem.message);
        })
        .await
    }

    async fn release(&self, key: &ObjectName) -> Result<(), Error> {
        let without =
            |meta: &mut ObjectMeta| meta.finalizers.retain(|held| held != DEVICE_FINALIZER);
        gone_is_fine(self.resources.update_meta(key, without).await.map(|_| ()))
    }
}

#[async_trait]
impl Reconciler<ObjectName> for AttachmentEdge {
    type Error = Error;

    async fn reconcile(&self, key: &ObjectName) -> Result<Next, Error> {
        let Some(attachment) = self.resources.find(key).await? else {
            return Ok(Next::AwaitChange);
        };
        let going = meta(&attachment.metadata).deletion_timestamp.is_some();
        let (step, volume) = self.step(key, &attachment);
        let problem = match step {
            Step::Release => {
                self.release(key).await?;
                return Ok(Next::AwaitChange);
            }
            Step::Unmap { controller, handle } => match self.unmap(&controller, &handle).await {
                Ok(()) => {
                    self.release(key).await?;
                    return Ok(Next::AwaitChange);
                }
                Err(problem) => problem,
            },
            Step::Map { controller, handle } => {
                let volume = volume.unwrap_or_default();
                match self.map(&key.project, &volume, &controller, &handle).await {
                    Ok(device) => {
                        self.attached(key, &volume, &controller, device).await?;
                        return Ok(Next::After(LOOK_AGAIN));
                    }
                    Err(problem) => problem,
                }
            }
            Step::Wait(problem) => {
                self.waits(key, going, &problem).await?;
                return Ok(Next::AwaitChange);
            }
        };
        self.waits(key, going, &problem).await?;
        Ok(Next::After(RETRY))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use orrery_proto::storage::v1::{VolumeObserved, VolumeStatus};

    fn mk_volume(controller: &str, size_bytes: i64) -> Volume {
        let observed = Some(VolumeObserved { size_bytes, ..VolumeObserved::default() });
        Volume {
            metadata: Some(ObjectMeta { uid: "u".into(), ..ObjectMeta::default() }),
            status: Some(VolumeStatus {
                controller: controller.into(),
                handle: "v-u".into(),
                observed,
                ..VolumeStatus::default()
            }),
            ..Volume::default()
        }
    }

    fn mk_attachment(deleting: bool, uid: &str) -> VolumeAttachment {
        let deletion_timestamp = deleting.then(<_>::default);
        VolumeAttachment {
            metadata: Some(ObjectMeta { deletion_timestamp, ..ObjectMeta::default() }),
            status: Some(VolumeAttachmentStatus { volume_uid: uid.into(), ..<_>::default() }),
            ..VolumeAttachment::default()
        }
    }

    #[track_caller]
    fn check(going: bool, uid: &str, volume: Option<Volume>, others: bool, expect: &str) {
        let found = match step(&mk_attachment(going, uid), volume.as_ref(), "a", others) {
            Step::Map { controller, handle } => format!("map {controller} {handle}"),
            Step::Unmap { controller, handle } => format!("unmap {controller} {handle}"),
            Step::Release => "release".to_owned(),
            Step::Wait(problem) => problem.reason.to_owned(),
        };
        assert_eq!(found, expect);
    }

    #[test]
    fn what_becomes_of_an_attachment() {
        let there = || Some(mk_volume("a", 512));
        check(false, "", there(), false, "map a v-u");
        check(false, "", None, false, "NoVolume");
        check(false, "", Some(mk_volume("", 0)), false, "VolumeNotReady");
        check(false, "", Some(mk_volume("a", 0)), false, "VolumeNotReady");
        check(false, "", Some(mk_volume("b", 512)), false, "OtherHost");
        check(true, "u", there(), false, "unmap a v-u");
        check(true, "u", there(), true, "release");
        check(true, "older", there(), false, "release");
        check(true, "u", None, false, "release");
    }
}
