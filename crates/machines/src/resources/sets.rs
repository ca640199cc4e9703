//! Sets in the hub: the world of the set controller.
use super::refs::{clip, is_going, meta, named, owned_by, owner, reference, revision};
use super::steps::{Step, Steps};
use super::{freeze, ignore_gone, outcome, record, unavailable};
use crate::controller::set::{SetObject, SetWorld};
use crate::controller::{self, WorldError};
use crate::plan::set::{MachineView, SetPlan, SetSpec};
use crate::plan::{Bound, Phase, Reason, Time, elapsed};
use async_trait::async_trait;
use orrery_api::Object;
use orrery_hub::events::{Happening, Recorder, Severity};
use orrery_hub::{ApplyOptions, Error, Hub, ObjectName, Precondition, Resources};
use orrery_proto::core::v1::Project;
use orrery_proto::infra::v1::{
    Machine, MachineClass, MachineDeployment, MachineSet, MachineSetStatus, MachineSpec,
};
use orrery_proto::meta::v1::{Condition, ObjectMeta};
use orrery_runtime::writes::{self, Write};
use orrery_runtime::{Next, Reconciler, View, conditions};
use rand::Rng as _;
use std::sync::Arc;
use std::time::Duration;

/// On machines and nodes: the set and the deployment that they belong to.
const SET_LABEL: &str = "machines.orrery.dev/set";
const DEPLOYMENT_LABEL: &str = "machines.orrery.dev/deployment";
/// Room for an ending of our own in a name of at most 63 characters.
const NAME_BYTES: usize = 56;
/// Enough that two machines of a set rarely draw the same; if they do, the commit is refused.
const SUFFIX_CHARS: usize = 5;
/// Without vowels: no words.
const SUFFIX_ALPHABET: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";

/// What the leader's own watches have told. Plans are made from these alone: whoever is told of a change
/// by one watch must not look for it in the view of another.
#[derive(Clone)]
pub struct LeaderViews {
    /// By the identity of their set.
    pub machines: Arc<View<Machine>>,
    /// By the identity of their deployment.
    pub sets: Arc<View<MachineSet>>,
    pub deployments: Arc<View<MachineDeployment>>,
    pub classes: Arc<View<MachineClass>>,
    /// Kept by the server's own watches, which tell of a project's freeze switch.
    pub projects: Arc<View<Project>>,
    pub steps: Steps,
}

impl LeaderViews {
    /// The deployment that a set belongs to.
    pub fn deployment_of(&self, project: &str, set: &MachineSet) -> Option<Arc<MachineDeployment>> {
        let owner = owner(&set.metadata, "MachineDeployment")?;
        let deployment = self.deployments.get(&ObjectName::new(project, &owner.name))?;
        (meta(&deployment.metadata).uid == owner.uid).then_some(deployment)
    }

    /// The machines of a set, as plans see them. `min_ready` is how long one must run to count.
    pub fn machines_of(
        &self,
        set: &MachineSet,
        now: Time,
        min_ready: Duration,
    ) -> Vec<MachineView> {
        let machines = self.machines.indexed(&meta(&set.metadata).uid);
        machines.iter().map(|(name, machine)| view(name, machine, now, min_ready)).collect()
    }
}

/// The index key of a machine: its set.
pub fn by_set(_: &ObjectName, machine: &Machine) -> Option<String> {
    owner(&machine.metadata, "MachineSet").map(|owner| owner.uid.clone())
}

fn view(name: &ObjectName, machine: &Machine, now: Time, min_ready: Duration) -> MachineView {
    let (metadata, spec) = (meta(&machine.metadata), machine.spec.clone().unwrap_or_default());
    let status = machine.status.as_ref();
    let phase = status.map_or(Phase::Pending, |status| record::phase_of(&status.phase));
    let since = status.and_then(|status| status.phase_since).map_or(now, record::time);
    MachineView {
        name: name.name.clone(),
        phase,
        available: phase == Phase::Running && min_ready <= elapsed(now, since),
        created_at: metadata.creation_timestamp.map_or(now, record::time),
        marked: spec.delete_first(),
        keep: spec.keep_failed(),
        deleting: metadata.deletion_timestamp.is_some(),
    }
}

#[derive(Clone)]
pub struct SetReconciler {
    hub: Hub,
    sets: Resources<MachineSet>,
    machines: Resources<Machine>,
    views: LeaderViews,
    recorder: Recorder,
}

impl SetReconciler {
    pub fn new(hub: &Hub, views: LeaderViews) -> Result<Self, Error> {
        Ok(Self {
            hub: hub.clone(),
            sets: hub.resources()?,
            machines: hub.resources()?,
            recorder: Recorder::new(hub, "machine-sets")?,
            views,
        })
    }

