//! The server core of the fleet: its parts, put together once.
use crate::agents::assignments::Assignments;
use crate::agents::logs::Logs;
use crate::agents::nodes::Nodes;
use crate::agents::states::States;
use crate::middleware::Senders;
use crate::workloads::controller::{Views, WorkloadReconciler};
use crate::workloads::graph::Graph;
use crate::workloads::placement::Seat;
use crate::workloads::{INSTANCES_FINALIZER, validate};
use orrery_api::{Object, SchemeBuilder};
use orrery_hub::{Error, Hub, HubBuilder, ObjectName, Resources};
use orrery_proto::apps::v1::{Workload, WorkloadInstance, WorkloadInstanceSpec};
use orrery_proto::infra::v1::Node;
use orrery_runtime::{Change, Controller, OnEnd, Reflector, Tasks, View};
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
    instances: Reflector<WorkloadInstance>,
    nodes: Reflector<Node>,
    workloads: Reflector<Workload>,
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
        let mut instances = Reflector::indexed(hub.resources()?, by_workload);
        let mut nodes = Reflector::new(hub.resources()?);
        let mut workloads = Reflector::indexed(hub.resources()?, by_selector);
        let assignments = Arc::new(Assignments::new(senders.clone(), workloads.view()));
        let views = Views {
            workloads: workloads.view(),
            instances: instances.view(),
            nodes: nodes.view(),
            graph: Arc::new(Graph::default()),
        };
        let controller = Controller::new("workloads", WorkloadReconciler::new(hub, views.clone())?);
        let (queue, index) = (controller.queue(), assignments.clone());
        workloads.on_change(move |change| {
            queue.add(change.name.clone());
            views.graph.take(change).into_iter().for_each(|concerned| queue.add(concerned));
            index.tell_dependents(change);
        });
        let (queue, placed) = (controller.queue(), workloads.view());
        nodes.on_change(move |change: &Change<Node>| {
            let seat = |node: &Option<Arc<Node>>| node.as_deref().map(Seat::of);
            if seat(&change.old) != seat(&change.new) {
                let concerned = placed.indexed(BY_SELECTOR).into_iter();
                concerned.for_each(|(workload, _)| queue.add(workload));
            }
        });
        let queue = controller.queue();
        let index = assignments.clone();
        instances.on_change(move |change| {
            index.take(change);
            let workload = |instance: &Arc<WorkloadInstance>| owner(&change.name, instance);
            for key in change.old.iter().chain(&change.new).filter_map(workload) {
                queue.add(key);
            }
        });
        let fleet = Fleet {
            states: States::new(hub, assignments.clone())?,
            nodes: Nodes::new(hub)?,
            logs: Arc::new(Logs::new(senders.clone())),
            workloads: hub.resources()?,
            instances: hub.resources()?,
            synced: [instances.synced(), workloads.synced()],
            senders,
            assignments,
        };
        Ok(FleetParts { fleet: Arc::new(fleet), instances, nodes, workloads, controller })
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
        let node_view = self.nodes.view();
        tasks.spawn("fleet-instances", OnEnd::StopAll, self.instances.run(stop.clone()));
        tasks.spawn("fleet-nodes", OnEnd::StopAll, self.nodes.run(stop.clone()));
        tasks.spawn("fleet-workloads", OnEnd::StopAll, self.workloads.run(stop.clone()));
        tasks.spawn("workload-controller", OnEnd::StopAll, self.controller.run(stop.clone()));
        let fleet = self.fleet.clone();
        let sweep = async move { fleet.sweep(node_view, stop).await };
        tasks.spawn("node-sweep", OnEnd::Ignore, sweep);
        self.fleet
    }
}

/// The index key of every workload that is placed by labels: nodes that change concern them.
const BY_SELECTOR: &str = "by selector";

fn by_selector(_: &ObjectName, workload: &Workload) -> Option<String> {
    let placement = workload.spec.as_ref()?.placement.as_ref()?;
    placement.selector.as_ref().map(|_| BY_SELECTOR.to_owned())
}

/// The index key of a copy: its workload.
fn by_workload(name: &ObjectName, instance: &WorkloadInstance) -> Option<String> {
    owner(name, instance).map(|owner| owner.to_string())
}

fn owner(name: &ObjectName, instance: &WorkloadInstance) -> Option<ObjectName> {
    let workload = WorkloadInstanceSpec::workload(instance.spec.as_ref()?);
    Some(ObjectName::new(name.project.clone(), workload))
}
