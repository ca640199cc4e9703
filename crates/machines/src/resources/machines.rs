//! Machines in the hub: the world of the machine controller.
use super::joining::{Authority, Joining};
use super::nodes::{Found, Nodes};
use super::record;
use super::refs::{self, FORGET_ANNOTATION, MACHINE_FINALIZER, is_going, meta, reference, seconds};
use super::views::Views;
use super::{HubClock, freeze, ignore_gone, outcome, unavailable};
use crate::controller::machine::{MachineObject, MachineWorld};
use crate::controller::{self, Provider, WorldError};
use crate::drivers::{DriverKey, SecretRef, Target};
use crate::plan::Reason;
use crate::plan::machine::{Limits, NodeHealth, Phase, Record, Wanted};
use async_trait::async_trait;
use orrery_hub::events::{Happening, Recorder, Severity};
use orrery_hub::{ApplyOptions, Error, Hub, ObjectName, Precondition, Resources};
use orrery_proto::infra::v1::{Driver, Machine, MachineStatus};
use orrery_proto::meta::v1::{Condition, ObjectMeta};
use orrery_runtime::{LEASE_TTL, Next, Reconciler, View, conditions};
use std::sync::Arc;

/// Who tells of what happens to machines.
const SOURCE: &str = "machines";
/// Unless something nearer says otherwise.
const CREATION_SECONDS: u64 = 1200;
const HEALTH_SECONDS: u64 = 600;
const DRAIN_SECONDS: u64 = 300;

#[derive(Clone)]
pub struct Machines {
    hub: Hub,
    machines: Resources<Machine>,
    nodes: Nodes,
    joining: Joining,
    views: Arc<Views>,
    recorder: Recorder,
}

impl Machines {
    pub fn new(hub: &Hub, views: Arc<Views>, authority: Authority) -> Result<Self, Error> {
        Ok(Self {
            hub: hub.clone(),
            machines: hub.resources()?,
            nodes: Nodes::new(hub, views.clone())?,
            joining: Joining::new(hub, authority)?,
            recorder: Recorder::new(hub, SOURCE)?,
            views,
        })
    }

    fn limits(&self, project: &str, machine: &Machine) -> Limits {
        let set = self.views.set_of(project, machine);
        let deployment = set.as_ref().and_then(|set| self.views.deployment_of(project, set));
        let own = machine.spec.as_ref().and_then(|spec| spec.timeouts);
        let of_deployment = deployment.as_ref().and_then(|it| {
            it.spec.as_ref().and_then(|spec| spec.template.as_ref()).and_then(|it| it.timeouts)
        });
        let of_set = set.as_ref().and_then(|it| {
            it.spec.as_ref().and_then(|spec| spec.template.as_ref()).and_then(|it| it.timeouts)
        });
        let all = [&own, &of_deployment, &of_set];
        Limits {
            creation: seconds(&all, |it| it.creation_seconds, CREATION_SECONDS),
            health: seconds(&all, |it| it.health_seconds, HEALTH_SECONDS),
            drain: seconds(&all, |it| it.drain_seconds, DRAIN_SECONDS),
        }
    }

    fn frozen(&self, project: &str, machine: &Machine) -> bool {
        let set = self.views.set_of(project, machine);
        let deployment = set.as_ref().and_then(|set| self.views.deployment_of(project, set));
        freeze::is_frozen(&self.views.projects, project, set.as_deref(), deployment.as_deref())
    }

    /// The class that a machine is made from, as operations name it.
    fn target(&self, project: &str, machine: &Machine) -> Option<Target> {
        let spec = machine.spec.as_ref()?;
        let key = self.views.key_of(project, machine)?;
        let class = self.views.classes.get(&ObjectName::new(project, spec.class()));
        let latest = class.map_or(0, |class| meta(&class.metadata).generation);
        Some(Target {
            key,
            class: self.class_path(project, spec.class()),
            class_revision: spec.class_revision.unwrap_or(latest),
        })
    }

    fn class_path(&self, project: &str, class: &str) -> String {
        super::sources::class_path(self.hub.scheme(), project, class)
    }

