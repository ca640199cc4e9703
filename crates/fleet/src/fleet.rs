//! The server core of the fleet: its parts, put together once.
use crate::agents::assignments::Assignments;
use crate::agents::logs::Logs;
use crate::agents::nodes::Nodes;
use crate::agents::states::States;
use crate::middleware::Senders;
use crate::workloads::controller::WorkloadReconciler;
use crate::workloads::watches::Watches;
use crate::workloads::{INSTANCES_FINALIZER, validate};
use orrery_api::{Object, SchemeBuilder};
use orrery_hub::{Error, Hub, HubBuilder, ObjectName, Resources};
use orrery_proto::apps::v1::{Workload, WorkloadInstance};
use orrery_proto::infra::v1::Node;
use orrery_runtime::{Controller, OnEnd, Tasks, View};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

/// How long agents have to come back after the server started before they count as gone. They try
/// every second.
const RETURN_GRACE: Duration = Duration::from_secs(10);

/// What the agent connections need.
pub struct Fleet {
    senders: Arc<Senders>,
    assignments: Arc<Assignments>,
    states: States,
    nodes: Nodes,
    logs: Arc<Logs>,
    workloads: Resources<Workload>,
    instances: Resources<WorkloadInstance>,
    synced: [watch::Receiver<bool>; 2],
}

/// What runs beside the connections.
pub struct FleetParts {
    pub fleet: Arc<Fleet>,
    watches: Watches,
    controller: Controller<ObjectName, WorkloadReconciler>,
}

impl Fleet {
    /// Says what a workload must be like.
    pub fn rules(builder: SchemeBuilder) -> SchemeBuilder {
        builder.validator("orrery.apps.v1.Workload", validate::workload)
    }

    /// Says what new workloads get.
    pub fn register(builder: HubBuilder) -> HubBuilder {
        builder.on_create("orrery.apps.v1.Workload", |object: &mut Object| {
            object.update_meta(|meta| {
                if !meta.finalizers.iter().any(|held| held == INSTANCES_FINALIZER) {
                    meta.finalizers.push(INSTANCES_FINALIZER.into());
                }
            });
        })
    }

    /// Puts the parts together; nothing runs before [`FleetParts::spawn`].
    pub fn parts(hub: &Hub) -> Result<FleetParts, Error> {
        let senders = Arc::new(Senders::default());
        let mut watches = Watches::new(hub)?;
        let controller = watches.controller(hub)?;
        let assignments = Arc::new(Assignments::new(senders.clone(), watches.workloads.view()));
        let index = assignments.clone();
        watches.instances.on_change(move |change| index.take(change));
        let index = assignments.clone();
        watches.workloads.on_change(move |change| index.tell_dependents(change));
        let fleet = Fleet {
            states: States::new(hub, assignments.clone())?,
            nodes: Nodes::new(hub)?,
            logs: Arc::new(Logs::new(senders.clone())),
            workloads: hub.resources()?,
            instances: hub.resources()?,
            synced: [watches.instances.synced(), watches.workloads.synced()],
            senders,
            assignments,
        };
        Ok(FleetParts { fleet: Arc::new(fleet), watches, controller })
    }

    pub fn senders(&self) -> &Senders {
        &self.senders
    }

    pub fn assignments(&self) -> &Assignments {
        &self.assignments
    }

    pub fn states(&self) -> &States {
        &self.states
    }

    pub fn logs(&self) -> &Arc<Logs> {
        &self.logs
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

    /// An agent's connection broke.
    pub async fn agent_gone(&self, agent: &str, epoch: i64, why: &str) {
        match self.nodes.gone(agent, epoch, why).await {
            Ok(true) => {
                let why = format!("node {agent:?} is gone: {why}");
                self.states.mark_unknown(agent, &why).await;
            }
            Ok(false) => {}
            Err(error) => tracing::error!(agent, %error, "cannot mark a node as gone"),
        }
    }

    /// Marks the nodes that did not come back after a restart of the server.
    async fn sweep(&self, nodes: Arc<View<Node>>, stop: CancellationToken) -> Result<(), Error> {
        tokio::select! {
            () = stop.cancelled() => return Ok(()),
            () = tokio::time::sleep(RETURN_GRACE) => {}
        }
        for (name, node) in nodes.all() {
            let Some(status) = &node.status else { continue };
            if status.state == "Ready" && self.senders.certificate_of(&name.name).is_none() {
                let why = "it did not come back after the server restarted";
                self.agent_gone(&name.name, status.session_epoch, why).await;
            }
        }
        Ok(())
    }
}

impl FleetParts {
    /// Starts everything that runs beside the connections.
    pub fn spawn(self, tasks: &mut Tasks) -> Arc<Fleet> {
        let stop = tasks.stop_token();
        let Watches { workloads, instances, nodes } = self.watches;
        let node_view = nodes.view();
        tasks.spawn("fleet-instances", OnEnd::StopAll, instances.run(stop.clone()));
        tasks.spawn("fleet-nodes", OnEnd::StopAll, nodes.run(stop.clone()));
        tasks.spawn("fleet-workloads", OnEnd::StopAll, workloads.run(stop.clone()));
        tasks.spawn("workload-controller", OnEnd::StopAll, self.controller.run(stop.clone()));
        let fleet = self.fleet.clone();
        let sweep = async move { fleet.sweep(node_view, stop).await };
        tasks.spawn("node-sweep", OnEnd::Ignore, sweep);
        self.fleet
    }
}
