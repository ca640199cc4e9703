//! What the workload controller watches, and what each change makes it look at again.
use super::controller::{UnderWay, Views, WorkloadReconciler};
use super::files::FileUsers;
use super::graph::Graph;
use super::ledger::Ledger;
use super::placement::{Amounts, Seat};
use super::urgency;
use super::volumes::mounted;
use orrery_hub::{Error, Hub, ObjectName};
use orrery_proto::apps::v1::{Workload, WorkloadInstance, WorkloadInstanceSpec};
use orrery_proto::core::v1::Secret;
use orrery_proto::infra::v1::Node;
use orrery_proto::storage::v1::{StorageController, Volume};
use orrery_runtime::{Change, Controller, KeyQueue, Reflector, View};
use std::sync::Arc;
use std::time::Duration;

/// The index key of every workload that is placed by labels: nodes that change concern them.
const BY_SELECTOR: &str = "by selector";

/// The watches; more handlers may be added before they run.
pub struct Watches {
    pub workloads: Reflector<Workload>,
    pub instances: Reflector<WorkloadInstance>,
    pub nodes: Reflector<Node>,
    pub secrets: Reflector<Secret>,
    pub volumes: Reflector<Volume>,
    pub controllers: Reflector<StorageController>,
    file_users: Arc<FileUsers>,
}

