//! Sidecars: an Envoy beside the instances of a service, started and watched by their agents.
//!
//! ```text
//!   MeshService ──plan──> Workload NAME-sidecar, beside the workload of the service ──fleet──> agents
//!        │                    └ its files: the bootstrap, and
//!        └──identity──────> Secret NAME-sidecar: what it shows to the servers
//! ```
//! The leader declares both, in a name of its own, and never takes over what is somebody else's. The fleet places,
//! starts, watches and updates them like everything else; callers are told of an instance when its sidecar says that
//! it takes traffic (`fleet`).
mod controller;
mod identity;
pub mod names;
mod obstacle;
mod owned;
mod plan;
mod validate;

pub use identity::{SidecarIssuer, SidecarTrust};
use names::has_sidecar;
pub use obstacle::Obstacle;
pub use validate::validate;

use super::Mesh;
use controller::{SidecarReconciler, Views};
use orrery_api::{Encoded, ObjectError};
use orrery_hub::{Error, Hub, ObjectName};
use orrery_proto::apps::v1::Workload;
use orrery_proto::mesh::v1::MeshService;
use orrery_runtime::{Controller, KeyQueue, OnEnd, Reflector, Tasks, View};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

/// Copies come and go in crowds; a service is looked at once for all of a moment.
const TOGETHER: Duration = Duration::from_millis(100);

/// What the parts of a server tell each other of sidecars.
#[derive(Default)]
pub struct Shared {
    /// Why some are not as asked for, as the leader knows.
    obstacles: Mutex<BTreeMap<ObjectName, Obstacle>>,
    /// A copy of a workload came or went.
    moved: Notify,
    /// What people are told may be another.
    told: Notify,
}

impl Shared {
    pub fn obstacle(&self, service: &ObjectName) -> Option<Obstacle> {
        self.obstacles.lock().get(service).cloned()
    }

    fn set(&self, service: &ObjectName, obstacle: Option<Obstacle>) {
        let mut all = self.obstacles.lock();
        let before = match obstacle.clone() {
            Some(obstacle) => all.insert(service.clone(), obstacle),
            None => all.remove(service),
        };
        if before != obstacle {
            self.told.notify_one();
        }
    }

    /// A copy of a workload that is served with sidecars, or of theirs, is another; it came or went if it has moved.
    pub fn note(&self, moved: bool) {
        self.told.notify_one();
        if moved {
            self.moved.notify_one();
        }
    }

    /// Returns when what people are told may be another.
    pub async fn told(&self) {
        self.told.notified().await;
    }
}

/// Starts what only the leader does, on a hub that is fenced by its lease.
pub fn spawn_leader(hub: &Hub, mesh: &Arc<Mesh>, tasks: &mut Tasks) -> Result<(), Error> {
    let mut services = Reflector::<MeshService>::new(hub.resources()?);
    let mut workloads = Reflector::<Workload>::new(hub.resources()?).picking(labelled);
    let views = Views { services: services.view(), made: workloads.view() };
    let reconciler = SidecarReconciler::new(hub, mesh.clone(), views.clone())?;
    let controller = Controller::new("sidecars", reconciler);
    let (queue, all) = (controller.queue(), views.services.clone());
    services.on_change(move |change| {
        queue.add(change.name.clone());
        if asked(&change.old) != asked(&change.new) {
            // Ports of nodes may have become free, or another's.
            look_at(&all, &queue);
        }
    });
    let queue = controller.queue();
    workloads.on_change(move |change| {
        let both = change.old.iter().chain(&change.new);
        let service = both.filter_map(|one| names::meta(&one.metadata).labels.get(names::LABEL));
        let project = &change.name.project;
        service.for_each(|service| queue.add_within(ObjectName::new(project, service), TOGETHER));
    });
    let synced = vec![services.synced(), workloads.synced()];
    let stop = tasks.stop_token();
    let following = follow(mesh.clone(), views.services, controller.queue(), stop.clone());
    tasks.spawn("sidecar-services", OnEnd::StopAll, services.run(stop.clone()));
    tasks.spawn("sidecar-workloads", OnEnd::StopAll, workloads.run(stop));
    tasks.spawn("sidecar-copies", OnEnd::StopAll, following);
    controller.spawn("sidecar-controller", synced, tasks);
    Ok(())
}

/// Has all services with sidecars looked at when copies come or go, because a port of a node may have become another's,
/// and when the authority rotates.
async fn follow(
    mesh: Arc<Mesh>,
    services: Arc<View<MeshService>>,
    queue: KeyQueue<ObjectName>,
    stop: CancellationToken,
) -> Result<(), Infallible> {
    loop {
        tokio::select! {
            () = stop.cancelled() => return Ok(()),
            () = mesh.sidecars.moved.notified() => {}
            () = mesh.trust.rotated() => {}
        }
        look_at(&services, &queue);
    }
}

/// Has all services with sidecars looked at.
fn look_at(services: &View<MeshService>, queue: &KeyQueue<ObjectName>) {
    let all = services.all().into_iter();
    let fronted = all.filter(|(_, service)| has_sidecar(service));
    fronted.for_each(|(name, _)| queue.add_within(name, TOGETHER));
}

/// What a service asks of the ports of nodes: the workload that it is beside, and which ports.
fn asked(service: &Option<Arc<MeshService>>) -> Option<(Option<String>, Vec<i32>)> {
    let spec = service.as_ref()?.spec.as_ref().filter(|spec| spec.sidecar.is_some())?;
    Some((spec.workload.clone(), plan::ports(spec)))
}

/// Of workloads those that were made here, and what was declared in them. How they are is for others.
fn labelled(object: &Encoded) -> Result<Option<Workload>, ObjectError> {
    let found: Option<Workload> = object.label(names::LABEL).map(|_| object.typed()).transpose()?;
    Ok(found.map(|workload| Workload { status: None, ..workload }))
}
