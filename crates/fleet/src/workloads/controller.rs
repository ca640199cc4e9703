//! The workload controller: asks the plan and does what it says.
use super::drain::Told;
use super::files::{self, FileUsers, revision};
use super::graph::Graph;
use super::ledger::Ledger;
use super::placement::{Amounts, Seat};
use super::plan::Surroundings;
use super::volumes::{anchors, registered};
use super::{AGENT_FINALIZER, INSTANCES_FINALIZER, plan, summary};
use async_trait::async_trait;
use orrery_hub::artifacts::Artifacts;
use orrery_hub::{ApplyOptions, Clock, Error, Hub, ObjectName, Precondition, Resources};
use orrery_proto::apps::v1::{Workload, WorkloadInstance};
use orrery_proto::core::v1::{Project, Secret};
use orrery_proto::infra::v1::Node;
use orrery_proto::meta::v1::ObjectMeta;
use orrery_proto::storage::v1::{StorageController, Volume};
use orrery_runtime::writes::{self, Write};
use orrery_runtime::{Next, Pace, Reconciler, View};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tokio::time::Instant;

/// How often the sum of the copies is told at most, and how often at once: a workload that begins
/// says so at each step, and one with a thousand copies is summed up once for many of their changes.
const SUMMARY_EVERY: Duration = Duration::from_millis(250);
const SUMMARIES_AT_ONCE: u32 = 4;

/// How long the first words about new copies are left to their agents: a workload that starts at once
/// is summed up once.
pub(super) const FIRST_WORDS: Duration = Duration::from_millis(250);

/// What the watches of the fleet have told.
#[derive(Clone)]
pub struct Views {
    pub workloads: Arc<View<Workload>>,
    pub instances: Arc<View<WorkloadInstance>>,
    pub nodes: Arc<View<Node>>,
    pub secrets: Arc<View<Secret>>,
    pub volumes: Arc<View<Volume>>,
    pub controllers: Arc<View<StorageController>>,
    pub graph: Arc<Graph>,
    pub ledger: Arc<Ledger>,
    pub file_users: Arc<FileUsers>,
    pub under_way: UnderWay,
}

/// How many workloads are being looked at.
#[derive(Clone, Debug, Default)]
pub struct UnderWay(Arc<AtomicUsize>);

/// One of them, until it is dropped.
struct Look(UnderWay);

impl UnderWay {
    pub fn count(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }

    fn begin(&self) -> Look {
        self.0.fetch_add(1, Ordering::Relaxed);
        Look(self.clone())
    }
}

impl Drop for Look {
    fn drop(&mut self) {
        self.0.0.fetch_sub(1, Ordering::Relaxed);
    }
}

pub struct WorkloadReconciler {
    workloads: Resources<Workload>,
    instances: Resources<WorkloadInstance>,
    projects: Resources<Project>,
    secrets: Resources<Secret>,
    views: Views,
    told: Told,
    artifacts: Artifacts,
    clock: Arc<dyn Clock>,
    pace: Pace<ObjectName>,
}

impl WorkloadReconciler {
    pub fn new(hub: &Hub, views: Views) -> Result<Self, Error> {
        Ok(Self {
            workloads: hub.resources()?,
            instances: hub.resources()?,
            projects: hub.resources()?,
            secrets: hub.resources()?,
            views,
            told: Told::default(),
            artifacts: Artifacts::new(hub.clone()),
            clock: hub.clock().clone(),
            pace: Pace::new(SUMMARY_EVERY, SUMMARIES_AT_ONCE),
        })
    }

    fn copies(&self, key: &ObjectName) -> Vec<WorkloadInstance> {
        let copies = self.views.instances.indexed(&key.to_string()).into_iter();
        let mut copies: Vec<_> =
            copies.map(|(_, instance)| WorkloadInstance::clone(&instance)).collect();
        self.told.mark(key, &mut copies, self.clock.now());
        copies
    }