    /// Differs when the class, its secret or the machine's own spec does.
    fn wanted_revision(&self, project: &str, machine: &Machine, target: &Target) -> i64 {
        let class = machine.spec.as_ref().map(|spec| spec.class()).unwrap_or_default();
        let class = self.views.classes.get(&ObjectName::new(project, class));
        let secret = class.as_ref().and_then(|class| class.spec.as_ref()?.secret.clone());
        let secret =
            secret.and_then(|name| self.views.secrets.get(&ObjectName::new(project, name)));
        let secret = secret.map_or(0, |it| super::sources::secret_revision(&it.metadata));
        let latest = class.map_or(0, |class| meta(&class.metadata).generation);
        meta(&machine.metadata)
            .generation
            .wrapping_add(target.class_revision)
            .wrapping_add(latest)
            .wrapping_add(secret)
    }

    async fn tell(&self, machine: &Machine, reasons: &[Reason]) {
        let regarding = reference(&machine.api_version, &machine.kind, meta(&machine.metadata));
        for reason in reasons {
            let happening = Happening {
                regarding: regarding.clone(),
                severity: severity(reason.code),
                reason: reason.code,
                message: reason.message.clone(),
            };
            self.recorder.record(happening).await;
        }
    }

    /// Writes a status if the machine is as it was read.
    async fn write(&self, machine: &Machine, status: MachineStatus) -> Result<(), Error> {
        let metadata = machine.metadata.clone();
        let precondition = Precondition::At(refs::revision(&metadata)?);
        let next = Machine { metadata, status: Some(status), ..Machine::default() };
        let object = orrery_api::Object::from_typed(self.machines.kind(), &next)
            .map_err(|error| Error::Internal(format!("cannot write a machine: {error}")))?;
        let options = ApplyOptions { precondition, ..ApplyOptions::status() };
        self.machines.accessor().apply(object, options).await.map(|_| ())
    }

    pub fn in_project<'a>(&'a self, project: &'a str) -> InProject<'a> {
        InProject { all: self, project }
    }
}

fn severity(code: &str) -> Severity {
    match code {
        "OperationFailed" | "CreationTimedOut" | "Unhealthy" | "NeverJoined" | "AgentLost"
        | "DrainTimedOut" => Severity::Warning,
        _ => Severity::Normal,
    }
}

/// The machines of one project.
pub struct InProject<'a> {
    all: &'a Machines,
    project: &'a str,
}

impl InProject<'_> {
    fn name(&self, name: &str) -> ObjectName {
        ObjectName::new(self.project, name)
    }

    async fn read(&self, name: &str) -> Result<Option<Machine>, WorldError> {
        self.all.machines.find(&self.name(name)).await.map_err(unavailable)
    }

    /// Claims the node of a machine once there is one.
    async fn link(&self, machine: &Machine) -> Result<Option<Found>, WorldError> {
        let started = machine.status.as_ref().is_some_and(|status| status.started);
        let Some(mut found) = self.all.nodes.find(machine).filter(|_| started) else {
            return Ok(None);
        };
        if !found.claimed {
            self.all.nodes.claim(&found.name, machine).await.map_err(unavailable)?;
            found.claimed = true;
        }
        Ok(Some(found))
    }

    /// What its agent joins with, for a machine that is to be made.
    async fn bootstrap(&self, machine: &Machine) -> Result<Option<SecretRef>, WorldError> {
        let made = machine.status.as_ref().is_some_and(|it| !it.provider_id.is_empty());
        if made || is_going(&machine.metadata) {
            return Ok(None);
        }
        self.all.joining.bootstrap(machine).await.map_err(unavailable)
    }

    fn status(&self, machine: &Machine, record: &Record) -> MachineStatus {
        let mut status = record::write(record, machine.status.clone().unwrap_or_default());
        if let Some(found) = self.all.nodes.find(machine).filter(|_| record.joined) {
            status.node = found.name;
        }
        let now = self.all.hub.clock().now();
        let ready = condition("Ready", record.phase == Phase::Running, status.phase.clone(), {
            record.last_operation.as_ref().map(|it| it.description.clone()).unwrap_or_default()
        });
        conditions::set(&mut status.conditions, ready, now);
        status
    }

    async fn set_condition(&self, name: &str, next: Condition) -> Result<(), WorldError> {
        let Some(machine) = self.read(name).await? else { return Ok(()) };
        let mut status = machine.status.clone().unwrap_or_default();
        let news = status
            .conditions
            .iter()
            .find(|it| it.r#type == next.r#type)
            .is_none_or(|old| (&old.status, &old.message) != (&next.status, &next.message));
        if !news {
            return Ok(());
        }
        if status.phase.is_empty() {
            record::phase_name(Phase::Pending).clone_into(&mut status.phase);
        }
        if next.status == "False" {
            let regarding = reference(&machine.api_version, &machine.kind, meta(&machine.metadata));
            let (severity, message) = (Severity::Warning, next.message.clone());
            let happening = Happening { regarding, severity, reason: "Waiting", message };
            self.all.recorder.record(happening).await;
        }
        conditions::set(&mut status.conditions, next, self.all.hub.clock().now());
        self.all.write(&machine, status).await.map_err(unavailable)
    }

    /// The machine waits for a class that is not there.
    async fn no_class(&self, name: &str, machine: &Machine) -> Result<(), WorldError> {
        let class = machine.spec.as_ref().map(|spec| spec.class()).unwrap_or_default();
        let message = format!("there is no machine class {class:?} in this project; create it");
        self.set_condition(name, condition("ClassFound", false, "NoClass".into(), message)).await
    }
}

