//! The controllers' worlds in the hub, and who runs which controller.
//!
//! ```text
//!   every server: edge ---- views of what concerns machines
//!                   |-- for each kind of driver connected here: a lease
//!                   |     holder: machine controller, orphan collection; writes fenced by the lease
//!                   '-- Driver resources of the drivers connected here
//!   the leader: deployments, sets, classes and secrets in use, machines that no driver serves, drivers
//!               of servers that ended
//! ```
//!
//! A plan is made from views, which may be behind. What a plan must not miss is held by the commit: it
//! names the revisions that the plan was made from, and what the leader itself wrote last is waited for.
mod classes;
mod deployments;
mod driver_objects;
mod edge;
mod freeze;
mod joining;
mod leader;
mod machines;
mod nodes;
mod orphans;
mod record;
mod refs;
mod related;
mod secrets;
mod sets;
mod sources;
mod steps;
mod terms;
mod validate;
mod views;

pub use edge::{Edge, EdgeOptions};
pub use joining::Authority;
pub use leader::spawn as spawn_leader;
pub use refs::{
    CLASS_FINALIZER, FROZEN_ANNOTATION, MACHINE_FINALIZER, NODE_MACHINE_LABEL, SECRET_FINALIZER,
};

use crate::controller::{self, WorldError};
use crate::plan::Time;
use orrery_api::SchemeBuilder;
use orrery_hub::{Clock, Error, HubBuilder};
use orrery_runtime::Next;
use std::sync::Arc;
use std::time::Duration;

/// After someone else was faster, the views are a moment behind.
const LOOK_AGAIN: Duration = Duration::from_millis(20);

/// Says what our resources must be like.
pub fn rules(builder: SchemeBuilder) -> SchemeBuilder {
    builder
        .validator("orrery.infra.v1.MachineClass", validate::class)
        .validator("orrery.infra.v1.MachineSet", validate::set)
        .validator("orrery.infra.v1.MachineDeployment", validate::deployment)
}

/// Says what machines and classes wait for: they go only when we let them.
pub fn register(builder: HubBuilder) -> HubBuilder {
    builder
        .held_by("orrery.infra.v1.Machine", MACHINE_FINALIZER)
        .held_by("orrery.infra.v1.MachineClass", CLASS_FINALIZER)
}

/// The hub's clock, as plans want it.
struct HubClock(Arc<dyn Clock>);

impl controller::Clock for HubClock {
    fn now(&self) -> Time {
        record::time(self.0.now())
    }
}

/// What a controller is told after a loop body: a conflict is no trouble, only a reason to look again.
fn outcome(next: Result<controller::Next, WorldError>) -> Result<Next, WorldError> {
    match next {
        Ok(controller::Next::AwaitChange) => Ok(Next::AwaitChange),
        Ok(controller::Next::After(wait)) => Ok(Next::After(wait)),
        Ok(controller::Next::Now) => Ok(Next::After(Duration::ZERO)),
        Err(WorldError::Conflict(_)) => Ok(Next::After(LOOK_AGAIN)),
        Err(error @ WorldError::Unavailable(_)) => Err(error),
    }
}

fn unavailable(error: Error) -> WorldError {
    match error {
        Error::Conflict { name, .. } | Error::AlreadyExists { name, .. } => {
            WorldError::Conflict(name)
        }
        // Its sets and deployments go with it, a moment later.
        Error::ProjectTerminating { project } => WorldError::Conflict(project),
        other => WorldError::Unavailable(other.to_string()),
    }
}

/// What is gone already needs nothing more.
fn ignore_gone<T>(outcome: Result<T, Error>) -> Result<Option<T>, Error> {
    match outcome {
        Ok(value) => Ok(Some(value)),
        Err(Error::NotFound { .. } | Error::ProjectNotFound { .. }) => Ok(None),
        Err(error) => Err(error),
    }
}