    async fn surroundings(
        &self,
        key: &ObjectName,
        workload: &Workload,
        copies: &[WorkloadInstance],
    ) -> Result<Surroundings, Error> {
        let cycle = self.views.graph.cycle(key);
        // In a circle nobody can go first.
        let held = deleting(&workload.metadata) && cycle.is_none();
        let goes_first = if held { self.goes_first(key).await? } else { None };
        let files = workload.spec.as_ref().map(|spec| spec.files.as_slice()).unwrap_or_default();
        let uploaded = files::uploaded(&self.artifacts, self.workloads.kind(), key, files).await?;
        let secrets = &self.views.secrets;
        let secrets = files::readable(secrets, &self.secrets, &key.project, files).await?;
        let secret = |name: &ObjectName| secrets.get(name).cloned();
        let files_revision = revision(&key.project, files, secret, &uploaded);
        let beside = self.beside(key, workload);
        let nodes = self.nodes(workload, copies, &beside);
        let volumes = anchors(&key.project, workload, &self.views.volumes);
        Ok(Surroundings { nodes, cycle, goes_first, files_revision, volumes, beside })
    }

    /// The nodes of the workload that this one is placed beside, also of copies that are on their way out.
    fn beside(&self, key: &ObjectName, workload: &Workload) -> Vec<String> {
        let placement = workload.spec.as_ref().and_then(|spec| spec.placement.as_ref());
        let Some(other) = placement.and_then(|placement| placement.beside.as_ref()) else {
            return Vec::new();
        };
        let other = ObjectName::new(key.project.clone(), other.clone());
        let copies = self.views.instances.indexed(&other.to_string()).into_iter();
        let nodes: BTreeSet<String> =
            copies.filter_map(|(_, copy)| copy.spec.as_ref()?.node.clone()).collect();
        nodes.into_iter().collect()
    }

    /// The nodes that matter: those that are named or run a copy, and all of them only when labels
    /// choose. So a workload on one node costs the same however many others there are.
    fn nodes(
        &self,
        workload: &Workload,
        copies: &[WorkloadInstance],
        beside: &[String],
    ) -> BTreeMap<String, Seat> {
        let placement = workload.spec.as_ref().and_then(|spec| spec.placement.as_ref());
        if placement.is_some_and(|placement| placement.selector.is_some()) {
            let used = self.views.ledger.all();
            let storage = registered(&self.views.controllers);
            let seat = |(name, node): (ObjectName, Arc<Node>)| {
                let used = used.get(&name.name).copied().unwrap_or_default();
                let seat = Seat::of(&node, used);
                let has_storage = storage.contains(&seat.controller);
                (name.name, Seat { has_storage, ..seat })
            };
            return self.views.nodes.all().into_iter().map(seat).collect();
        }
        let named = placement.into_iter().flat_map(|placement| &placement.nodes);
        let used = copies.iter().filter_map(|copy| copy.spec.as_ref()?.node.as_ref());
        let seat = |name: &String| {
            let node = self.views.nodes.get(&ObjectName::new("", name))?;
            Some((name.clone(), Seat::of(&node, self.views.ledger.used(name))))
        };
        named.chain(beside).chain(used).filter_map(seat).collect()
    }

    /// A workload that depends on this one and goes too, with its project or by itself.
    async fn goes_first(&self, key: &ObjectName) -> Result<Option<String>, Error> {
        let dependents = self.views.graph.dependents(key);
        if dependents.is_empty() {
            return Ok(None);
        }
        let project = self.projects.find(&ObjectName::new("", &key.project)).await?;
        let all_go = project.is_none_or(|project| deleting(&project.metadata));
        let mut there =
            dependents.iter().filter_map(|name| Some((name, self.views.workloads.get(name)?)));
        let first = there.find(|(_, dependent)| all_go || deleting(&dependent.metadata));
        Ok(first.map(|(name, _)| name.name.clone()))
    }

