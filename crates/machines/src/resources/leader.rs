//! What the leader does for machines.
use super::classes::ClassReconciler;
use super::deployments::DeploymentReconciler;
use super::driver_objects::Sweep;
use super::edge::Edge;
use super::machines::{MachineReconciler, Machines, Nobody};
use super::refs::{is_going, meta, owner};
use super::secrets::{SecretReconciler, holds, snapshot};
use super::sets::{LeaderViews, SetReconciler, by_set};
use super::steps::Steps;
use super::views::{Views, by_deployment};
use orrery_hub::{Error, Hub, ObjectName};
use orrery_proto::core::v1::Secret;
use orrery_proto::infra::v1::{
    Driver, Machine, MachineClass, MachineClassSpec, MachineDeployment, MachineSet, MachineTemplate,
};
use orrery_runtime::{Controller, KeyQueue, OnEnd, Reflector, Tasks, View};
use std::sync::Arc;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

/// The leader's own watches: begun after it became the leader, so that they show all that was done by
/// the leader before.
struct Watches {
    machines: Reflector<Machine>,
    sets: Reflector<MachineSet>,
    deployments: Reflector<MachineDeployment>,
    classes: Reflector<MachineClass>,
    drivers: Reflector<Driver>,
    secrets: Reflector<Secret>,
}

/// Starts the controllers, on a hub that is fenced by the leader's lease.
pub fn spawn(hub: &Hub, edge: &Edge, tasks: &mut Tasks) -> Result<(), Error> {
    let mut watches = Watches {
        machines: Reflector::indexed(hub.resources()?, by_set),
        sets: Reflector::indexed(hub.resources()?, by_deployment),
        deployments: Reflector::new(hub.resources()?),
        classes: Reflector::new(hub.resources()?),
        drivers: Reflector::new(hub.resources()?),
        secrets: Reflector::new(hub.resources()?).picking(holds),
    };
    let views = LeaderViews {
        machines: watches.machines.view(),
        sets: watches.sets.view(),
        deployments: watches.deployments.view(),
        classes: watches.classes.view(),
        projects: edge.views().projects.clone(),
        steps: Steps::default(),
    };
    let sets = Controller::new("machine-sets", SetReconciler::new(hub, views.clone())?);
    let classes = ClassReconciler::new(hub, views.clone())?;
    let secrets = Controller::new("machine-secrets", SecretReconciler::new(hub, views.clone())?);
    let deployments = DeploymentReconciler::new(hub, views)?;
    let deployments = Controller::new("machine-deployments", deployments);
    let classes = Controller::new("machine-classes", classes);
    let machines = Machines::new(hub, edge.views().clone(), edge.authority())?;
    let unserved = MachineReconciler::unserved(machines, Arc::new(Nobody), watches.drivers.view());
    let unserved = Controller::new("machines-without-driver", unserved);
    watches.follow_sets(&sets.queue(), &deployments.queue());
    watches.follow_classes(&deployments.queue(), &classes.queue());
    watches.follow_secrets(&secrets.queue());
    watches.follow_drivers(edge.views().clone(), &unserved.queue());
    let frozen = [sets.queue(), deployments.queue()];
    let synced = watches.synced(edge);
    let sweep = Sweep::new(hub, watches.drivers.view(), edge.server_lease())?;
    watches.spawn(tasks);
    sets.spawn("machine-set-controller", synced.clone(), tasks);
    deployments.spawn("machine-deployment-controller", synced.clone(), tasks);
    classes.spawn("machine-class-controller", synced.clone(), tasks);
    secrets.spawn("machine-secret-controller", synced.clone(), tasks);
    let views = edge.views().clone();
    let listening = views.listeners.listen(None, unserved.queue());
    let queue = unserved.queue();
    views.machines.names().into_iter().for_each(|name| queue.add(name));
    unserved.spawn("machine-unserved-controller", synced, tasks);
    let stop = tasks.stop_token();
    tasks.spawn("machine-driver-sweep", OnEnd::StopAll, sweep.run(stop.clone()));
    tasks.spawn("machine-freeze", OnEnd::StopAll, thaw(views, frozen, stop, listening));
    Ok(())
}

