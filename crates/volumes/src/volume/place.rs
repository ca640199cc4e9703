//! On which storage controller a volume is put: pure.
use super::plan::{Around, Obstacle, Source};
use super::size_bytes;
use crate::quantity;
use orrery_proto::storage::v1::{Volume, VolumeSpec};
use std::cmp::Reverse;

/// Backends that have a client of Ceph.
const REACH_CEPH: [&str; 2] = ["qemu", "spdk"];

/// The id of the controller of a volume, or what it waits for. One that has a place keeps it: data
/// has gravity.
pub fn place(volume: &Volume, around: &Around) -> Result<String, Obstacle> {
    if volume.spec.as_ref().is_some_and(|spec| spec.ceph.is_some()) {
        return place_image(volume, around);
    }
    let placed = volume.status.as_ref().map(|status| status.controller.as_str());
    if let Some(placed) = placed.filter(|placed| !placed.is_empty()) {
        return Ok(placed.to_owned());
    }
    let spec = volume.spec.clone().unwrap_or_default();
    match &around.source {
        Source::None => {}
        Source::Missing(what) => return Err(Obstacle::new("SourceMissing", what)),
        Source::On(controller) => return beside(controller, &spec, around),
    }
    if let Some(name) = &spec.controller {
        return named(name, around);
    }
    if let Some(user) = around.users.first() {
        return of_node(&user.node, &user.controller, around);
    }
    if spec.placement() == "now" {
        return with_most_room(size_bytes(volume), around);
    }
    Err(nobody())
}

/// An image of Ceph is used from anywhere, but from one place at a time: it stays where it is attached
/// or used, and follows its users otherwise.
fn place_image(volume: &Volume, around: &Around) -> Result<String, Obstacle> {
    let spec = volume.spec.clone().unwrap_or_default();
    let placed = volume.status.as_ref().map(|status| status.controller.clone());
    let placed = placed.filter(|placed| !placed.is_empty());
    if let Some(placed) = &placed
        && (!around.attachments.is_empty()
            || around.users.iter().any(|user| user.controller == *placed))
    {
        return Ok(placed.clone());
    }
    if let Some(name) = &spec.controller {
        return reaching(named(name, around)?, around);
    }
    if let Some(user) = around.users.first() {
        return reaching(of_node(&user.node, &user.controller, around)?, around);
    }
    if let Some(placed) = placed {
        return Ok(placed);
    }
    if spec.placement() != "now" {
        return Err(nobody());
    }
    let open = around.hosts.iter().filter(|(_, host)| host.ready && !host.unschedulable);
    let mut able = open.filter(|(_, host)| reaches(&host.backend));
    able.next().map(|(id, _)| id.clone()).ok_or_else(|| {
        let message = "no storage controller that is ready reaches Ceph; start one with --backend \
                       qemu or spdk";
        Obstacle::new("NoCeph", message)
    })
}

/// One that does not say what it is may be able to.
fn reaches(backend: &str) -> bool {
    backend.is_empty() || REACH_CEPH.contains(&backend)
}

fn reaching(id: String, around: &Around) -> Result<String, Obstacle> {
    let backend = around.hosts.get(&id).map(|host| host.backend.as_str()).unwrap_or_default();
    if reaches(backend) {
        return Ok(id);
    }
    let message = format!(
        "the storage controller {id} has the backend {backend}, which does not reach Ceph; it takes \
         qemu or spdk"
    );
    Err(Obstacle::new("NoCeph", &message))
}

fn nobody() -> Obstacle {
    let message = "no workload uses it yet, and it goes where the first one runs; \
                   name spec.controller, or say placement: now, to have it at once";
    Obstacle::new("WaitingForUser", message)
}

/// A copy is made where its source is.
fn beside(source: &str, spec: &VolumeSpec, around: &Around) -> Result<String, Obstacle> {
    if let Some(name) = &spec.controller
        && named(name, around)? != source
    {
        let message = format!("its source is on {source}, and it cannot be copied to {name}");
        return Err(Obstacle::new("SourceElsewhere", &message));
    }
    Ok(source.to_owned())
}

fn named(name: &str, around: &Around) -> Result<String, Obstacle> {
    let found = around.hosts.iter().find(|(_, host)| host.name == name);
    found.map(|(id, _)| id.clone()).ok_or_else(|| {
        let message = format!(
            "no storage controller {name} has registered; start one with \
             orrery storage-controller --id {name}"
        );
        Obstacle::new("NoController", &message)
    })
}

fn of_node(node: &str, controller: &str, around: &Around) -> Result<String, Obstacle> {
    if around.hosts.contains_key(controller) {
        return Ok(controller.to_owned());
    }
    let message = format!(
        "the node {node} has no storage controller; start one there with \
         orrery storage-controller --id {controller}"
    );
    Err(Obstacle::new("NoController", &message))
}

fn with_most_room(size: i64, around: &Around) -> Result<String, Obstacle> {
    let open = around.hosts.iter().filter(|(_, host)| host.ready && !host.unschedulable);
    let open: Vec<_> = open.collect();
    if open.is_empty() {
        let message = "no storage controller is ready and takes new volumes";
        return Err(Obstacle::new("NoController", message));
    }
    let most = open.iter().max_by_key(|(_, host)| host.available);
    let most = most.map(|(id, host)| (*id, host.available.unwrap_or_default()));
    let (most, room) = most.map_or_else(Default::default, |(id, room)| (id.clone(), room));
    // One that does not say how much room it has is taken last, and not left out.
    let fits = open.into_iter().filter(|(_, host)| host.available.is_none_or(|room| size <= room));
    let best = fits.max_by_key(|(id, host)| (host.available.unwrap_or(-1), Reverse((*id).clone())));
    best.map(|(id, _)| id.clone()).ok_or_else(|| {
        let (size, room) = (quantity::show(size), quantity::show(room));
        let message = format!("no storage controller has {size} free; {most} has the most, {room}");
        Obstacle::new("OutOfSpace", &message)
    })
}
