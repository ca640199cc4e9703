//! Deployments in the hub: the world of the deployment controller.
mod object;
mod rollback;

use super::refs::{class_key, clip, is_going, meta, named, owned_by, revision, short_hash};
use super::sets::{LeaderViews, happening, object as stored};
use super::{freeze, outcome, record, unavailable};
use crate::controller::deployment::{DeploymentObject, DeploymentWorld};
use crate::controller::{self, WorldError};
use crate::plan::deployment::{
    DeploymentPlan, DeploymentSpec, NewSet, Progress, SetChange, SetView,
};
use crate::plan::{Bound, Phase, Reason, Time};
use async_trait::async_trait;
use object::{Wanted, hash_of, status_of};
use orrery_api::{Object, ObjectError, Value};
use orrery_hub::events::Recorder;
use orrery_hub::{
    ApplyOptions, Batch, DeleteOptions, Error, Hub, ObjectName, Precondition, Resources,
};
use orrery_proto::infra::v1::{
    MachineDeployment, MachineDeploymentSpec, MachineSet, MachineSetSpec,
};
use orrery_proto::meta::v1::ObjectMeta;
use orrery_runtime::{Next, Reconciler};
use std::sync::Arc;
use std::time::Duration;

/// Room for a hash and the ending of a machine's name.
const NAME_BYTES: usize = 44;

#[derive(Clone)]
pub struct DeploymentReconciler {
    hub: Hub,
    deployments: Resources<MachineDeployment>,
    sets: Resources<MachineSet>,
    views: LeaderViews,
    recorder: Recorder,
}

impl DeploymentReconciler {
    pub fn new(hub: &Hub, views: LeaderViews) -> Result<Self, Error> {
        Ok(Self {
            hub: hub.clone(),
            deployments: hub.resources()?,
            sets: hub.resources()?,
            recorder: Recorder::new(hub, "machine-deployments")?,
            views,
        })
    }

    fn now(&self) -> Time {
        record::time(self.hub.clock().now())
    }

    async fn tell(&self, of: &MachineDeployment, reason: &Reason) {
        let happening = happening(&of.api_version, &of.kind, meta(&of.metadata), reason);
        self.recorder.record(happening).await;
    }
}

#[async_trait]
impl Reconciler<ObjectName> for DeploymentReconciler {
    type Error = WorldError;

    async fn reconcile(&self, key: &ObjectName) -> Result<Next, WorldError> {
        let Some(deployment) = self.views.deployments.get(key) else {
            return Ok(Next::AwaitChange);
        };
        if is_going(&deployment.metadata) {
            return Ok(Next::AwaitChange);
        }
        let sets = self.views.sets.indexed(&meta(&deployment.metadata).uid);
        let one = OneDeployment { all: self, name: key, deployment, sets };
        if one.spec().rollback_to.is_some() {
            return outcome(one.roll_back().await);
        }
        let next = controller::deployment::reconcile(&one, &key.name).await;
        match (&next, one.next_available()) {
            (Ok(controller::Next::AwaitChange), Some(wait)) => Ok(Next::After(wait)),
            (_, _) => outcome(next),
        }
    }
}

/// One deployment with its sets, as it is planned from.
struct OneDeployment<'a> {
    all: &'a DeploymentReconciler,
    name: &'a ObjectName,
    deployment: Arc<MachineDeployment>,
    sets: Vec<(ObjectName, Arc<MachineSet>)>,
}

