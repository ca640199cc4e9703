//! What becomes of a volume: pure.
use super::words::{self, Words};
use super::{DATA_FINALIZER, DEVICE_FINALIZER, FOR_WORKLOADS_LABEL, FORGET_ANNOTATION, place};
use crate::controllers::names::derived;
use crate::status::meta;
use orrery_proto::meta::v1::ObjectMeta;
use orrery_proto::storage::v1::{Volume, VolumeAttachment, VolumeAttachmentSpec, VolumeStatus};
use std::collections::{BTreeMap, BTreeSet};

/// A storage controller, as far as it matters to volumes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Host {
    /// The name of its resource.
    pub name: String,
    pub ready: bool,
    pub unschedulable: bool,
    /// Bytes that are free, if it says so.
    pub available: Option<i64>,
    /// Its backend; empty if it does not say.
    pub backend: String,
}

/// A copy of a workload that mounts the volume.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct User {
    pub node: String,
    /// The id of the storage controller that serves the node.
    pub controller: String,
    pub workload: String,
}

/// What a volume is a copy of.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Source {
    #[default]
    None,
    /// Not there, or not far enough, in words.
    Missing(String),
    /// There, on the controller with this id.
    On(String),
}

/// What the plan depends on beside the volume.
#[derive(Clone, Debug, Default)]
pub struct Around {
    /// By id.
    pub hosts: BTreeMap<String, Host>,
    /// Sorted.
    pub users: Vec<User>,
    /// Those of this volume.
    pub attachments: Vec<VolumeAttachment>,
    pub source: Source,
    /// Names of the VolumeSnapshots that were taken of it, which stay when it goes.
    pub kept: Vec<String>,
}

/// What stands in the way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Obstacle {
    pub reason: String,
    pub message: String,
}

impl Obstacle {
    pub fn new(reason: &str, message: &str) -> Self {
        Self { reason: reason.to_owned(), message: message.to_owned() }
    }
}

/// What the controller has to do; nothing of it twice.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Plan {
    pub attach: Vec<VolumeAttachment>,
    /// Names of attachments that nobody needs any more.
    pub detach: Vec<String>,
    /// The volume is being deleted, and nothing more is to be done for it.
    pub release: bool,
    /// It is released although its data is still on its host: what is left there, in words.
    pub left_behind: Option<String>,
    /// As it should be written; what the edge observed stays what it is.
    pub status: VolumeStatus,
}

pub fn plan(volume: &Volume, around: &Around) -> Plan {
    let metadata = meta(&volume.metadata);
    let deleting = metadata.deletion_timestamp.is_some();
    let placed = place::place(volume, around);
    let mut plan = Plan { status: volume.status.clone().unwrap_or_default(), ..Plan::default() };
    if let Ok(controller) = &placed
        && !deleting
    {
        plan.status.controller.clone_from(controller);
        plan.status.handle = super::handle(&metadata.uid);
    }
    attachments(&mut plan, volume, around, placed.is_ok() && !deleting);
    if deleting {
        (plan.release, plan.left_behind) = ending(volume, around);
    }
    let words = words::of(volume, &plan.status, around, placed.err());
    let Words { state, reason, message } = words;
    (plan.status.state, plan.status.reason, plan.status.message) = (state, reason, message);
    plan.status.observed_generation = metadata.generation;
    plan.status.attached_to = attached_to(around);
    plan.status.size = words::size(volume, &plan.status);
    plan.status.impact = words::impact(volume, &plan.status, around);
    plan
}

/// An attachment for each node with users; those that were made for users that are gone go too.
fn attachments(plan: &mut Plan, volume: &Volume, around: &Around, placed: bool) {
    let nodes: BTreeSet<&str> = around.users.iter().map(|user| user.node.as_str()).collect();
    let mut there = BTreeSet::new();
    for attachment in &around.attachments {
        let (node, metadata) = (node(attachment), meta(&attachment.metadata));
        there.insert(node);
        let ours = metadata.labels.contains_key(FOR_WORKLOADS_LABEL);
        if ours && !nodes.contains(node) && metadata.deletion_timestamp.is_none() {
            plan.detach.push(metadata.name.clone());
        }
    }
    if placed {
        let missing = nodes.iter().filter(|node| !there.contains(**node));
        plan.attach = missing.map(|node| attachment(volume, node)).collect();
    }
}

fn attachment(volume: &Volume, node: &str) -> VolumeAttachment {
    let owner = meta(&volume.metadata);
    VolumeAttachment {
        metadata: Some(ObjectMeta {
            name: derived(&format!("{}/{node}", owner.name)),
            project: owner.project.clone(),
            labels: [(FOR_WORKLOADS_LABEL.to_owned(), "true".to_owned())].into(),
            finalizers: vec![DEVICE_FINALIZER.to_owned()],
            ..ObjectMeta::default()
        }),
        spec: Some(VolumeAttachmentSpec {
            volume: Some(owner.name.clone()),
            node: Some(node.to_owned()),
        }),
        ..VolumeAttachment::default()
    }
}

/// Whether a volume that is being deleted may go, and what it leaves behind.
fn ending(volume: &Volume, around: &Around) -> (bool, Option<String>) {
    let metadata = meta(&volume.metadata);
    let status = volume.status.clone().unwrap_or_default();
    let held = metadata.finalizers.iter().any(|held| held == DATA_FINALIZER);
    if !held || !around.attachments.is_empty() {
        return (false, None);
    }
    let observed = status.observed.clone().unwrap_or_default();
    if status.controller.is_empty() || observed.gone {
        return (true, None);
    }
    let forget = metadata.annotations.get(FORGET_ANNOTATION).is_some_and(|value| value == "true");
    let away = around.hosts.get(&status.controller).is_none_or(|host| !host.ready);
    if forget && away {
        return (true, Some(words::left_behind(&status)));
    }
    (false, None)
}

/// Nodes where the device is.
fn attached_to(around: &Around) -> Vec<String> {
    let attached = around.attachments.iter().filter(|attachment| {
        attachment.status.as_ref().is_some_and(|status| status.state == "Attached")
    });
    let nodes: BTreeSet<&str> = attached.map(node).collect();
    nodes.into_iter().map(str::to_owned).collect()
}

fn node(attachment: &VolumeAttachment) -> &str {
    attachment.spec.as_ref().map(VolumeAttachmentSpec::node).unwrap_or_default()
}

#[cfg(test)]
mod tests;