/// Looks at all deployments and sets when the freeze switch of a project moves. Holds `_listening` for
/// as long as the leader leads.
async fn thaw(
    views: Arc<Views>,
    [sets, deployments]: [KeyQueue<ObjectName>; 2],
    stop: CancellationToken,
    _listening: super::related::Listening,
) -> Result<(), Error> {
    let mut switch = views.freezing.subscribe();
    loop {
        tokio::select! {
            () = stop.cancelled() => return Ok(()),
            changed = switch.changed() => {
                if changed.is_err() {
                    return Ok(());
                }
            }
        }
        views.sets.names().into_iter().for_each(|name| sets.add(name));
        views.deployments.names().into_iter().for_each(|name| deployments.add(name));
    }
}

impl Watches {
    fn follow_sets(&mut self, sets: &KeyQueue<ObjectName>, deployments: &KeyQueue<ObjectName>) {
        let (queue, view) = (sets.clone(), self.sets.view());
        let of_deployment = deployments.clone();
        self.machines.on_change(move |change| {
            let machine = change.new.as_ref().or(change.old.as_ref());
            let owner = machine.and_then(|it| owner(&it.metadata, "MachineSet"));
            let Some(owner) = owner else { return };
            let set = ObjectName::new(&change.name.project, &owner.name);
            if let Some(deployment) =
                view.get(&set).and_then(|set| deployment_of(&set, &change.name))
            {
                of_deployment.add(deployment);
            }
            queue.add(set);
        });
        let (queue, of_deployment) = (sets.clone(), deployments.clone());
        self.sets.on_change(move |change| {
            queue.add(change.name.clone());
            let set = change.new.as_ref().or(change.old.as_ref());
            if let Some(deployment) = set.and_then(|set| deployment_of(set, &change.name)) {
                of_deployment.add(deployment);
            }
        });
        let (queue, of_sets, view) = (deployments.clone(), sets.clone(), self.sets.view());
        self.deployments.on_change(move |change| {
            queue.add(change.name.clone());
            let deployment = change.new.as_ref().or(change.old.as_ref());
            let uid = deployment.map(|it| meta(&it.metadata).uid.clone()).unwrap_or_default();
            view.indexed(&uid).into_iter().for_each(|(set, _)| of_sets.add(set));
        });
    }

    /// A class that changes concerns the deployments that name it; what goes may have been the last
    /// user of a class that is to go.
    fn follow_classes(
        &mut self,
        deployments: &KeyQueue<ObjectName>,
        classes: &KeyQueue<ObjectName>,
    ) {
        let (queue, to_go, view) = (deployments.clone(), classes.clone(), self.deployments.view());
        self.classes.on_change(move |change| {
            to_go.add(change.name.clone());
            for (name, deployment) in view.all() {
                let template = deployment.spec.as_ref().and_then(|spec| spec.template.as_ref());
                let names = template.is_some_and(|it| it.class() == change.name.name);
                if names && name.project == change.name.project {
                    queue.add(name);
                }
            }
        });
        let (to_go, view) = (classes.clone(), self.classes.view());
        let going = move |project: &str, class: &str| {
            let class = ObjectName::new(project, class);
            if view.get(&class).is_some_and(|class| is_going(&class.metadata)) {
                to_go.add(class);
            }
        };
        let class_of = |template: Option<&MachineTemplate>| {
            template.map(|it| it.class().to_owned()).unwrap_or_default()
        };
        let tell = going.clone();
        self.deployments.on_change(move |change| {
            let spec = change.old.as_ref().and_then(|it| it.spec.as_ref());
            tell(&change.name.project, &class_of(spec.and_then(|spec| spec.template.as_ref())));
        });
        let tell = going.clone();
        self.sets.on_change(move |change| {
            let spec = change.old.as_ref().and_then(|it| it.spec.as_ref());
            tell(&change.name.project, &class_of(spec.and_then(|spec| spec.template.as_ref())));
        });
        self.machines.on_change(move |change| {
            let (None, Some(gone)) = (&change.new, &change.old) else { return };
            let class = gone.spec.as_ref().map(|spec| spec.class()).unwrap_or_default();
            going(&change.name.project, class);
        });
    }