/// Whether somebody has said that it may go without its driver.
fn is_let_go(machine: &Machine) -> bool {
    let said = meta(&machine.metadata).annotations.get(FORGET_ANNOTATION);
    said.is_some_and(|said| said == "true")
}

fn condition(r#type: &str, holds: bool, reason: String, message: String) -> Condition {
    Condition {
        r#type: r#type.to_owned(),
        status: if holds { "True" } else { "False" }.to_owned(),
        reason,
        message,
        ..Condition::default()
    }
}

#[async_trait]
impl MachineWorld for InProject<'_> {
    async fn machine(&self, name: &str) -> Result<Option<MachineObject>, WorldError> {
        let Some(machine) = self.read(name).await? else { return Ok(None) };
        let found = self.link(&machine).await?;
        let Some(target) = self.all.target(self.project, &machine) else {
            let started = machine.status.as_ref().is_some_and(|it| it.started);
            if is_going(&machine.metadata) && (!started || is_let_go(&machine)) {
                self.forget(name).await?;
            } else {
                self.no_class(name, &machine).await?;
            }
            return Ok(None);
        };
        let status = machine.status.clone().unwrap_or_default();
        let wanted = Wanted {
            limits: self.all.limits(self.project, &machine),
            delete: is_going(&machine.metadata),
            revision: self.all.wanted_revision(self.project, &machine, &target),
            frozen: self.all.frozen(self.project, &machine),
            forget: is_let_go(&machine),
        };
        Ok(Some(MachineObject {
            wanted,
            record: record::read(&status),
            record_version: u64::try_from(status.sequence).unwrap_or_default(),
            node: found.as_ref().map_or(NodeHealth::Absent, |found| found.health),
            drained: self.all.nodes.is_drained(found.as_ref()),
            target,
            uid: meta(&machine.metadata).uid.clone(),
            bootstrap: self.bootstrap(&machine).await?,
            trace_parent: String::new(),
        }))
    }

    async fn write_record(
        &self,
        name: &str,
        version: u64,
        record: &Record,
        reasons: &[Reason],
    ) -> Result<u64, WorldError> {
        loop {
            let conflict = || WorldError::Conflict(name.to_owned());
            let machine = self.read(name).await?.ok_or_else(conflict)?;
            let at = machine.status.as_ref().map_or(0, |status| status.sequence);
            if u64::try_from(at) != Ok(version) {
                return Err(conflict());
            }
            let mut status = self.status(&machine, record);
            let served = condition("DriverAvailable", true, "Registered".into(), String::new());
            let known = status.conditions.iter().any(|it| it.r#type == served.r#type);
            if known && record.last_operation.is_some() {
                conditions::set(&mut status.conditions, served, self.all.hub.clock().now());
            }
            match self.all.write(&machine, status).await {
                // Something else of the machine changed, not its record.
                Err(Error::Conflict { .. }) => tokio::task::yield_now().await,
                Err(error) => return Err(unavailable(error)),
                Ok(()) => {
                    self.all.tell(&machine, reasons).await;
                    return Ok(version + 1);
                }
            }
        }
    }

    async fn drain(&self, name: &str) -> Result<(), WorldError> {
        let Some(machine) = self.read(name).await? else { return Ok(()) };
        let Some(found) = self.all.nodes.find(&machine) else { return Ok(()) };
        self.all.nodes.drain(&found.name).await.map_err(unavailable)
    }

    async fn forget(&self, name: &str) -> Result<(), WorldError> {
        let Some(machine) = self.read(name).await? else { return Ok(()) };
        self.all.nodes.remove(&machine).await.map_err(unavailable)?;
        self.all.joining.forget(&machine).await.map_err(unavailable)?;
        let without = |meta: &mut ObjectMeta| meta.finalizers.retain(|it| it != MACHINE_FINALIZER);
        let released = self.all.machines.update_meta(&self.name(name), without).await;
        ignore_gone(released).map(|_| ()).map_err(unavailable)
    }

    async fn deletion_asked(&self, name: &str) {
        self.all.views.deletion_asked(&self.name(name)).await;
    }

    async fn no_driver(&self, name: &str, key: &DriverKey, going: bool) -> Result<(), WorldError> {
        let else_do = match going {
            false => "or correct spec.provider of the class".to_owned(),
            true => format!(
                "or let go of what its provider may still have: orrery annotate machine {name} \
                 {FORGET_ANNOTATION}=true"
            ),
        };
        let message = format!("no driver for {key} is registered; start one, {else_do}");
        let waiting = condition("DriverAvailable", false, "NoDriver".into(), message);
        self.set_condition(name, waiting).await
    }
}