    fn now(&self) -> Time {
        record::time(self.hub.clock().now())
    }
}

#[async_trait]
impl Reconciler<ObjectName> for SetReconciler {
    type Error = WorldError;

    async fn reconcile(&self, key: &ObjectName) -> Result<Next, WorldError> {
        let Some(set) = self.views.sets.get(key) else {
            self.views.steps.forget(key);
            return Ok(Next::AwaitChange);
        };
        if is_going(&set.metadata) {
            return Ok(Next::AwaitChange);
        }
        let one = OneSet { all: self, name: key, set };
        let next = controller::set::reconcile(&one, &key.name).await;
        if next == Ok(controller::Next::AwaitChange) {
            return outcome(one.publish().await.map(|()| controller::Next::AwaitChange));
        }
        outcome(next)
    }
}

/// One set, as it is planned from.
struct OneSet<'a> {
    all: &'a SetReconciler,
    name: &'a ObjectName,
    set: Arc<MachineSet>,
}

impl OneSet<'_> {
    fn machines(&self) -> Vec<MachineView> {
        self.all.views.machines_of(&self.set, self.all.now(), Duration::ZERO)
    }

    fn spec(&self) -> SetSpec {
        let spec = self.set.spec.clone().unwrap_or_default();
        let deployment = self.all.views.deployment_of(&self.name.project, &self.set);
        let of_deployment =
            deployment.as_ref().and_then(|it| it.spec.as_ref()?.max_unhealthy.clone());
        let bound = of_deployment.or(spec.max_unhealthy.clone()).and_then(|it| it.parse().ok());
        SetSpec {
            replicas: u32::try_from(spec.replicas()).unwrap_or_default(),
            ceiling: spec.ceiling.and_then(|ceiling| u32::try_from(ceiling).ok()),
            max_replaced: bound.unwrap_or(Bound::Count(1)),
            frozen: freeze::is_frozen(
                &self.all.views.projects,
                &self.name.project,
                Some(&self.set),
                deployment.as_deref(),
            ),
        }
    }

    /// A machine of this set.
    fn machine(&self) -> Machine {
        let template = self.set.spec.clone().unwrap_or_default().template.unwrap_or_default();
        let mut labels = template.labels.clone();
        labels.insert(SET_LABEL.to_owned(), self.name.name.clone());
        if let Some(owner) = owner(&self.set.metadata, "MachineDeployment") {
            labels.insert(DEPLOYMENT_LABEL.to_owned(), owner.name.clone());
        }
        let own = meta(&self.set.metadata);
        let metadata = ObjectMeta {
            name: format!("{}-{}", clip(&self.name.name, NAME_BYTES), suffix()),
            project: self.name.project.clone(),
            owner_references: vec![owned_by(&self.set.api_version, &self.set.kind, own)],
            labels,
            ..ObjectMeta::default()
        };
        let spec = MachineSpec {
            class: template.class,
            class_revision: template.class_revision,
            keep_failed: template.keep_failed,
            ..MachineSpec::default()
        };
        Machine { metadata: Some(metadata), spec: Some(spec), ..Machine::default() }
    }

    fn status(&self, plan: &SetPlan) -> MachineSetStatus {
        let machines = self.machines();
        let mut status = self.set.status.clone().unwrap_or_default();
        let count = |number: usize| i32::try_from(number).unwrap_or(i32::MAX);
        status.machines = count(machines.len());
        status.available = count(machines.iter().filter(|it| it.available).count());
        status.observed_generation = meta(&self.set.metadata).generation;
        let hindered = plan.reasons.first();
        let going_on = Condition {
            r#type: "Progressing".to_owned(),
            status: if hindered.is_none() { "True" } else { "False" }.to_owned(),
            reason: hindered.map_or("AsPlanned", |reason| reason.code).to_owned(),
            message: hindered.map(|reason| reason.message.clone()).unwrap_or_default(),
            ..Condition::default()
        };
        conditions::set(&mut status.conditions, going_on, self.all.hub.clock().now());
        status
    }

    async fn write(&self, status: MachineSetStatus) -> Result<(), Error> {
        let precondition = Precondition::At(revision(&self.set.metadata)?);
        let next = MachineSet {
            metadata: named(self.name),
            status: Some(status),
            ..MachineSet::default()
        };
        let object = object(&self.all.sets, &next)?;
        let options = ApplyOptions { precondition, ..ApplyOptions::status() };
        self.all.sets.accessor().apply(object, options).await.map(|_| ())
    }

    /// Writes how many there are, if that is news.
    async fn publish(&self) -> Result<(), WorldError> {
        let plan = crate::plan::set::plan(&self.spec(), &self.machines());
        let status = self.status(&plan);
        if self.set.status.as_ref() == Some(&status) {
            return Ok(());
        }
        self.write(status).await.map_err(unavailable)
    }

    /// What a plan writes, machine by machine.
    fn writes(&self, plan: &SetPlan) -> Vec<(ObjectName, Write<Machine>)> {
        let project = &self.name.project;
        let create = (0..plan.create).map(|_| {
            let machine = self.machine();
            let name = ObjectName::new(project, &meta(&machine.metadata).name);
            (name, Write::Apply(machine, ApplyOptions::create()))
        });
        let delete = plan.delete.iter().map(|(name, _)| {
            let name = ObjectName::new(project, name);
            (name.clone(), Write::Delete(name))
        });
        create.chain(delete).collect()
    }

    /// Touches the set, which holds only if it still is what the plan was made from; then every machine for
    /// itself, so that each has a revision of its own. Who is interrupted in between is planned for anew from
    /// what there is: nobody else plans for this set, see [`Steps`].
    async fn carry_out(&self, plan: &SetPlan) -> Result<(), Error> {
        let mut status = self.status(plan);
        status.steps += 1;
        let (names, writes): (Vec<_>, Vec<_>) = self.writes(plan).into_iter().unzip();
        let creates = plan.create;
        let step = Step {
            revision: None,
            created: names[..creates].to_vec(),
            deleted: names[creates..].to_vec(),
        };
        // Before the set has its new version: whoever plans from that must wait for the machines.
        self.all.views.steps.begin(self.name, step);
        if let Err(error) = self.write(status).await {
            self.all.views.steps.forget(self.name);
            return Err(error);
        }
        let outcomes = writes::all(&self.all.machines, &writes).await;
        let done = |name: &ObjectName| {
            let at = names.iter().position(|known| known == name);
            at.is_some_and(|at| outcomes[at].is_ok())
        };
        // All that was written is not after what the store has reached by now.
        self.all.views.steps.end(self.name, self.all.hub.store().revision(), done);
        for outcome in outcomes {
            ignore_gone(outcome)?;
        }
        Ok(())
    }

    async fn tell(&self, plan: &SetPlan) {
        for (name, reason) in &plan.delete {
            let name = ObjectName::new(&self.name.project, name);
            let Some(machine) = self.all.views.machines.get(&name) else { continue };
            let metadata = meta(&machine.metadata);
            let happening = happening(&machine.api_version, &machine.kind, metadata, reason);
            self.all.recorder.record(happening).await;
        }
        if plan.create > 0 {
            let (own, count) = (meta(&self.set.metadata), plan.create);
            let reason = Reason::new("Created", format!("{count} machines were missing"));
            let happening = happening(&self.set.api_version, &self.set.kind, own, &reason);
            self.all.recorder.record(happening).await;
        }
    }
}

