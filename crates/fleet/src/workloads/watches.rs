//! What the workload controller watches, and what each change makes it look at again.
use super::controller::{Views, WorkloadReconciler};
use super::files::SecretUsers;
use super::graph::Graph;
use super::ledger::Ledger;
use super::placement::{Amounts, Seat};
use orrery_hub::{Error, Hub, ObjectName};
use orrery_proto::apps::v1::{Workload, WorkloadInstance, WorkloadInstanceSpec};
use orrery_proto::core::v1::Secret;
use orrery_proto::infra::v1::Node;
use orrery_runtime::{Change, Controller, Reflector};
use std::sync::Arc;

/// The index key of every workload that is placed by labels: nodes that change concern them.
const BY_SELECTOR: &str = "by selector";

/// The watches; more handlers may be added before they run.
pub struct Watches {
    pub workloads: Reflector<Workload>,
    pub instances: Reflector<WorkloadInstance>,
    pub nodes: Reflector<Node>,
    pub secrets: Reflector<Secret>,
}

impl Watches {
    pub fn new(hub: &Hub) -> Result<Self, Error> {
        Ok(Self {
            workloads: Reflector::indexed(hub.resources()?, by_selector),
            instances: Reflector::indexed(hub.resources()?, by_workload),
            nodes: Reflector::new(hub.resources()?),
            secrets: Reflector::new(hub.resources()?),
        })
    }

    /// A controller that is told of every change that matters to it.
    pub fn controller(
        &mut self,
        hub: &Hub,
    ) -> Result<Controller<ObjectName, WorkloadReconciler>, Error> {
        let graph = Arc::new(Graph::default());
        let views = Views {
            workloads: self.workloads.view(),
            instances: self.instances.view(),
            nodes: self.nodes.view(),
            secrets: self.secrets.view(),
            graph: graph.clone(),
            ledger: Arc::new(Ledger::default()),
            secret_users: Arc::new(SecretUsers::default()),
        };
        let (ledger, users) = (views.ledger.clone(), views.secret_users.clone());
        let controller = Controller::new("workloads", WorkloadReconciler::new(hub, views)?);
        let queue = controller.queue();
        let feed = users.clone();
        self.workloads.on_change(move |change| {
            feed.take(change);
            queue.add(change.name.clone());
            graph.take(change).into_iter().for_each(|concerned| queue.add(concerned));
        });
        let queue = controller.queue();
        self.instances.on_change(move |change| {
            let workload = |instance: &Arc<WorkloadInstance>| owner(&change.name, instance);
            for key in change.old.iter().chain(&change.new).filter_map(workload) {
                queue.add(key);
            }
            // Room that became free is for those who wait for some.
            ledger.take(change).into_iter().for_each(|starved| queue.add(starved));
        });
        let queue = controller.queue();
        self.secrets.on_change(move |change: &Change<Secret>| {
            users.of(&change.name).into_iter().for_each(|user| queue.add(user));
        });
        let (queue, placed) = (controller.queue(), self.workloads.view());
        self.nodes.on_change(move |change: &Change<Node>| {
            let seat = |node: &Option<Arc<Node>>| {
                node.as_deref().map(|node| Seat::of(node, Amounts::default()))
            };
            if seat(&change.old) != seat(&change.new) {
                let concerned = placed.indexed(BY_SELECTOR).into_iter();
                concerned.for_each(|(workload, _)| queue.add(workload));
            }
        });
        Ok(controller)
    }
}

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
