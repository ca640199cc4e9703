//! What an agent is told of the volumes that its copies mount.
use orrery_hub::ObjectName;
use orrery_proto::fleet::v1::{Assignment, AttachedVolume};
use orrery_proto::storage::v1::{VolumeAttachment, VolumeAttachmentSpec};
use orrery_runtime::View;
use std::sync::Arc;

/// The index key of an attachment: its volume and its node.
pub fn by_place(name: &ObjectName, attachment: &VolumeAttachment) -> Option<String> {
    let spec = attachment.spec.as_ref()?;
    Some(place(&name.project, VolumeAttachmentSpec::volume(spec), spec.node()))
}

fn place(project: &str, volume: &str, node: &str) -> String {
    format!("{project}/{volume}@{node}")
}

/// Whether a copy mounts the volume.
pub fn mounts(copy: &Assignment, project: &str, volume: &str) -> bool {
    let mut mounts = copy.spec.iter().flat_map(|spec| &spec.volumes);
    copy.project == project && mounts.any(|mount| mount.volume() == volume)
}

/// What became of the volumes of a copy on its node, in the order of its spec.
pub fn attached(
    attachments: &View<VolumeAttachment>,
    node: &str,
    copy: &Assignment,
) -> Vec<AttachedVolume> {
    let mut names: Vec<&str> = Vec::new();
    for mount in copy.spec.iter().flat_map(|spec| &spec.volumes) {
        if !names.contains(&mount.volume()) {
            names.push(mount.volume());
        }
    }
    let attached = |name: &&str| {
        let found = attachments.indexed(&place(&copy.project, name, node));
        // Several only if people made one too; the one that is attached is as good as any.
        let state = |attachment: &Arc<VolumeAttachment>| {
            attachment.status.as_ref().is_some_and(|status| status.state == "Attached")
        };
        let best = found.iter().find(|(_, one)| state(one)).or_else(|| found.first());
        one(name, best.map(|(_, attachment)| attachment.as_ref()))
    };
    names.iter().map(attached).collect()
}

fn one(name: &str, attachment: Option<&VolumeAttachment>) -> AttachedVolume {
    let base = AttachedVolume { volume: name.to_owned(), ..AttachedVolume::default() };
    let Some(attachment) = attachment else {
        return AttachedVolume { waiting: "nobody has looked at it yet".to_owned(), ..base };
    };
    let status = attachment.status.clone().unwrap_or_default();
    if status.state != "Attached" {
        let waiting = match status.message.as_str() {
            "" => "it is not attached yet".to_owned(),
            message => message.to_owned(),
        };
        return AttachedVolume { waiting, ..base };
    }
    AttachedVolume {
        id: status.volume_uid,
        device: status.device,
        scsi: status.scsi,
        file_system: status.file_system,
        ..base
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use orrery_proto::storage::v1::VolumeAttachmentStatus;

    #[test]
    fn an_agent_gets_the_device_or_the_reason_why_there_is_none() {
        let with = |state: &str, message: &str| VolumeAttachment {
            status: Some(VolumeAttachmentStatus {
                state: state.into(),
                message: message.into(),
                device: "/devices/x".into(),
                volume_uid: "u".into(),
                ..VolumeAttachmentStatus::default()
            }),
            ..VolumeAttachment::default()
        };
        let there = one("data", Some(&with("Attached", "a device on a")));
        assert_eq!((there.device.as_str(), there.id.as_str()), ("/devices/x", "u"));
        let waits = one("data", Some(&with("Pending", "host a is away")));
        assert_eq!((waits.device.as_str(), waits.waiting.as_str()), ("", "host a is away"));
        assert!(!one("data", None).waiting.is_empty());
    }
}