pub fn happening(
    api_version: &str,
    kind: &str,
    metadata: &ObjectMeta,
    reason: &Reason,
) -> Happening {
    Happening {
        regarding: reference(api_version, kind, metadata),
        severity: Severity::Normal,
        reason: reason.code,
        message: reason.message.clone(),
    }
}

pub fn object<T: prost::Message + prost::Name + Default>(
    resources: &Resources<T>,
    value: &T,
) -> Result<Object, Error> {
    Object::from_typed(resources.kind(), value)
        .map_err(|error| Error::Internal(format!("cannot write {}: {error}", T::NAME)))
}

fn suffix() -> String {
    let mut random = rand::rng();
    let mut one = || char::from(SUFFIX_ALPHABET[random.random_range(0..SUFFIX_ALPHABET.len())]);
    (0..SUFFIX_CHARS).map(|_| one()).collect()
}

#[async_trait]
impl SetWorld for OneSet<'_> {
    async fn set(&self, name: &str) -> Result<Option<SetObject>, WorldError> {
        if !self.all.views.steps.is_shown(self.name, &self.all.views.machines) {
            return Err(WorldError::Conflict(name.to_owned()));
        }
        let version = revision(&self.set.metadata).map_err(unavailable)?.0;
        Ok(Some(SetObject { version, spec: self.spec(), machines: self.machines() }))
    }

    async fn commit(&self, _: &str, _: u64, plan: &SetPlan) -> Result<(), WorldError> {
        self.carry_out(plan).await.map_err(unavailable)?;
        self.tell(plan).await;
        Ok(())
    }
}
