//! The node of a machine: found by name, claimed, drained and removed.
use super::ignore_gone;
use super::refs::{NODE_MACHINE_LABEL, NODE_MACHINE_UID, meta};
use super::views::Views;
use crate::plan::machine::NodeHealth;
use orrery_api::{Object, Value};
use orrery_hub::{ApplyOptions, Error, Hub, ObjectName, Resources};
use orrery_proto::infra::v1::{Machine, Node};
use orrery_proto::meta::v1::ObjectMeta;
use std::sync::Arc;

/// What is known of a machine's node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    pub name: String,
    pub health: NodeHealth,
    /// This machine has put its name on it.
    pub claimed: bool,
}

#[derive(Clone)]
pub struct Nodes {
    nodes: Resources<Node>,
    views: Arc<Views>,
}

impl Nodes {
    pub fn new(hub: &Hub, views: Arc<Views>) -> Result<Self, Error> {
        Ok(Self { nodes: hub.resources()?, views })
    }

    /// The node that an agent on this machine made: the one of the machine's own name, or of the name
    /// that the driver told. One that another machine has claimed is not it, nor is one that was there
    /// before the machine: whoever names a machine after another's node gets nothing of it.
    pub fn find(&self, machine: &Machine) -> Option<Found> {
        names(machine).find_map(|name| {
            let node = self.views.nodes.get(&ObjectName::new("", name))?;
            judge(name, &node, machine)
        })
    }

    /// Puts the machine's name and labels on its node, so that nobody else takes it for theirs and
    /// workloads find it.
    pub async fn claim(&self, node: &str, machine: &Machine) -> Result<(), Error> {
        let own = meta(&machine.metadata).clone();
        let claim = |metadata: &mut ObjectMeta| {
            let holder = metadata.annotations.get(NODE_MACHINE_UID);
            if holder.is_some_and(|uid| *uid != own.uid) {
                return;
            }
            metadata.annotations.insert(NODE_MACHINE_UID.to_owned(), own.uid.clone());
            metadata.labels.insert(NODE_MACHINE_LABEL.to_owned(), own.name.clone());
            for (key, value) in &own.labels {
                metadata.labels.entry(key.clone()).or_insert_with(|| value.clone());
            }
        };
        let claimed = self.nodes.update_meta(&ObjectName::new("", node), claim).await;
        ignore_gone(claimed).map(|_| ())
    }

    /// Whether nothing is left on a node that could be moved. Without its agent nothing can be.
    pub fn is_drained(&self, found: Option<&Found>) -> bool {
        let Some(found) = found else { return true };
        found.health != NodeHealth::Healthy || self.views.instances.indexed(&found.name).is_empty()
    }

    /// Asks the fleet to empty the node: copies move off as their workloads can miss them.
    pub async fn drain(&self, node: &str) -> Result<(), Error> {
        let name = ObjectName::new("", node);
        loop {
            let Some(mut object) =
                ignore_gone(self.nodes.accessor().get(name.clone().into()).await)?
            else {
                return Ok(());
            };
            if !set_drain(&mut object)? {
                return Ok(());
            }
            let revision = object.resource_version().parse().map_err(|_| {
                Error::Internal(format!("node {node} has no revision after it was read"))
            })?;
            let asked =
                self.nodes.accessor().apply(object, ApplyOptions::replace_at(revision)).await;
            match asked {
                Err(Error::Conflict { .. }) => tokio::task::yield_now().await,
                other => return ignore_gone(other).map(|_| ()),
            }
        }
    }

    /// The machine is no more, and neither is its node. An agent may have joined a moment before its machine went, so
    /// the store is asked; of a machine that was started such a node is, also before it is claimed.
    pub async fn remove(&self, machine: &Machine) -> Result<(), Error> {
        let started = machine.status.as_ref().is_some_and(|status| status.started);
        for name in names(machine) {
            let at = ObjectName::new("", name);
            let found = self.nodes.find(&at).await?;
            let found = found.and_then(|node| judge(name, &node, machine));
            if found.is_some_and(|found| found.claimed || started) {
                return self.nodes.delete(&at).await;
            }
        }
        Ok(())
    }
}

/// The names under which an agent on this machine may have joined.
fn names(machine: &Machine) -> impl Iterator<Item = &str> {
    let told = machine.status.as_ref().map(|status| status.node_name.as_str());
    let own = meta(&machine.metadata).name.as_str();
    [Some(own), told.filter(|name| !name.is_empty())].into_iter().flatten()
}

/// What a node is to a machine, if it is the machine's.
fn judge(name: &str, node: &Node, machine: &Machine) -> Option<Found> {
    let own = meta(&machine.metadata);
    let holder = meta(&node.metadata).annotations.get(NODE_MACHINE_UID);
    let seconds = |metadata: &ObjectMeta| metadata.creation_timestamp.map(|it| it.seconds);
    let older = seconds(meta(&node.metadata)) < seconds(own);
    if holder.map_or(older, |uid| *uid != own.uid) {
        return None;
    }
    let ready = node.status.as_ref().is_some_and(|status| status.state == "Ready");
    let health = if ready { NodeHealth::Healthy } else { NodeHealth::Unhealthy };
    Some(Found { name: name.to_owned(), health, claimed: holder.is_some() })
}

/// Says whether that was a change.
fn set_drain(object: &mut Object) -> Result<bool, Error> {
    let unfit = |error: orrery_api::ObjectError| Error::Internal(format!("drain: {error}"));
    let node: Node = object.typed().map_err(unfit)?;
    if node.spec.as_ref().is_some_and(|spec| spec.drain()) {
        return Ok(false);
    }
    for path in ["spec.unschedulable", "spec.drain"] {
        object.set_at(path, Value::Bool(true)).map_err(unfit)?;
    }
    Ok(true)
}