/// Takes care of machines, one at a time.
pub struct MachineReconciler {
    machines: Machines,
    provider: Arc<dyn Provider>,
    /// Leaves out machines of kinds that a server speaks for; these are the drivers.
    only_unserved: Option<Arc<View<Driver>>>,
}

impl MachineReconciler {
    /// For the machines of drivers that are connected here.
    pub fn served(machines: Machines, provider: Arc<dyn Provider>) -> Self {
        Self { machines, provider, only_unserved: None }
    }

    /// For the machines that no driver serves.
    pub fn unserved(
        machines: Machines,
        nobody: Arc<dyn Provider>,
        drivers: Arc<View<Driver>>,
    ) -> Self {
        Self { machines, provider: nobody, only_unserved: Some(drivers) }
    }

    /// When to look again, if a server speaks for the driver of this machine.
    async fn served_until(
        &self,
        key: &ObjectName,
        drivers: &View<Driver>,
    ) -> Result<Option<Next>, Error> {
        let views = &self.machines.views;
        let Some(machine) = views.machines.get(key) else { return Ok(Some(Next::AwaitChange)) };
        let Some(driver) = views.key_of(&key.project, &machine) else { return Ok(None) };
        if super::leader::has_active(drivers, &driver) {
            return Ok(Some(Next::AwaitChange));
        }
        // Its lease ends a moment after the driver does.
        let held = self.machines.hub.is_held(&refs::lease_name(&driver)).await?;
        Ok(held.then_some(Next::After(LEASE_TTL)))
    }
}

#[async_trait]
impl Reconciler<ObjectName> for MachineReconciler {
    type Error = WorldError;

    async fn reconcile(&self, key: &ObjectName) -> Result<Next, WorldError> {
        if let Some(drivers) = &self.only_unserved
            && let Some(next) = self.served_until(key, drivers).await.map_err(unavailable)?
        {
            return Ok(next);
        }
        let world = self.machines.in_project(&key.project);
        let clock = HubClock(self.machines.hub.clock().clone());
        let provider = &*self.provider;
        outcome(controller::machine::reconcile(&world, provider, &clock, &key.name).await)
    }
}

/// The provider of those who have none.
pub struct Nobody;

#[async_trait]
impl Provider for Nobody {
    fn serves(&self, _: &DriverKey) -> bool {
        false
    }

    async fn create(
        &self,
        target: &Target,
        _: &crate::drivers::MachineArgs,
        _: &crate::drivers::Call,
    ) -> Result<crate::drivers::Created, crate::drivers::OpError> {
        Err(nobody(target))
    }

    async fn delete(
        &self,
        target: &Target,
        _: &crate::drivers::MachineArgs,
        _: &crate::drivers::Call,
    ) -> Result<(), crate::drivers::OpError> {
        Err(nobody(target))
    }

    async fn list(
        &self,
        target: &Target,
        _: &crate::drivers::MachineArgs,
        _: &crate::drivers::Call,
    ) -> Result<Vec<crate::drivers::Found>, crate::drivers::OpError> {
        Err(nobody(target))
    }
}

fn nobody(target: &Target) -> crate::drivers::OpError {
    crate::drivers::OpError::NoDriver { key: target.key.clone() }
}