    /// A secret is needed from the first user of a class that names it to the last.
    fn follow_secrets(&mut self, secrets: &KeyQueue<ObjectName>) {
        let queue = secrets.clone();
        self.secrets.on_change(move |change| queue.add(change.name.clone()));
        let queue = secrets.clone();
        let tell = move |project: &str, spec: Option<&MachineClassSpec>| {
            if let Some(secret) = spec.and_then(|spec| spec.secret.as_deref()) {
                queue.add(ObjectName::new(project, secret));
            }
        };
        let of = tell.clone();
        self.classes.on_change(move |change| {
            let both = change.old.iter().chain(&change.new);
            both.for_each(|class| of(&change.name.project, class.spec.as_ref()));
        });
        let (view, of) = (self.classes.view(), tell.clone());
        let of_class = move |project: &str, class: &str| {
            let class = view.get(&ObjectName::new(project, class));
            of(project, class.as_ref().and_then(|class| class.spec.as_ref()));
        };
        let of = of_class.clone();
        self.deployments.on_change(move |change| {
            for deployment in change.old.iter().chain(&change.new) {
                let template = deployment.spec.as_ref().and_then(|spec| spec.template.as_ref());
                of(&change.name.project, template.map(|it| it.class()).unwrap_or_default());
            }
        });
        let (of, of_snapshot) = (of_class.clone(), tell.clone());
        self.sets.on_change(move |change| {
            for set in change.old.iter().chain(&change.new) {
                let template = set.spec.as_ref().and_then(|spec| spec.template.as_ref());
                of(&change.name.project, template.map(|it| it.class()).unwrap_or_default());
                of_snapshot(&change.name.project, snapshot(set));
            }
        });
        let sets = self.sets.view();
        self.machines.on_change(move |change| {
            let ((Some(machine), None) | (None, Some(machine))) = (&change.old, &change.new) else {
                return;
            };
            let project = &change.name.project;
            of_class(project, machine.spec.as_ref().map(|it| it.class()).unwrap_or_default());
            let set = owner(&machine.metadata, "MachineSet");
            let set = set.and_then(|set| sets.get(&ObjectName::new(project, &set.name)));
            tell(project, set.as_deref().and_then(snapshot));
        });
    }

    /// When a driver comes or goes, its machines may be everybody's or nobody's.
    fn follow_drivers(&mut self, views: Arc<Views>, unserved: &KeyQueue<ObjectName>) {
        let queue = unserved.clone();
        self.drivers.on_change(move |change| {
            let state = |it: &Option<Arc<Driver>>| {
                it.as_ref().and_then(|it| it.status.as_ref()).map(|it| it.state.clone())
            };
            if state(&change.old) == state(&change.new) {
                return;
            }
            for (name, machine) in views.machines.all() {
                let key = views.key_of(&name.project, &machine);
                let driver = change.new.as_ref().or(change.old.as_ref());
                let of = driver
                    .and_then(|it| it.spec.as_ref())
                    .map(|it| crate::drivers::DriverKey::new(it.provider(), it.provider_version()));
                if key == of {
                    queue.add(name);
                }
            }
        });
    }

    fn synced(&self, edge: &Edge) -> Vec<watch::Receiver<bool>> {
        let mut synced = edge.synced();
        synced.extend([
            self.machines.synced(),
            self.sets.synced(),
            self.deployments.synced(),
            self.classes.synced(),
            self.drivers.synced(),
            self.secrets.synced(),
        ]);
        synced
    }

    fn spawn(self, tasks: &mut Tasks) {
        let stop = tasks.stop_token();
        tasks.spawn("machine-watch", OnEnd::StopAll, self.machines.run(stop.clone()));
        tasks.spawn("machine-set-watch", OnEnd::StopAll, self.sets.run(stop.clone()));
        tasks.spawn("machine-deployment-watch", OnEnd::StopAll, self.deployments.run(stop.clone()));
        tasks.spawn("machine-class-watch", OnEnd::StopAll, self.classes.run(stop.clone()));
        tasks.spawn("machine-driver-watch", OnEnd::StopAll, self.drivers.run(stop.clone()));
        tasks.spawn("machine-secret-watch", OnEnd::StopAll, self.secrets.run(stop));
    }
}

fn deployment_of(set: &MachineSet, name: &ObjectName) -> Option<ObjectName> {
    let owner = owner(&set.metadata, "MachineDeployment")?;
    Some(ObjectName::new(&name.project, &owner.name))
}

/// Whether any driver for the class of a machine is active, as far as its resource says.
pub fn has_active(drivers: &View<Driver>, key: &crate::drivers::DriverKey) -> bool {
    drivers.all().iter().any(|(_, driver)| {
        let of = driver.spec.as_ref();
        let active = driver.status.as_ref().is_some_and(|status| status.state == "Active");
        let of = of.map(|it| (it.provider(), it.provider_version()));
        active && of == Some((key.kind.as_str(), key.api_version.as_str()))
    })
}
