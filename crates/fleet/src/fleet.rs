//! The fleet of one server: what every server does for the agents connected to it.
use crate::agents::assignments::Assignments;
use crate::agents::execs::Execs;
use crate::agents::files::Files;
use crate::agents::loads::Loads;
use crate::agents::logs::Logs;
use crate::agents::nodes::Nodes;
use crate::agents::states::States;
use crate::agents::telling::Telling;
use crate::agents::unknown::Unknown;
use crate::agents::volumes;
use crate::elsewhere::Elsewhere;
use crate::middleware::Senders;
use crate::workloads::{INSTANCES_FINALIZER, validate};
use orrery_api::SchemeBuilder;
use orrery_hub::{Error, Hub, HubBuilder, Resources};
use orrery_proto::apps::v1::{Workload, WorkloadInstance};
use orrery_proto::core::v1::Secret;
use orrery_proto::infra::v1::Node;
use orrery_proto::storage::v1::VolumeAttachment;
use orrery_runtime::{OnEnd, Reflector, Tasks};
use std::sync::Arc;
use tokio::sync::watch;

/// What the agent connections need.
pub struct Fleet {
    senders: Arc<Senders>,
    assignments: Arc<Assignments>,
    states: States,
    unknown: Unknown,
    nodes: Nodes,
    logs: Arc<Logs>,
    execs: Arc<Execs>,
    loads: Loads,
    elsewhere: Arc<dyn Elsewhere>,
    workloads: Resources<Workload>,
    instances: Resources<WorkloadInstance>,
    synced: [watch::Receiver<bool>; 4],
}

/// A server among others.
pub struct Place {
    /// Different for each start of a server.
    pub server: String,
    /// Where other servers reach it.
    pub address: String,
    /// How it reaches others.
    pub elsewhere: Arc<dyn Elsewhere>,
}

impl Fleet {
    /// Says what a workload must be like.
    pub fn rules(builder: SchemeBuilder) -> SchemeBuilder {
        builder.validator("orrery.apps.v1.Workload", validate::workload)
    }

    /// Says what workloads wait for when they are deleted.
    pub fn register(builder: HubBuilder) -> HubBuilder {
        builder.held_by("orrery.apps.v1.Workload", INSTANCES_FINALIZER)
    }

    /// Starts what every server does.
    pub fn spawn(hub: &Hub, place: Place, tasks: &mut Tasks) -> Result<Arc<Self>, Error> {
        let senders = Arc::new(Senders::default());
        let mut workloads = Reflector::<Workload>::new(hub.resources()?);
        let mut instances = Reflector::<WorkloadInstance>::new(hub.resources()?);
        let mut secrets = Reflector::<Secret>::new(hub.resources()?);
        let mut attachments =
            Reflector::<VolumeAttachment>::indexed(hub.resources()?, volumes::by_place);
        let assignments = Assignments::new(senders.clone(), workloads.view(), attachments.view());
        let assignments = Arc::new(assignments);
        let index = assignments.clone();
        attachments.on_change(move |change| index.take_attachment(change));
        let index = assignments.clone();
        instances.on_change(move |change| index.take(change));
        let index = assignments.clone();
        workloads.on_change(move |change| index.tell_dependents(change));
        let index = assignments.clone();
        secrets.on_change(move |change| index.secret_changed(change));
        let (due, view) = (assignments.due().clone(), secrets.view());
        let files = Files::new(hub, due, senders.clone(), assignments.clone(), view)?;
        let telling = Arc::new(Telling::new(hub)?);
        let fleet = Self {
            states: States::new(hub, assignments.clone(), telling.clone())?,
            unknown: Unknown::new(hub, assignments.clone())?,
            nodes: Nodes::new(hub, &place.server, &place.address)?,
            logs: Arc::new(Logs::new(senders.clone())),
            execs: Arc::new(Execs::new(senders.clone())),
            loads: Loads::new(senders.clone()),
            elsewhere: place.elsewhere,
            workloads: hub.resources()?,
            instances: hub.resources()?,
            synced: [
                instances.synced(),
                workloads.synced(),
                attachments.synced(),
                secrets.synced(),
            ],
            senders,
            assignments,
        };
        let stop = tasks.stop_token();
        let (calm, until) = (fleet.assignments.calm().clone(), stop.clone());
        let watching = async move { calm.watch(until).await };
        tasks.spawn("fleet-calm", OnEnd::StopAll, watching);
        tasks.spawn("fleet-instances", OnEnd::StopAll, instances.run(stop.clone()));
        tasks.spawn("fleet-attachments", OnEnd::StopAll, attachments.run(stop.clone()));
        tasks.spawn("fleet-workloads", OnEnd::StopAll, workloads.run(stop.clone()));
        tasks.spawn("fleet-secrets", OnEnd::StopAll, secrets.run(stop.clone()));
        tasks.spawn("fleet-events", OnEnd::StopAll, telling.run(stop.clone()));
        tasks.spawn("fleet-files", OnEnd::StopAll, files.run(stop));
        Ok(Arc::new(fleet))
    }

    pub fn senders(&self) -> &Senders {
        &self.senders
    }

    pub fn assignments(&self) -> &Arc<Assignments> {
        &self.assignments
    }

    pub fn states(&self) -> &States {
        &self.states
    }

    pub fn logs(&self) -> &Arc<Logs> {
        &self.logs
    }

    pub fn execs(&self) -> &Arc<Execs> {
        &self.execs
    }

    pub fn loads(&self) -> &Loads {
        &self.loads
    }

    pub(crate) fn elsewhere(&self) -> &Arc<dyn Elsewhere> {
        &self.elsewhere
    }

    pub(crate) fn node_resources(&self) -> &Resources<Node> {
        self.nodes.resources()
    }

    /// Where other servers reach this one.
    pub(crate) fn server_address(&self) -> &str {
        self.nodes.address()
    }

    /// A session is over, and with it all that was under way on it.
    pub(crate) fn lost(&self, agent: &str, epoch: i64) {
        self.logs.lost(agent, epoch);
        self.execs.lost(agent, epoch);
    }

    pub(crate) fn named_kinds(&self) -> (&Resources<Workload>, &Resources<WorkloadInstance>) {
        (&self.workloads, &self.instances)
    }

    pub fn nodes(&self) -> &Nodes {
        &self.nodes
    }

    /// Returns when every assignment is known; an agent that was told less would stop the rest.
    pub async fn ready(&self) {
        for mut synced in self.synced.clone() {
            // The sender lives as long as the reflector; when it is gone the server is stopping.
            let _ = synced.wait_for(|synced| *synced).await;
        }
    }

    /// An agent's connection to this server broke.
    pub async fn agent_gone(&self, agent: &str, epoch: i64, why: &str) {
        mark_gone(&self.nodes, &self.unknown, agent, epoch, why).await;
    }
}

/// A node is gone, and nobody knows any more what runs there; unless a newer session has begun.
pub(crate) async fn mark_gone(
    nodes: &Nodes,
    unknown: &Unknown,
    agent: &str,
    epoch: i64,
    why: &str,
) {
    match nodes.gone(agent, epoch, why).await {
        Ok(true) => {
            let why = format!("node {agent:?} is gone: {why}");
            unknown.mark(agent, &why).await;
        }
        Ok(false) => {}
        Err(error) => tracing::error!(agent, %error, "cannot mark a node as gone"),
    }
}
