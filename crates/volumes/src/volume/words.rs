//! How a volume is, in words for people: pure.
use super::plan::{Around, Obstacle};
use super::{FORGET_ANNOTATION, size_bytes};
use crate::quantity;
use crate::status::meta;
use orrery_proto::storage::v1::{Volume, VolumeObserved, VolumeStatus};

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Words {
    pub state: String,
    pub reason: String,
    pub message: String,
}

impl Words {
    fn new(state: &str, reason: &str, message: impl Into<String>) -> Self {
        Self { state: state.to_owned(), reason: reason.to_owned(), message: message.into() }
    }
}

/// What is to be said of a volume; `status` is what will be written of it.
pub fn of(
    volume: &Volume,
    status: &VolumeStatus,
    around: &Around,
    obstacle: Option<Obstacle>,
) -> Words {
    let observed = status.observed.clone().unwrap_or_default();
    if meta(&volume.metadata).deletion_timestamp.is_some() {
        return going(volume, status, around, &observed);
    }
    if let Some(Obstacle { reason, message }) = obstacle {
        return Words::new("Pending", &reason, message);
    }
    let size = observed.size_bytes;
    let away = around.hosts.get(&status.controller).is_none_or(|host| !host.ready);
    if size == 0 && observed.problem.is_empty() {
        let message = format!("waiting for {} to make it", status.controller);
        return Words::new("Pending", if away { "HostAway" } else { "Creating" }, message);
    }
    if size == 0 {
        return Words::new("Pending", &observed.problem_reason, observed.problem);
    }
    if !observed.fault.is_empty() {
        return Words::new("Degraded", "Faulty", observed.fault);
    }
    if away {
        return Words::new("Degraded", "HostAway", host_away(&status.controller));
    }
    if !observed.problem.is_empty() {
        return Words::new("Degraded", &observed.problem_reason, observed.problem);
    }
    let mut shown = quantity::show(size);
    if let Some(image) = image(volume) {
        shown = format!("{shown}, the image {image} of Ceph, through {}", status.controller);
        return Words::new("Ready", "Created", shown);
    }
    if observed.generation < meta(&volume.metadata).generation {
        let message = format!("{shown} on {}; a change is under way", status.controller);
        return Words::new("Ready", "Updating", message);
    }
    Words::new("Ready", "Created", format!("{shown} on {}", status.controller))
}

fn host_away(controller: &str) -> String {
    format!("the storage controller {controller} is not heard of")
}

/// The image of Ceph that a volume stands for, as pool and name.
fn image(volume: &Volume) -> Option<String> {
    let image = volume.spec.as_ref()?.ceph.as_ref()?;
    Some(format!("{}/{}", image.pool(), image.image()))
}

/// How large it is, or is to be.
pub fn size(volume: &Volume, status: &VolumeStatus) -> String {
    let there = status.observed.as_ref().map(|observed| observed.size_bytes).unwrap_or_default();
    match (there, size_bytes(volume)) {
        (0, 0) => String::new(),
        (0, wanted) => quantity::show(wanted),
        (there, _) => quantity::show(there),
    }
}

fn going(
    volume: &Volume,
    status: &VolumeStatus,
    around: &Around,
    observed: &VolumeObserved,
) -> Words {
    if let Some(user) = around.users.first() {
        let message = format!(
            "the workload {} on the node {} uses it; it goes when nobody does",
            user.workload, user.node
        );
        return Words::new("Deleting", "InUse", message);
    }
    if !around.attachments.is_empty() {
        let message = "it is attached; it goes when its attachments are gone";
        return Words::new("Deleting", "InUse", message);
    }
    if let Some(image) = image(volume) {
        return Words::new("Deleting", "Deleting", format!("the image {image} stays in Ceph"));
    }
    let away = around.hosts.get(&status.controller).is_none_or(|host| !host.ready);
    if away && !status.controller.is_empty() {
        let message = format!(
            "{}: {}; the annotation {FORGET_ANNOTATION}=true lets it go without waiting",
            host_away(&status.controller),
            left_behind(status)
        );
        return Words::new("Deleting", "HostAway", message);
    }
    if !observed.problem.is_empty() {
        return Words::new("Deleting", &observed.problem_reason, observed.problem.clone());
    }
    Words::new("Deleting", "Deleting", "its data is being deleted")
}

/// What stays on the disk of a host when the volume is forgotten.
pub fn left_behind(status: &VolumeStatus) -> String {
    let observed = status.observed.clone().unwrap_or_default();
    let snapshots = match observed.snapshots.len() {
        0 => String::new(),
        1 => " and 1 snapshot".to_owned(),
        count => format!(" and {count} snapshots"),
    };
    format!(
        "{}{snapshots} stay on {} under the name {}",
        quantity::show(observed.size_bytes),
        status.controller,
        status.handle
    )
}

/// What deleting the volume would do now.
pub fn impact(volume: &Volume, status: &VolumeStatus, around: &Around) -> Vec<String> {
    let observed = status.observed.clone().unwrap_or_default();
    let mut sentences = Vec::new();
    let image = image(volume);
    if let Some(image) = &image {
        sentences.push(format!("leaves the image {image} in Ceph as it is"));
    } else if observed.size_bytes == 0 {
        let size = quantity::show(size_bytes(volume));
        sentences.push(format!("no data is lost: the {size} were never made"));
    } else {
        let size = quantity::show(observed.size_bytes);
        sentences.push(format!("deletes {size} of data on {}", status.controller));
    }
    if !observed.snapshots.is_empty() {
        let names: Vec<&str> = observed.snapshots.iter().map(|one| one.name.as_str()).collect();
        sentences.push(format!("deletes the snapshots {}", names.join(", ")));
    }
    if !around.kept.is_empty() {
        sentences.push(format!("keeps the volume snapshots {}", around.kept.join(", ")));
    }
    for user in &around.users {
        let (workload, node) = (&user.workload, &user.node);
        sentences.push(format!("waits for the workload {workload} on the node {node} to go"));
    }
    let away = around.hosts.get(&status.controller).is_none_or(|host| !host.ready);
    if away && observed.size_bytes != 0 && image.is_none() {
        sentences.push(format!(
            "waits for {}, which is not heard of; with the annotation {FORGET_ANNOTATION}=true {}",
            status.controller,
            left_behind(status)
        ));
    }
    sentences
}
