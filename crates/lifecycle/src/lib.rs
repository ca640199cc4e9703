//! What goes when something else goes.
//!
//! Owns: the life of projects (their contents are deleted before them), the projects that every
//! installation has, what becomes of objects whose owners go, the end of old events and of artifacts that
//! nothing refers to.
//! Not in it: what deletion means for one kind; each kind's own controller holds its finalizer.
mod artifacts;
mod bootstrap;
mod events;
mod garbage;
mod guard;
mod projects;

use orrery_hub::{Error, Hub, HubBuilder};
use orrery_proto::core::v1::Project;
use orrery_runtime::{Controller, OnEnd, Reflector, Tasks};

pub use bootstrap::{DEFAULT_PROJECT, ensure_projects};

/// Held by a project until nothing is left in it.
pub const CONTENTS_FINALIZER: &str = "orrery.dev/contents";

const PROJECT: &str = "orrery.core.v1.Project";

/// Says what projects wait for when they are deleted, and which one never goes.
pub fn register(builder: HubBuilder) -> HubBuilder {
    builder.held_by(PROJECT, CONTENTS_FINALIZER).layer(PROJECT, guard::keep_system_project)
}

/// Starts the controllers; for the leader only.
pub fn spawn(hub: &Hub, tasks: &mut Tasks) -> Result<(), Error> {
    let stop = tasks.stop_token();
    let projects = hub.resources::<Project>()?;
    let mut watched = Reflector::new(projects).picking(projects::unsettled);
    let controller = Controller::new("projects", projects::ProjectReconciler::new(hub)?);
    let queue = controller.queue();
    watched.on_change(move |change| {
        if change.new.is_some() {
            queue.add(change.name.clone());
        }
    });
    tasks.spawn("project-watch", OnEnd::StopAll, watched.run(stop.clone()));
    tasks.spawn("project-controller", OnEnd::StopAll, controller.run(stop.clone()));
    tasks.spawn("event-expiry", OnEnd::Ignore, events::expire(hub.clone(), stop.clone()));
    tasks.spawn("artifact-collection", OnEnd::Ignore, artifacts::collect(hub.clone(), stop));
    garbage::spawn(hub, tasks)
}
