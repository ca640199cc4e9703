//! Node resources: what is known of each agent.
use super::labels;
use crate::workloads::controller::ignore_gone;
use orrery_api::Encoded;
use orrery_hub::{ApplyOptions, Part};
use orrery_hub::{Clock, Error, Hub, ObjectName, Precondition, Resources};
use orrery_proto::fleet::v1::AgentHello;
use orrery_proto::infra::v1::{Node, NodeSpec, NodeStatus};
use orrery_proto::meta::v1::{Condition, ObjectMeta};
use orrery_runtime::conditions;
use std::sync::Arc;

/// Writes Node resources: only transitions, never heartbeats.
#[derive(Clone)]
pub struct Nodes {
    nodes: Resources<Node>,
    clock: Arc<dyn Clock>,
    /// The server that agents are connected to here, and where others reach it.
    server: String,
    address: String,
}

impl Nodes {
    pub fn new(hub: &Hub, server: &str, address: &str) -> Result<Self, Error> {
        let (nodes, clock) = (hub.resources()?, hub.clock().clone());
        Ok(Self { nodes, clock, server: server.to_owned(), address: address.to_owned() })
    }

    pub fn resources(&self) -> &Resources<Node> {
        &self.nodes
    }

    pub fn address(&self) -> &str {
        &self.address
    }

    /// An agent connects: its node is there and Ready, in a session of its own epoch.
    pub async fn opening(&self, hello: &AgentHello) -> Result<i64, Error> {
        let name = ObjectName::new("", &hello.name);
        loop {
            let Some(node) = self.nodes.find(&name).await? else {
                match self.create(hello).await {
                    Err(Error::AlreadyExists { .. }) => continue,
                    outcome => return outcome,
                }
            };
            let status = node.status.clone().unwrap_or_default();
            let said = |meta: &mut ObjectMeta| {
                labels::take_over(&mut meta.labels, &status.agent_labels, &hello.labels)
            };
            if said(&mut node.metadata.clone().unwrap_or_default()) {
                let take_over = |meta: &mut ObjectMeta| {
                    said(meta);
                };
                let labelled = self.nodes.update_meta(&name, take_over).await;
                ignore_gone(labelled.map(|_| ()))?;
                continue;
            }
            let next = self.ready(hello, status);
            let epoch = next.session_epoch;
            match self.write_at(&node, next).await {
                Err(Error::Conflict { .. } | Error::NotFound { .. }) => {}
                outcome => return outcome.map(|()| epoch),
            }
        }
    }

    /// An agent's connection broke: its node is Gone, unless a newer session has begun.
    pub async fn gone(&self, name: &str, epoch: i64, why: &str) -> Result<bool, Error> {
        let name = ObjectName::new("", name);
        loop {
            let Some(node) = self.nodes.find(&name).await? else { return Ok(false) };
            let mut status = node.status.clone().unwrap_or_default();
            if status.session_epoch != epoch || status.state == "Gone" {
                return Ok(false);
            }
            self.transition(&mut status, "Gone", why);
            match self.write_at(&node, status).await {
                Err(Error::Conflict { .. }) => {}
                outcome => {
                    ignore_gone(outcome)?;
                    return Ok(true);
                }
            }
        }
    }

    /// Makes the node of an agent that was never here, in its first session.
    async fn create(&self, hello: &AgentHello) -> Result<i64, Error> {
        let (name, labels) = (hello.name.clone(), hello.labels.clone());
        let metadata = ObjectMeta { name, labels, ..ObjectMeta::default() };
        let status = self.ready(hello, NodeStatus::default());
        let epoch = status.session_epoch;
        let node = Node {
            metadata: Some(metadata),
            spec: Some(NodeSpec::default()),
            status: Some(status),
            ..Node::default()
        };
        self.nodes.create_with_status(&node).await.map(|()| epoch)
    }

    fn ready(&self, hello: &AgentHello, mut status: NodeStatus) -> NodeStatus {
        status.session_epoch += 1;
        status.server.clone_from(&self.server);
        status.server_address.clone_from(&self.address);
        status.allocatable = hello.allocatable;
        status.version.clone_from(&hello.version);
        status.runtimes.clone_from(&hello.runtimes);
        status.hostname.clone_from(&hello.hostname);
        status.system.clone_from(&hello.system);
        status.agent_labels.clone_from(&hello.labels);
        status.address.clone_from(&hello.address);
        self.transition(&mut status, "Ready", "the agent is connected");
        status
    }

    fn transition(&self, status: &mut NodeStatus, state: &str, why: &str) {
        let now = self.clock.now();
        if status.state != state {
            status.last_transition_time = Some(now);
        }
        state.clone_into(&mut status.state);
        let ready = Condition {
            r#type: "Ready".into(),
            status: if state == "Ready" { "True" } else { "False" }.into(),
            reason: state.to_owned(),
            message: why.to_owned(),
            ..Condition::default()
        };
        conditions::set(&mut status.conditions, ready, now);
    }

    /// Writes the status if the node is still as it was read.
    async fn write_at(&self, node: &Node, status: NodeStatus) -> Result<(), Error> {
        let metadata = node.metadata.clone().unwrap_or_default();
        let revision = metadata.resource_version.parse().map_err(|_| {
            Error::Internal(format!("node {} has no revision after it was read", metadata.name))
        })?;
        let next = Node { metadata: Some(metadata), status: Some(status), ..Node::default() };
        let object = Encoded::from_typed(self.nodes.kind(), &next)
            .map_err(|error| Error::Internal(format!("cannot write a node: {error}")))?;
        let options = ApplyOptions {
            precondition: Precondition::At(revision),
            part: Part::Status,
            ..ApplyOptions::default()
        };
        self.nodes.accessor().apply_encoded(object, options).await.map(|_| ())
    }
}