    /// Plans, and speaks for the room that new copies need before anybody else can plan with it.
    async fn plan(
        &self,
        key: &ObjectName,
        workload: &Workload,
        copies: &[WorkloadInstance],
    ) -> Result<plan::Plan, Error> {
        let resources = workload.spec.as_ref().and_then(|spec| spec.resources.as_ref());
        let asks = Amounts::requested(resources) != Amounts::default();
        let _turn = if asks { Some(self.views.ledger.turn.lock().await) } else { None };
        let around = self.surroundings(key, workload, copies).await?;
        let plan = plan::plan(workload, copies, &around);
        let starved = asks && matches!(plan.obstacle, Some(plan::Obstacle::TooFewNodes(_)));
        self.views.ledger.starve(key, starved);
        for (name, spec) in plan.create.iter().filter(|_| asks).filter_map(reservation) {
            self.views.ledger.reserve(&ObjectName::new(&key.project, name), spec);
        }
        Ok(plan)
    }

    async fn carry_out(&self, key: &ObjectName, plan: &plan::Plan) -> Result<(), Error> {
        self.create(key, &plan.create).await?;
        let update = |copy: &WorkloadInstance| Write::Apply(copy.clone(), ApplyOptions::default());
        self.write(plan.update.iter().map(update)).await.into_iter().collect::<Result<(), _>>()?;
        self.introduce(&plan.introduce).await?;
        let delete = |name: &String| Write::Delete(ObjectName::new(&key.project, name));
        let deleted = self.write(plan.delete.iter().map(delete)).await;
        for (name, outcome) in plan.delete.iter().zip(deleted) {
            ignore_gone(outcome)?;
            self.told.note(key, name);
        }
        let release =
            |name: &String| Write::Release(ObjectName::new(&key.project, name), AGENT_FINALIZER);
        let released = self.write(plan.release.iter().map(release)).await;
        released.into_iter().try_for_each(ignore_gone)
    }

    /// Makes copies; what was kept free for those that cannot be made is free again. All is tried; the
    /// first failure is told.
    async fn create(&self, key: &ObjectName, copies: &[WorkloadInstance]) -> Result<(), Error> {
        let options = ApplyOptions { with_status: true, ..ApplyOptions::create() };
        let create = |copy: &WorkloadInstance| Write::Apply(copy.clone(), options.clone());
        let outcomes = self.write(copies.iter().map(create)).await;
        let mut first = Ok(());
        for (copy, outcome) in copies.iter().zip(outcomes) {
            let Err(error) = outcome else { continue };
            if matches!(error, Error::AlreadyExists { .. }) {
                continue;
            }
            if let Some((name, _)) = reservation(copy) {
                self.views.ledger.give_back(&ObjectName::new(&key.project, name));
            }
            first = first.and(Err(error));
        }
        first
    }

    /// Writes first words, unless the agent was quicker.
    async fn introduce(&self, copies: &[WorkloadInstance]) -> Result<(), Error> {
        let writes = copies.iter().cloned().map(status_if_unchanged);
        let writes: Vec<_> = writes.collect::<Result<_, _>>()?;
        let introduced = self.write(writes.into_iter()).await;
        introduced.into_iter().try_for_each(|outcome| match outcome {
            Err(Error::Conflict { .. }) => Ok(()),
            other => ignore_gone(other),
        })
    }

    /// Writes copies side by side; the outcomes are in their order.
    async fn write(
        &self,
        writes: impl Iterator<Item = Write<WorkloadInstance>>,
    ) -> Vec<Result<(), Error>> {
        let writes: Vec<_> = writes.collect();
        let outcomes = writes::all(&self.instances, &writes).await;
        outcomes.into_iter().map(|outcome| outcome.map(|_| ())).collect()
    }