impl OneDeployment<'_> {
    fn spec(&self) -> MachineDeploymentSpec {
        self.deployment.spec.clone().unwrap_or_default()
    }

    fn min_ready(&self) -> Duration {
        Duration::from_secs(u64::try_from(self.spec().min_ready_seconds()).unwrap_or_default())
    }

    fn set_views(&self) -> Vec<SetView> {
        let (now, min_ready) = (self.all.now(), self.min_ready());
        let mk = |(name, set): &(ObjectName, Arc<MachineSet>)| {
            let spec = set.spec.clone().unwrap_or_default();
            let count = |number: i32| u32::try_from(number).unwrap_or_default();
            SetView {
                name: name.name.clone(),
                hash: spec.hash().to_owned(),
                revision: u64::try_from(spec.revision()).unwrap_or_default(),
                replicas: count(spec.replicas()),
                ceiling: count(spec.ceiling()),
                machines: self.all.views.machines_of(set, now, min_ready),
            }
        };
        self.sets.iter().map(mk).collect()
    }

    /// When the next running machine has been running for long enough.
    fn next_available(&self) -> Option<Duration> {
        let min_ready = self.min_ready();
        let mut machines = self.set_views().into_iter().flat_map(|set| set.machines);
        let waits = machines.any(|it| it.phase == Phase::Running && !it.available && !it.deleting);
        (waits && !min_ready.is_zero()).then(|| min_ready.min(Duration::from_secs(1)))
    }

    /// What the machines should be made from now, or why that cannot be said.
    fn wanted(&self) -> Result<Wanted, Reason> {
        let template = self.spec().template.unwrap_or_default();
        if let Some(pinned) = template.class_revision {
            let fits = |set: &MachineSet| {
                let of = set.spec.as_ref().and_then(|spec| spec.template.as_ref());
                of.is_some_and(|of| {
                    (of.class(), of.class_revision) == (template.class(), Some(pinned))
                        && of.labels == template.labels
                })
            };
            if let Some((_, set)) = self.sets.iter().find(|(_, set)| fits(set)) {
                let spec = set.spec.clone().unwrap_or_default();
                let snapshot = spec.class_snapshot.clone().unwrap_or_default();
                let hash = spec.hash().to_owned();
                return Ok(Wanted { hash, class_revision: pinned, snapshot, pinned: true });
            }
        }
        let name = ObjectName::new(&self.name.project, template.class());
        let Some(class) = self.all.views.classes.get(&name) else {
            let text = format!("there is no machine class {:?} in this project", template.class());
            return Err(Reason::new("NoClass", text));
        };
        let latest = meta(&class.metadata).generation;
        if let Some(pinned) = template.class_revision.filter(|pinned| *pinned != latest) {
            let text = format!(
                "revision {pinned} of class {:?} is not known any more; it is at {latest}",
                template.class()
            );
            return Err(Reason::new("NoSuchRevision", text));
        }
        Ok(Wanted {
            hash: hash_of(&meta(&class.metadata).uid, latest, &template),
            class_revision: latest,
            snapshot: class.spec.clone().unwrap_or_default(),
            pinned: template.class_revision.is_some(),
        })
    }

    fn plan_spec(&self, hash: &str) -> DeploymentSpec {
        let spec = self.spec();
        let bound = |text: &str, otherwise| text.parse().unwrap_or(Bound::Count(otherwise));
        DeploymentSpec {
            replicas: u32::try_from(spec.replicas()).unwrap_or_default(),
            max_surge: bound(spec.max_surge(), 1),
            max_unavailable: bound(spec.max_unavailable(), 0),
            paused: spec.paused(),
            frozen: freeze::is_frozen(
                &self.all.views.projects,
                &self.name.project,
                None,
                Some(&self.deployment),
            ),
            hash: hash.to_owned(),
            history_limit: usize::try_from(spec.history_limit()).unwrap_or_default(),
        }
    }

    /// Writes the status; in a batch with everything else, or alone.
    async fn write_status(
        &self,
        progress: Progress,
        wanted: &Result<Wanted, Reason>,
        batch: Option<Batch>,
    ) -> Result<(), Error> {
        let status = status_of(&self.deployment, progress, wanted, self.frozen(), self.clock());
        if batch.is_none() && self.deployment.status.as_ref() == Some(&status) {
            return Ok(());
        }
        let precondition = Precondition::At(revision(&self.deployment.metadata)?);
        let next = MachineDeployment {
            metadata: named(self.name),
            status: Some(status),
            ..MachineDeployment::default()
        };
        let options = ApplyOptions { precondition, batch, ..ApplyOptions::status() };
        let next = stored(&self.all.deployments, &next)?;
        self.all.deployments.accessor().apply(next, options).await.map(|_| ())
    }

    fn frozen(&self) -> bool {
        self.plan_spec("").frozen
    }

    fn clock(&self) -> prost_types::Timestamp {
        self.all.hub.clock().now()
    }

    /// Adds every set to the batch as it is: the commit holds only if the plan was made from all of them.
    async fn hold_sets(&self, batch: &Batch) -> Result<(), Error> {
        for (name, set) in &self.sets {
            let at = revision(&set.metadata)?;
            let object = self.all.sets.accessor().get(name.clone().into()).await?;
            let options =
                ApplyOptions { batch: Some(batch.clone()), ..ApplyOptions::replace_at(at) };
            self.all.sets.accessor().apply(object, options).await?;
        }
        Ok(())
    }

    /// Changes the sets one by one, those that give room before those that take it.
    async fn change_sets(&self, plan: &DeploymentPlan) -> Result<(), Error> {
        let set = |name: &str| self.sets.iter().find(|(known, _)| known.name == name);
        for (name, set) in plan.remove.iter().filter_map(|name| set(name)) {
            let revision = Some(revision(&set.metadata)?);
            let options =
                DeleteOptions { name: name.clone(), revision, ..DeleteOptions::default() };
            self.all.sets.accessor().delete(options).await?;
        }
        for change in in_order(&plan.change, &self.set_views()) {
            let Some((name, set)) = set(&change.name) else { continue };
            let at = revision(&set.metadata)?;
            let mut object = self.all.sets.accessor().get(name.clone().into()).await?;
            let unfit = |error: ObjectError| Error::Internal(format!("{name:?}: {error}"));
            apply_change(&mut object, change).map_err(unfit)?;
            self.all.sets.accessor().apply(object, ApplyOptions::replace_at(at)).await?;
        }
        Ok(())
    }

    async fn create_set(&self, new: &NewSet, wanted: &Wanted) -> Result<(), Error> {
        let spec = self.spec();
        let own = meta(&self.deployment.metadata);
        let mut template = spec.template.clone().unwrap_or_default();
        template.class_revision = Some(wanted.class_revision);
        // Time-outs are read from the deployment, where they can be changed for all its sets.
        template.timeouts = None;
        let owner = owned_by(&self.deployment.api_version, &self.deployment.kind, own);
        let metadata = ObjectMeta {
            name: format!("{}-{}", clip(&self.name.name, NAME_BYTES), new.hash),
            project: self.name.project.clone(),
            labels: template.labels.clone(),
            owner_references: vec![owner],
            ..ObjectMeta::default()
        };
        let count = |number: u32| i32::try_from(number).unwrap_or(i32::MAX);
        let set = MachineSetSpec {
            replicas: Some(count(new.replicas)),
            ceiling: Some(count(new.ceiling)),
            revision: i64::try_from(new.revision).ok(),
            hash: Some(new.hash.clone()),
            max_unhealthy: spec.max_unhealthy.clone(),
            class_snapshot: Some(wanted.snapshot.clone()),
            template: Some(template),
            ..MachineSetSpec::default()
        };
        let set = MachineSet { metadata: Some(metadata), spec: Some(set), ..MachineSet::default() };
        let set = stored(&self.all.sets, &set)?;
        self.all.sets.accessor().apply(set, ApplyOptions::create()).await.map(|_| ())
    }

    /// Publishes the progress, in a commit that holds only if the deployment and all its sets still are what
    /// the plan was made from; then writes set by set, so that each has a revision of its own. What an
    /// interruption leaves is within the bounds, and is planned for anew.
    async fn carry_out(&self, plan: &DeploymentPlan) -> Result<(), Error> {
        let (wanted, batch) = (self.wanted(), Batch::new());
        self.hold_sets(&batch).await?;
        self.write_status(plan.progress, &wanted, Some(batch.clone())).await?;
        self.all.hub.commit(batch).await?;
        self.change_sets(plan).await?;
        if let (Some(new), Ok(wanted)) = (&plan.create, &wanted) {
            self.create_set(new, wanted).await?;
        }
        self.tell(plan, &wanted).await;
        Ok(())
    }

    async fn tell(&self, plan: &DeploymentPlan, wanted: &Result<Wanted, Reason>) {
        if let (Some(new), Ok(wanted)) = (&plan.create, wanted) {
            let (revision, class) = (new.revision, wanted.class_revision);
            let provider = class_key(&wanted.snapshot);
            let text = format!("revision {revision}: class revision {class}, made by {provider}");
            self.all.tell(&self.deployment, &Reason::new("NewRevision", text)).await;
        }
        for change in &plan.change {
            if let Some(reason) = &change.reason {
                let (name, replicas) = (&change.name, change.replicas);
                let text = format!("set {name} to {replicas}: {}", reason.message);
                self.all.tell(&self.deployment, &Reason::new(reason.code, text)).await;
            }
        }
    }
}

