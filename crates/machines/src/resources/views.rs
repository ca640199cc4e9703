//! What a server has been told of everything that concerns machines.
use super::freeze;
use super::refs::{class_key, is_going, meta, owner};
use super::related::{Listeners, Related, Relation};
use crate::drivers::DriverKey;
use orrery_hub::{Error, Hub, ObjectName};
use orrery_proto::apps::v1::{WorkloadInstance, WorkloadInstanceSpec};
use orrery_proto::core::v1::{Project, Secret};
use orrery_proto::infra::v1::{Machine, MachineClass, MachineDeployment, MachineSet, Node};
use orrery_runtime::{Change, OnEnd, Reflector, Tasks, View};
use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::Arc;
use tokio::sync::{Notify, watch};

pub struct Views {
    pub machines: Arc<View<Machine>>,
    pub classes: Arc<View<MachineClass>>,
    /// By the identity of their deployment.
    pub sets: Arc<View<MachineSet>>,
    pub deployments: Arc<View<MachineDeployment>>,
    pub nodes: Arc<View<Node>>,
    /// By their node.
    pub instances: Arc<View<WorkloadInstance>>,
    pub projects: Arc<View<Project>>,
    pub secrets: Arc<View<Secret>>,
    pub related: Related,
    pub listeners: Arc<Listeners>,
    /// Counts the movements of any project's freeze switch.
    pub freezing: watch::Sender<u64>,
    /// Who waits for the deletion of a machine to be asked for.
    waiting: Mutex<HashMap<ObjectName, Arc<Notify>>>,
}

/// The watches that keep the views; more handlers may be added before they run.
pub struct Watches {
    pub views: Arc<Views>,
    machines: Reflector<Machine>,
    pub classes: Reflector<MachineClass>,
    sets: Reflector<MachineSet>,
    deployments: Reflector<MachineDeployment>,
    nodes: Reflector<Node>,
    instances: Reflector<WorkloadInstance>,
    projects: Reflector<Project>,
    pub secrets: Reflector<Secret>,
}

impl Watches {
    pub fn new(hub: &Hub) -> Result<Self, Error> {
        let machines = Reflector::new(hub.resources()?);
        let classes = Reflector::new(hub.resources()?);
        let sets = Reflector::indexed(hub.resources()?, by_deployment);
        let deployments = Reflector::new(hub.resources()?);
        let nodes = Reflector::new(hub.resources()?);
        let instances = Reflector::indexed(hub.resources()?, by_node);
        let projects = Reflector::new(hub.resources()?).picking(freeze::switch);
        let secrets = Reflector::new(hub.resources()?);
        let views = Arc::new(Views {
            machines: machines.view(),
            classes: classes.view(),
            sets: sets.view(),
            deployments: deployments.view(),
            nodes: nodes.view(),
            instances: instances.view(),
            projects: projects.view(),
            secrets: secrets.view(),
            related: Related::default(),
            listeners: Arc::default(),
            freezing: watch::Sender::default(),
            waiting: Mutex::default(),
        });
        let mut watches = Self {
            views,
            machines,
            classes,
            sets,
            deployments,
            nodes,
            instances,
            projects,
            secrets,
        };
        watches.hear_machines();
        watches.hear_surroundings();
        Ok(watches)
    }

    fn hear_machines(&mut self) {
        let views = self.views.clone();
        self.machines.on_change(move |change| views.machine_changed(change));
        let views = self.views.clone();
        self.nodes.on_change(move |change| {
            views.tell(&Relation::Node(change.name.name.clone()));
        });
        let views = self.views.clone();
        self.instances.on_change(move |change| {
            let node = |it: &Arc<WorkloadInstance>| by_node(&change.name, it);
            if let Some(node) = change.old.iter().chain(&change.new).find_map(node) {
                views.tell_going(&Relation::Node(node));
            }
        });
    }

