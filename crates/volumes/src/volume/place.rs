//! On which storage controller a volume is put: pure.
use super::plan::{Around, Obstacle, Source};
use super::size_bytes;
use crate::quantity;
use orrery_proto::storage::v1::{Volume, VolumeSpec};
use std::cmp::Reverse;

/// The id of the controller of a volume, or what it waits for. One that has a place keeps it: data
/// has gravity.
pub fn place(volume: &Volume, around: &Around) -> Result<String, Obstacle> {
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
    let message = "no workload uses it yet, and it goes where the first one runs; \
                   name spec.controller, or say placement: now, to have it at once";
    Err(Obstacle::new("WaitingForUser", message))
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
    // One that does not say how much room it has is taken last, and not left out.
    let fits = open.into_iter().filter(|(_, host)| host.available.is_none_or(|room| size <= room));
    let best = fits.max_by_key(|(id, host)| (host.available.unwrap_or(-1), Reverse((*id).clone())));
    best.map(|(id, _)| id.clone()).ok_or_else(|| {
        let message = format!("no storage controller has {} free", quantity::show(size));
        Obstacle::new("OutOfSpace", &message)
    })
}
