//! What the leader watches for clusters, and whom each change concerns.
use crate::names::{CLUSTER_LABEL, CLUSTER_UID_LABEL, meta, owner};
use orrery_api::{Encoded, ObjectError};
use orrery_hub::{Error, Hub, ObjectName};
use orrery_proto::apps::v1::{Workload, WorkloadInstance};
use orrery_proto::infra::v1::{
    Addon, Blueprint, BlueprintSpec, Cluster, Machine, MachineClass, MachineDeployment, Node,
};
use orrery_proto::meta::v1::ObjectMeta;
use orrery_runtime::{KeyQueue, OnEnd, Reflector, Tasks, View};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;

/// What happens to machines and copies comes in crowds; a cluster is looked at once for all of a moment.
const TOGETHER: Duration = Duration::from_millis(100);

/// What the controllers read beside the store itself.
#[derive(Clone)]
pub struct Views {
    pub clusters: Arc<View<Cluster>>,
    pub blueprints: Arc<View<Blueprint>>,
    /// Copies of addons, by the identity of their cluster.
    pub copies: Arc<View<WorkloadInstance>>,
    /// Nodes of clusters, by the identity of their cluster.
    pub nodes: Arc<View<Node>>,
}

pub struct Watches {
    clusters: Reflector<Cluster>,
    blueprints: Reflector<Blueprint>,
    addons: Reflector<Addon>,
    machines: Reflector<Machine>,
    deployments: Reflector<MachineDeployment>,
    classes: Reflector<MachineClass>,
    workloads: Reflector<Workload>,
    copies: Reflector<WorkloadInstance>,
    nodes: Reflector<Node>,
}

/// Where keys are left.
pub struct Queues {
    pub clusters: KeyQueue<ObjectName>,
    pub blueprints: KeyQueue<ObjectName>,
    pub addons: KeyQueue<ObjectName>,
}

impl Watches {
    pub fn new(hub: &Hub) -> Result<Self, Error> {
        Ok(Self {
            clusters: Reflector::new(hub.resources()?),
            blueprints: Reflector::new(hub.resources()?),
            addons: Reflector::new(hub.resources()?),
            machines: Reflector::new(hub.resources()?).picking(labelled),
            deployments: Reflector::new(hub.resources()?).picking(labelled),
            classes: Reflector::new(hub.resources()?).picking(labelled),
            workloads: Reflector::new(hub.resources()?).picking(labelled),
            copies: Reflector::indexed(hub.resources()?, |_, it: &WorkloadInstance| {
                uid(&it.metadata)
            })
            .picking(labelled),
            nodes: Reflector::indexed(hub.resources()?, |_, it: &Node| uid(&it.metadata))
                .picking(labelled),
        })
    }

    pub fn views(&self) -> Views {
        Views {
            clusters: self.clusters.view(),
            blueprints: self.blueprints.view(),
            copies: self.copies.view(),
            nodes: self.nodes.view(),
        }
    }

    pub fn feed(&mut self, queues: &Queues) {
        self.feed_declared(queues);
        self.feed_made(&queues.clusters);
    }

    /// What people declare concerns those who name it, and those whom it names.
    fn feed_declared(&mut self, queues: &Queues) {
        let (own, named, views) =
            (queues.clusters.clone(), queues.blueprints.clone(), self.views());
        self.clusters.on_change(move |change| {
            own.add(change.name.clone());
            let specs = change.old.iter().chain(&change.new).filter_map(|it| it.spec.as_ref());
            specs.for_each(|spec| views.blueprints_called(spec.blueprint(), &named));
        });
        let (own, users) = (queues.blueprints.clone(), queues.clusters.clone());
        let (named, views) = (queues.addons.clone(), self.views());
        self.blueprints.on_change(move |change| {
            own.add(change.name.clone());
            views.clusters_of(&change.name.name, &users);
            let specs = change.old.iter().chain(&change.new).filter_map(|it| it.spec.as_ref());
            for addon in specs.flat_map(|spec| &spec.addons) {
                named.add(ObjectName::new(&change.name.project, addon.name()));
            }
        });
        let own = queues.addons.clone();
        let (blueprints, clusters, views) =
            (queues.blueprints.clone(), queues.clusters.clone(), self.views());
        self.addons.on_change(move |change| {
            own.add(change.name.clone());
            for name in views.blueprints_with(&change.name) {
                views.clusters_of(&name.name, &clusters);
                blueprints.add(name);
            }
        });
    }