    fn hear_surroundings(&mut self) {
        let views = self.views.clone();
        self.classes.on_change(move |change| {
            let spec = |it: &Option<Arc<MachineClass>>| it.as_ref().and_then(|it| it.spec.clone());
            if spec(&change.old) != spec(&change.new) {
                views.tell(&Relation::Class(change.name.clone()));
            }
        });
        let views = self.views.clone();
        self.secrets.on_change(move |change| views.secret_changed(&change.name));
        let views = self.views.clone();
        self.sets.on_change(move |change| {
            let spec = |it: &Option<Arc<MachineSet>>| it.as_ref().and_then(|it| it.spec.clone());
            if spec(&change.old) != spec(&change.new) {
                let set = change.new.as_ref().or(change.old.as_ref());
                let uid = set.map(|it| meta(&it.metadata).uid.clone()).unwrap_or_default();
                views.tell(&Relation::Set(uid));
            }
        });
        let views = self.views.clone();
        self.deployments.on_change(move |change| views.deployment_changed(change));
        let views = self.views.clone();
        self.projects.on_change(move |change| views.project_changed(change));
    }

    /// Starts the watches; returns what tells when all of them have told what there is.
    pub fn spawn(self, tasks: &mut Tasks) -> Vec<watch::Receiver<bool>> {
        let stop = tasks.stop_token();
        let synced = vec![
            self.machines.synced(),
            self.classes.synced(),
            self.sets.synced(),
            self.deployments.synced(),
            self.nodes.synced(),
            self.instances.synced(),
            self.projects.synced(),
            self.secrets.synced(),
        ];
        tasks.spawn("machines-machines", OnEnd::StopAll, self.machines.run(stop.clone()));
        tasks.spawn("machines-classes", OnEnd::StopAll, self.classes.run(stop.clone()));
        tasks.spawn("machines-sets", OnEnd::StopAll, self.sets.run(stop.clone()));
        tasks.spawn("machines-deployments", OnEnd::StopAll, self.deployments.run(stop.clone()));
        tasks.spawn("machines-nodes", OnEnd::StopAll, self.nodes.run(stop.clone()));
        tasks.spawn("machines-instances", OnEnd::StopAll, self.instances.run(stop.clone()));
        tasks.spawn("machines-projects", OnEnd::StopAll, self.projects.run(stop.clone()));
        tasks.spawn("machines-secrets", OnEnd::StopAll, self.secrets.run(stop));
        synced
    }
}

impl Views {
    /// The driver that a machine is for, as far as its class is known.
    pub fn key_of(&self, project: &str, machine: &Machine) -> Option<DriverKey> {
        let class = machine.spec.as_ref()?.class();
        if let Some(class) = self.classes.get(&ObjectName::new(project, class)) {
            return class.spec.as_ref().map(class_key);
        }
        self.set_of(project, machine)?.spec.as_ref()?.class_snapshot.as_ref().map(class_key)
    }

    pub fn set_of(&self, project: &str, machine: &Machine) -> Option<Arc<MachineSet>> {
        let owner = owner(&machine.metadata, "MachineSet")?;
        let set = self.sets.get(&ObjectName::new(project, &owner.name))?;
        (meta(&set.metadata).uid == owner.uid).then_some(set)
    }

    pub fn deployment_of(&self, project: &str, set: &MachineSet) -> Option<Arc<MachineDeployment>> {
        let owner = owner(&set.metadata, "MachineDeployment")?;
        let deployment = self.deployments.get(&ObjectName::new(project, &owner.name))?;
        (meta(&deployment.metadata).uid == owner.uid).then_some(deployment)
    }

    /// Completes when the deletion of a machine was asked for, or it is gone.
    pub async fn deletion_asked(&self, name: &ObjectName) {
        let asked = self.waiting.lock().entry(name.clone()).or_default().clone();
        // In this order: whoever changes it after the look finds us waiting.
        let told = asked.notified();
        tokio::pin!(told);
        told.as_mut().enable();
        if self.machines.get(name).is_none_or(|it| is_going(&it.metadata)) {
            return;
        }
        told.await;
    }