impl Watches {
    pub fn new(hub: &Hub) -> Result<Self, Error> {
        Ok(Self {
            workloads: Reflector::indexed(hub.resources()?, by_placement),
            instances: Reflector::indexed(hub.resources()?, by_workload),
            nodes: Reflector::new(hub.resources()?),
            secrets: Reflector::new(hub.resources()?),
            volumes: Reflector::new(hub.resources()?),
            controllers: Reflector::new(hub.resources()?),
            file_users: Arc::default(),
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
            volumes: self.volumes.view(),
            controllers: self.controllers.view(),
            graph: graph.clone(),
            ledger: Arc::new(Ledger::default()),
            file_users: self.file_users.clone(),
            under_way: UnderWay::default(),
        };
        let (ledger, users) = (views.ledger.clone(), self.file_users.clone());
        let under_way = views.under_way.clone();
        let controller = Controller::new("workloads", WorkloadReconciler::new(hub, views)?);
        let queue = controller.queue();
        let feed = users.clone();
        self.workloads.on_change(move |change| {
            feed.take(change);
            look(&queue, change.name.clone(), urgency::of_workload(change));
            graph.take(change).into_iter().for_each(|concerned| queue.add(concerned));
        });
        let (queue, placed) = (controller.queue(), self.workloads.view());
        self.instances.on_change(move |change| {
            let workload = |instance: &Arc<WorkloadInstance>| owner(&change.name, instance);
            let wait = urgency::of_copy(change, under_way.count());
            let moves = change.old.is_some() != change.new.is_some();
            for key in change.old.iter().chain(&change.new).filter_map(workload) {
                if moves {
                    let beside = placed.indexed(&beside_key(&key)).into_iter();
                    beside.for_each(|(follower, _)| queue.add(follower));
                }
                look(&queue, key, wait);
            }
            // Room that became free is for those who wait for some.
            ledger.take(change).into_iter().for_each(|starved| queue.add(starved));
        });
        let queue = controller.queue();
        self.secrets.on_change(move |change: &Change<Secret>| {
            users.concerned(change).into_iter().for_each(|user| queue.add(user));
        });
        self.feed_from_storage(&controller.queue());
        self.hear_nodes(controller.queue());
        Ok(controller)
    }

    fn hear_nodes(&mut self, queue: KeyQueue<ObjectName>) {
        let placed = self.workloads.view();
        self.nodes.on_change(move |change: &Change<Node>| {
            let seat = |node: &Option<Arc<Node>>| {
                node.as_deref().map(|node| Seat::of(node, Amounts::default()))
            };
            let (old, new) = (seat(&change.old), seat(&change.new));
            if old == new {
                return;
            }
            let chosen = placed.indexed(BY_SELECTOR).into_iter();
            chosen.for_each(|(workload, _)| queue.add(workload));
            // Those that name it care for what is seldom: it is opened, closed, emptied or gone.
            if old.is_some_and(|old| new.is_none_or(|new| !old.takes_like(&new))) {
                let all = placed.all().into_iter();
                let named = all.filter(|(_, workload)| names(workload, &change.name.name));
                named.for_each(|(workload, _)| queue.add(workload));
            }
        });
    }

    /// A volume that got a place draws its users there; a storage controller that comes or goes matters
    /// to those whose volumes have none yet.
    fn feed_from_storage(&mut self, queue: &KeyQueue<ObjectName>) {
        let (feed, placed) = (queue.clone(), self.workloads.view());
        self.volumes.on_change(move |change: &Change<Volume>| {
            let place = |volume: &Option<Arc<Volume>>| {
                volume.as_ref().map(|volume| {
                    let status = volume.status.as_ref();
                    status.map(|status| status.controller.clone()).unwrap_or_default()
                })
            };
            if place(&change.old) != place(&change.new) {
                let (project, volume) = (&change.name.project, change.name.name.as_str());
                let uses = |workload: &Workload| mounted(workload).any(|name| name == volume);
                drawn(&placed, &feed, |name, workload| name.project == *project && uses(workload));
            }
        });
        let (feed, placed) = (queue.clone(), self.workloads.view());
        self.controllers.on_change(move |change: &Change<StorageController>| {
            if change.old.is_some() != change.new.is_some() {
                drawn(&placed, &feed, |_, workload| mounted(workload).next().is_some());
            }
        });
    }

    /// Who has files of their own; filled by the watch over workloads.
    pub fn file_users(&self) -> Arc<FileUsers> {
        self.file_users.clone()
    }
}

/// Has a workload looked at: now, or within some time.
fn look(queue: &KeyQueue<ObjectName>, workload: ObjectName, wait: Option<Duration>) {
    match wait {
        None => queue.add(workload),
        Some(wait) => queue.add_within(workload, wait),
    }
}

/// Has the workloads looked at again that are placed by labels and are meant.
fn drawn(
    placed: &View<Workload>,
    queue: &KeyQueue<ObjectName>,
    meant: impl Fn(&ObjectName, &Workload) -> bool,
) {
    let concerned = placed.indexed(BY_SELECTOR).into_iter();
    let concerned = concerned.filter(|(name, workload)| meant(name, workload));
    concerned.for_each(|(name, _)| queue.add(name));
}

fn names(workload: &Workload, node: &str) -> bool {
    let placement = workload.spec.as_ref().and_then(|spec| spec.placement.as_ref());
    placement.is_some_and(|placement| placement.nodes.iter().any(|name| name == node))
}

/// What draws a workload: the labels of nodes, or the copies of another workload.
fn by_placement(name: &ObjectName, workload: &Workload) -> Option<String> {
    let placement = workload.spec.as_ref()?.placement.as_ref()?;
    let other = || Some(ObjectName::new(name.project.clone(), placement.beside.as_ref()?));
    match placement.selector {
        Some(_) => Some(BY_SELECTOR.to_owned()),
        None => other().map(|other| beside_key(&other)),
    }
}

/// The index key of the workloads that are placed beside this one.
fn beside_key(other: &ObjectName) -> String {
    format!("beside {other}")
}

/// The index key of a copy: its workload.
fn by_workload(name: &ObjectName, instance: &WorkloadInstance) -> Option<String> {
    owner(name, instance).map(|owner| owner.to_string())
}

fn owner(name: &ObjectName, instance: &WorkloadInstance) -> Option<ObjectName> {
    let workload = WorkloadInstanceSpec::workload(instance.spec.as_ref()?);
    Some(ObjectName::new(name.project.clone(), workload))
}