    /// What a cluster made concerns that cluster.
    fn feed_made(&mut self, clusters: &KeyQueue<ObjectName>) {
        let queue = clusters.clone();
        let tell = move |project: &str, cluster: Option<&String>| {
            if let Some(cluster) = cluster {
                queue.add_within(ObjectName::new(project, cluster), TOGETHER);
            }
        };
        let of = tell.clone();
        self.machines.on_change(move |change| {
            let machine = change.new.as_ref().or(change.old.as_ref());
            let metadata = machine.map(|it| meta(&it.metadata));
            of(&change.name.project, metadata.and_then(|it| it.labels.get(CLUSTER_LABEL)));
        });
        let of = tell.clone();
        self.copies.on_change(move |change| {
            let copy = change.new.as_ref().or(change.old.as_ref());
            let metadata = copy.map(|it| meta(&it.metadata));
            of(&change.name.project, metadata.and_then(|it| it.labels.get(CLUSTER_LABEL)));
        });
        let of = tell.clone();
        self.deployments.on_change(move |change| {
            let owners = change.old.iter().chain(&change.new).filter_map(|it| owner(&it.metadata));
            owners.for_each(|owner| of(&change.name.project, Some(&owner.name)));
        });
        let of = tell.clone();
        self.classes.on_change(move |change| {
            let owners = change.old.iter().chain(&change.new).filter_map(|it| owner(&it.metadata));
            owners.for_each(|owner| of(&change.name.project, Some(&owner.name)));
        });
        let of = tell;
        self.workloads.on_change(move |change| {
            let owners = change.old.iter().chain(&change.new).filter_map(|it| owner(&it.metadata));
            owners.for_each(|owner| of(&change.name.project, Some(&owner.name)));
        });
        self.feed_nodes(clusters);
    }

    /// Nodes are in no project: whose they are is known by the identity of the cluster.
    fn feed_nodes(&mut self, clusters: &KeyQueue<ObjectName>) {
        let (queue, view) = (clusters.clone(), self.clusters.view());
        self.nodes.on_change(move |change| {
            let node = change.new.as_ref().or(change.old.as_ref());
            let Some(of) = node.and_then(|it| uid(&it.metadata)) else { return };
            let mut all = view.all().into_iter();
            if let Some((name, _)) = all.find(|(_, it)| meta(&it.metadata).uid == of) {
                queue.add_within(name, TOGETHER);
            }
        });
    }

    pub fn synced(&self) -> Vec<watch::Receiver<bool>> {
        vec![
            self.clusters.synced(),
            self.blueprints.synced(),
            self.addons.synced(),
            self.machines.synced(),
            self.deployments.synced(),
            self.classes.synced(),
            self.workloads.synced(),
            self.copies.synced(),
            self.nodes.synced(),
        ]
    }

    pub fn spawn(self, tasks: &mut Tasks) {
        let stop = tasks.stop_token();
        tasks.spawn("cluster-watch", OnEnd::StopAll, self.clusters.run(stop.clone()));
        tasks.spawn("blueprint-watch", OnEnd::StopAll, self.blueprints.run(stop.clone()));
        tasks.spawn("addon-watch", OnEnd::StopAll, self.addons.run(stop.clone()));
        tasks.spawn("cluster-machine-watch", OnEnd::StopAll, self.machines.run(stop.clone()));
        tasks.spawn("cluster-pool-watch", OnEnd::StopAll, self.deployments.run(stop.clone()));
        tasks.spawn("cluster-class-watch", OnEnd::StopAll, self.classes.run(stop.clone()));
        tasks.spawn("cluster-workload-watch", OnEnd::StopAll, self.workloads.run(stop.clone()));
        tasks.spawn("cluster-copy-watch", OnEnd::StopAll, self.copies.run(stop.clone()));
        tasks.spawn("cluster-node-watch", OnEnd::StopAll, self.nodes.run(stop));
    }
}

impl Views {
    /// Clusters that may mean a blueprint of this name: in its own project, or where it is shared.
    fn clusters_of(&self, blueprint: &str, queue: &KeyQueue<ObjectName>) {
        for (name, cluster) in self.clusters.all() {
            if cluster.spec.as_ref().is_some_and(|spec| spec.blueprint() == blueprint) {
                queue.add(name);
            }
        }
    }

    /// Blueprints that may be meant by a name.
    fn blueprints_called(&self, name: &str, queue: &KeyQueue<ObjectName>) {
        let all = self.blueprints.names().into_iter();
        all.filter(|it| it.name == name).for_each(|it| queue.add(it));
    }

    /// Blueprints that name an addon.
    pub fn blueprints_with(&self, addon: &ObjectName) -> Vec<ObjectName> {
        let names = |spec: &BlueprintSpec| spec.addons.iter().any(|it| it.name() == addon.name);
        let all = self.blueprints.all().into_iter();
        let using = all.filter(|(name, it)| {
            name.project == addon.project && it.spec.as_ref().is_some_and(names)
        });
        using.map(|(name, _)| name).collect()
    }
}

fn uid(metadata: &Option<ObjectMeta>) -> Option<String> {
    meta(metadata).labels.get(CLUSTER_UID_LABEL).cloned()
}

/// Most objects of these kinds are of no cluster, and there may be very many.
fn labelled<T>(object: &Encoded) -> Result<Option<T>, ObjectError>
where
    T: prost::Message + prost::Name + Default,
{
    object.label(CLUSTER_UID_LABEL).map(|_| object.typed()).transpose()
}