    /// Tells the sum of the copies, if it is another than what is told.
    async fn summarize(
        &self,
        key: &ObjectName,
        workload: &Workload,
        copies: &[WorkloadInstance],
        plan: &plan::Plan,
    ) -> Result<(), Error> {
        let status = summary::summarize(workload, copies, plan, self.clock.now());
        if workload.status.as_ref() == Some(&status) {
            return Ok(());
        }
        let metadata = named(&key.project, &key.name);
        let next = Workload { metadata, status: Some(status), ..Workload::default() };
        ignore_gone(self.workloads.write_status(&next).await.map(|_| ()))?;
        self.pace.told(key, Instant::now());
        Ok(())
    }
}

#[async_trait]
impl Reconciler<ObjectName> for WorkloadReconciler {
    type Error = Error;

    async fn reconcile(&self, key: &ObjectName) -> Result<Next, Error> {
        let _look = self.views.under_way.begin();
        let known = self.views.workloads.get(key);
        if known.is_some_and(|known| at_rest(&known))
            && let Some(wait) = self.pace.wait(key, Instant::now())
        {
            return Ok(Next::After(wait));
        }
        let Some(workload) = self.workloads.find(key).await? else {
            self.views.ledger.starve(key, false);
            self.told.forget(key);
            return Ok(Next::AwaitChange);
        };
        let copies = self.copies(key);
        let plan = self.plan(key, &workload, &copies).await?;
        self.carry_out(key, &plan).await?;
        if plan.finished {
            ignore_gone(release(&self.workloads, key, INSTANCES_FINALIZER).await)?;
            return Ok(Next::AwaitChange);
        }
        if !plan.create.is_empty() {
            // They are told as changes, and so is what their agents say of them.
            return Ok(Next::After(FIRST_WORDS));
        }
        self.summarize(key, &workload, &copies, &plan).await?;
        Ok(Next::AwaitChange)
    }
}

/// Nothing new is asked of it: only its copies change.
fn at_rest(workload: &Workload) -> bool {
    let Some(metadata) = &workload.metadata else { return false };
    let observed = workload.status.as_ref().map(|status| status.observed_generation);
    metadata.deletion_timestamp.is_none() && observed == Some(metadata.generation)
}

fn reservation(
    copy: &WorkloadInstance,
) -> Option<(&str, &orrery_proto::apps::v1::WorkloadInstanceSpec)> {
    Some((copy.metadata.as_ref()?.name.as_str(), copy.spec.as_ref()?))
}

/// Takes a finalizer away from an object.
pub(crate) async fn release<T: prost::Message + prost::Name + Default>(
    resources: &Resources<T>,
    name: &ObjectName,
    finalizer: &str,
) -> Result<(), Error> {
    let without = |meta: &mut ObjectMeta| meta.finalizers.retain(|held| held != finalizer);
    resources.update_meta(name, without).await.map(|_| ())
}

/// Writes the status of a copy if it is still as it was read.
pub(crate) fn status_if_unchanged(
    copy: WorkloadInstance,
) -> Result<Write<WorkloadInstance>, Error> {
    let metadata = copy.metadata.clone().unwrap_or_default();
    let revision = metadata.resource_version.parse().map_err(|_| {
        Error::Internal(format!("{} has no revision after it was read", metadata.name))
    })?;
    let precondition = Precondition::At(revision);
    Ok(Write::Apply(copy, ApplyOptions { precondition, ..ApplyOptions::status() }))
}

/// What is gone already needs nothing more.
pub(crate) fn ignore_gone(outcome: Result<(), Error>) -> Result<(), Error> {
    match outcome {
        Err(Error::NotFound { .. } | Error::ProjectNotFound { .. }) => Ok(()),
        other => other,
    }
}

fn deleting(metadata: &Option<ObjectMeta>) -> bool {
    metadata.as_ref().is_some_and(|metadata| metadata.deletion_timestamp.is_some())
}

fn named(project: &str, name: &str) -> Option<ObjectMeta> {
    Some(ObjectMeta { name: name.to_owned(), project: project.to_owned(), ..ObjectMeta::default() })
}