/// The changes in the order in which they are made: at no moment may more machines exist than before and after.
fn in_order<'a>(changes: &'a [SetChange], sets: &[SetView]) -> Vec<&'a SetChange> {
    let grows = |change: &&SetChange| {
        let set = sets.iter().find(|set| set.name == change.name);
        set.is_some_and(|set| set.ceiling < change.ceiling || set.replicas < change.replicas)
    };
    let mut ordered: Vec<_> = changes.iter().collect();
    ordered.sort_by_key(grows);
    ordered
}

/// Changes only what a deployment decides, so that what a newer server wrote stays.
fn apply_change(object: &mut Object, change: &SetChange) -> Result<(), ObjectError> {
    let count = |number: u32| Value::I32(i32::try_from(number).unwrap_or(i32::MAX));
    let revision = i64::try_from(change.revision).unwrap_or(i64::MAX);
    object.set_at("spec.replicas", count(change.replicas))?;
    object.set_at("spec.ceiling", count(change.ceiling))?;
    object.set_at("spec.revision", Value::I64(revision))
}

#[async_trait]
impl DeploymentWorld for OneDeployment<'_> {
    async fn deployment(&self, name: &str) -> Result<Option<DeploymentObject>, WorldError> {
        let steps = &self.all.views.steps;
        let behind = |(set, _): &(ObjectName, _)| !steps.is_shown(set, &self.all.views.machines);
        if self.sets.iter().any(behind) {
            return Err(WorldError::Conflict(name.to_owned()));
        }
        let (wanted, sets) = (self.wanted(), self.set_views());
        let hash = match &wanted {
            Ok(wanted) => wanted.hash.as_str(),
            Err(_) => {
                let progress = Progress::default();
                self.write_status(progress, &wanted, None).await.map_err(unavailable)?;
                return Ok(None);
            }
        };
        let spec = self.plan_spec(hash);
        let planned = crate::plan::deployment::plan(&spec, &sets).progress;
        let status = status_of(&self.deployment, planned, &wanted, spec.frozen, self.clock());
        let published = self.deployment.status.as_ref() == Some(&status);
        Ok(Some(DeploymentObject {
            version: revision(&self.deployment.metadata).map_err(unavailable)?.0,
            spec,
            sets,
            progress: published.then_some(planned),
        }))
    }

    async fn commit(&self, _: &str, _: u64, plan: &DeploymentPlan) -> Result<(), WorldError> {
        self.carry_out(plan).await.map_err(unavailable)
    }
}
