//! What nobody owns any more goes.
//!
//! ```text
//!   watch on every kind ─> Graph: owner ─> what it owns ─> queue ─> Collector ─> delete, forget,
//!                          (only objects that have owners)          reads live     release
//! ```
//! An object with owners goes when all of them are gone; whether an owner is gone is always asked
//! of the hub, never concluded from a watch that may lag. A deletion says what becomes of the rest:
//!
//! * in the background (the default): the owner goes at once, what it owned is found without one;
//! * in the foreground: the owner waits, with a finalizer, until what blocks it is gone;
//! * orphaned: the owner waits, with a finalizer, until what it owns has forgotten it.
//!
//! Both wait until every watch has told what there is, and as long as something that cannot be read names the owner.
mod collector;
mod decide;
mod feed;
mod graph;
mod progress;
#[cfg(test)]
mod tests;
mod unread;

use crate::garbage::collector::Collector;
use crate::garbage::feed::Feed;
use crate::garbage::graph::Graph;
use crate::garbage::progress::Progress;
use crate::garbage::unread::Unread;
use orrery_hub::{Error, Hub};
use orrery_runtime::{Controller, OnEnd, Tasks};
use parking_lot::Mutex;
use std::sync::Arc;

/// Starts the collector and its watches; for the leader only.
pub fn spawn(hub: &Hub, tasks: &mut Tasks) -> Result<(), Error> {
    let graph = Arc::new(Mutex::new(Graph::default()));
    let accessors: Vec<_> = hub.accessors().cloned().collect();
    let kinds = accessors.iter().map(|accessor| accessor.kind().full_name().to_owned());
    let (progress, unread) = (Arc::new(Progress::new(kinds)), Arc::new(Unread::default()));
    let collector = Collector::new(hub.clone(), graph.clone(), progress.clone(), unread.clone());
    let controller = Controller::new("garbage", collector);
    for (index, accessor) in accessors.into_iter().enumerate() {
        let feed = Feed {
            hub: hub.clone(),
            accessor,
            graph: graph.clone(),
            queue: controller.queue(),
            progress: progress.clone(),
            unread: unread.clone(),
            index,
        };
        tasks.spawn("garbage-watch", OnEnd::StopAll, feed.run(tasks.stop_token()));
    }
    tasks.spawn("garbage-collector", OnEnd::StopAll, controller.run(tasks.stop_token()));
    Ok(())
}