    /// Tells those who take care of these machines.
    pub fn tell(&self, relation: &Relation) {
        for name in self.related.machines(relation) {
            self.tell_one(&name);
        }
    }

    fn tell_one(&self, name: &ObjectName) {
        let machine = self.machines.get(name);
        let key = machine.and_then(|machine| self.key_of(&name.project, &machine));
        self.listeners.tell(key.as_ref(), name);
    }

    fn tell_going(&self, relation: &Relation) {
        for name in self.related.machines(relation) {
            if self.machines.get(&name).is_some_and(|it| is_going(&it.metadata)) {
                self.tell_one(&name);
            }
        }
    }

    fn machine_changed(&self, change: &Change<Machine>) {
        let relations = |machine: &Option<Arc<Machine>>| match machine {
            Some(machine) => relations(&change.name, machine),
            None => Vec::new(),
        };
        self.related.update(&change.name, &relations(&change.old), &relations(&change.new));
        let going = change.new.as_ref().is_none_or(|it| is_going(&it.metadata));
        if going && let Some(waiting) = self.waiting.lock().remove(&change.name) {
            waiting.notify_waiters();
        }
        if let Some(machine) = change.new.as_ref().or(change.old.as_ref()) {
            let key = self.key_of(&change.name.project, machine);
            self.listeners.tell(key.as_ref(), &change.name);
        }
    }

    fn secret_changed(&self, secret: &ObjectName) {
        for (name, class) in self.classes.all() {
            let names = class.spec.as_ref().is_some_and(|spec| spec.secret() == secret.name);
            if names && name.project == secret.project {
                self.tell(&Relation::Class(name));
            }
        }
    }

    fn deployment_changed(&self, change: &Change<MachineDeployment>) {
        let spec = |it: &Option<Arc<MachineDeployment>>| it.as_ref().and_then(|it| it.spec.clone());
        if spec(&change.old) == spec(&change.new) {
            return;
        }
        let Some(deployment) = change.new.as_ref().or(change.old.as_ref()) else { return };
        for (_, set) in self.sets.indexed(&meta(&deployment.metadata).uid) {
            self.tell(&Relation::Set(meta(&set.metadata).uid.clone()));
        }
    }

    fn project_changed(&self, change: &Change<Project>) {
        let frozen =
            |it: &Option<Arc<Project>>| it.as_ref().is_some_and(|it| super::freeze::says(it));
        if frozen(&change.old) == frozen(&change.new) {
            return;
        }
        self.freezing.send_modify(|moves| *moves += 1);
        if change.name.name == orrery_api::SYSTEM_PROJECT {
            let all = self.machines.names();
            all.iter().for_each(|name| self.tell_one(name));
        } else {
            self.tell(&Relation::Project(change.name.name.clone()));
        }
    }
}

fn relations(name: &ObjectName, machine: &Machine) -> Vec<Relation> {
    let class = machine.spec.as_ref().map(|spec| spec.class()).unwrap_or_default();
    let mut relations = vec![
        Relation::Class(ObjectName::new(&name.project, class)),
        Relation::Project(name.project.clone()),
        Relation::Node(name.name.clone()),
    ];
    let node = machine.status.as_ref().map(|status| status.node_name.clone()).unwrap_or_default();
    if !node.is_empty() && node != name.name {
        relations.push(Relation::Node(node));
    }
    if let Some(set) = owner(&machine.metadata, "MachineSet") {
        relations.push(Relation::Set(set.uid.clone()));
    }
    relations
}

pub fn by_deployment(_: &ObjectName, set: &MachineSet) -> Option<String> {
    owner(&set.metadata, "MachineDeployment").map(|owner| owner.uid.clone())
}

fn by_node(_: &ObjectName, instance: &WorkloadInstance) -> Option<String> {
    let node = WorkloadInstanceSpec::node(instance.spec.as_ref()?);
    (!node.is_empty()).then(|| node.to_owned())
}
