//! Clusters: pools become deployments of machines, addons become workloads, one after the other.
use super::outcome;
use super::parts::{self, Declared, Part};
use super::resolve;
use crate::names::{self, HAS_ADDON_LABEL, has_addon, is_going, meta};
use crate::plan::State;
use crate::plan::addons::{self, HAS_IT, Nodes, Seen};
use crate::plan::pools::{self, Pool};
use crate::plan::status::{self, Obstacle, Parts};
use crate::watches::Views;
use async_trait::async_trait;
use orrery_api::Encoded;
use orrery_hub::events::{Happening, Recorder, Severity};
use orrery_hub::{ApplyOptions, Error, Hub, ObjectName, Outcome, Precondition, Resources};
use orrery_proto::apps::v1::{Workload, WorkloadInstance};
use orrery_proto::core::v1::ObjectReference;
use orrery_proto::infra::v1::{
    Addon, AddonProgress, Blueprint, BlueprintAddon, Cluster, ClusterStatus, MachineClass,
    MachineDeployment, Node, PoolStatus,
};
use orrery_proto::meta::v1::ObjectMeta;
use orrery_runtime::{Next, Reconciler};
use std::collections::BTreeSet;
use std::time::Duration;

/// What stands in the way may be somebody else's, of which a cluster hears nothing when it goes.
const LOOK_AT_FAILURES: Duration = Duration::from_secs(15);

pub struct ClusterReconciler {
    pub(super) hub: Hub,
    pub(super) clusters: Resources<Cluster>,
    blueprints: Resources<Blueprint>,
    addons: Resources<Addon>,
    pub(super) classes: Resources<MachineClass>,
    pub(super) deployments: Resources<MachineDeployment>,
    pub(super) workloads: Resources<Workload>,
    nodes: Resources<Node>,
    views: Views,
    recorder: Recorder,
}

/// An addon of the blueprint, and what it is or why it is not there.
struct Wanted {
    name: String,
    addon: Result<Addon, String>,
}

impl ClusterReconciler {
    pub fn new(hub: &Hub, views: Views) -> Result<Self, Error> {
        Ok(Self {
            hub: hub.clone(),
            clusters: hub.resources()?,
            blueprints: hub.resources()?,
            addons: hub.resources()?,
            classes: hub.resources()?,
            deployments: hub.resources()?,
            workloads: hub.resources()?,
            nodes: hub.resources()?,
            views,
            recorder: Recorder::new(hub, "clusters")?,
        })
    }

    async fn settle(&self, cluster: &Cluster) -> Result<Next, Error> {
        let pools = pools::expand(cluster);
        let mut said = Vec::new();
        for pool in &pools {
            said.push(self.pool(cluster, pool).await?);
        }
        said.extend(self.remove_pools(cluster, &pools).await?);
        let machines = pools.iter().map(|pool| pool.wanted).sum();
        let (addons, obstacle) = self.addons(cluster, machines).await?;
        let parts = Parts { pools: said, addons, obstacle };
        let status = status::summarize(cluster, parts, self.hub.clock().now());
        let failing = status.state == State::Failing.as_str();
        self.publish(cluster, status).await?;
        Ok(if failing { Next::After(LOOK_AT_FAILURES) } else { Next::AwaitChange })
    }

    /// Makes a pool what it should be, and says how it fares.
    async fn pool(&self, cluster: &Cluster, pool: &Pool) -> Result<PoolStatus, Error> {
        let uid = &meta(&cluster.metadata).uid;
        let mut class = None;
        if let Some(wanted) = &pool.class {
            match parts::declare(&self.classes, wanted, uid).await? {
                Declared::Is(is, outcome) => {
                    self.tell_of(cluster, &is, outcome).await;
                    class = Some(meta(&is.metadata).generation);
                }
                other => return Ok(held_up::<MachineClass>(pool, other, "machineclass")),
            }
        } else if let Some(named) = template_class(pool) {
            let named = ObjectName::new(&meta(&cluster.metadata).project, named);
            let found = self.classes.find(&named).await?;
            class = found.map(|class| meta(&class.metadata).generation);
        }
        match parts::declare(&self.deployments, &pool.deployment, uid).await? {
            Declared::Is(is, outcome) => {
                self.tell_of(cluster, &is, outcome).await;
                Ok(pools::judge(pool, &is, class))
            }
            other => Ok(held_up::<MachineDeployment>(pool, other, "machinedeployment")),
        }
    }

    /// Takes away what pools became that are not in the spec any more, and says what is left of it.
    async fn remove_pools(
        &self,
        cluster: &Cluster,
        pools: &[Pool],
    ) -> Result<Vec<PoolStatus>, Error> {
        let ObjectMeta { project, uid, .. } = meta(&cluster.metadata);
        let mut left = Vec::new();
        let kept = |it: &Option<ObjectMeta>| {
            pools.iter().any(|pool| meta(&pool.deployment.metadata).name == meta(it).name)
        };
        for deployment in parts::owned(&self.deployments, project, uid).await? {
            if !kept(&deployment.metadata) {
                self.remove(cluster, &self.deployments, &deployment).await?;
                left.push(pools::leaving(&deployment));
            }
        }
        let declared = |it: &Option<ObjectMeta>| {
            let classes = pools.iter().filter_map(|pool| pool.class.as_ref());
            classes.into_iter().any(|class| meta(&class.metadata).name == meta(it).name)
        };
        for class in parts::owned(&self.classes, project, uid).await? {
            if !declared(&class.metadata) {
                self.remove(cluster, &self.classes, &class).await?;
            }
        }
        Ok(left)
    }

    /// Puts addons in place, each when those before it are ready; takes others away. What cannot be found changes
    /// nothing that runs.
    async fn addons(
        &self,
        cluster: &Cluster,
        machines_wanted: i32,
    ) -> Result<(Vec<AddonProgress>, Option<Obstacle>), Error> {
        let ObjectMeta { project, uid, .. } = meta(&cluster.metadata);
        let there = parts::owned(&self.workloads, project, uid).await?;
        let nodes = self.nodes_of(uid);
        let wanted = match self.wanted(cluster).await? {
            Ok(wanted) => wanted,
            Err(obstacle) => {
                let each = there.iter().map(|workload| {
                    self.judge(addon_of(workload), workload, &nodes, machines_wanted)
                });
                return Ok((each.collect(), Some(obstacle)));
            }
        };
        let (mut said, mut first, mut after) = (Vec::new(), None::<String>, None::<&str>);
        for (number, one) in wanted.iter().enumerate() {
            let name = names::part(&meta(&cluster.metadata).name, &one.name);
            let found = there.iter().find(|workload| meta(&workload.metadata).name == name);
            let seen = found.map(|it| self.judge(&one.name, it, &nodes, machines_wanted));
            let progress = match (&one.addon, &first) {
                (Err(why), _) => addons::present(&one.name, found, State::Failing, why.clone()),
                (Ok(addon), Some(first)) => addons::waiting(addon, seen, first),
                (Ok(addon), None) => {
                    let workload = addons::workload(cluster, addon, after);
                    self.put(cluster, &one.name, &workload, &nodes, machines_wanted).await?
                }
            };
            let last = number + 1 == wanted.len();
            let open = last || self.open_way(cluster, &one.name, &nodes).await?;
            if first.is_none() && !(open && progress.state == State::Ready.as_str()) {
                first = Some(one.name.clone());
            }
            said.push(progress);
            after = Some(&one.name);
        }
        if first.is_none() {
            let known = wanted.iter().map(|it| has_addon(&it.name)).collect();
            self.unlabel_nodes(uid, &known).await?;
        }
        said.extend(self.remove_addons(cluster, &wanted, &there).await?);
        Ok((said, None))
    }

    /// Which addons there should be, or why that is not known.
    async fn wanted(&self, cluster: &Cluster) -> Result<Result<Vec<Wanted>, Obstacle>, Error> {
        let spec = cluster.spec.as_ref();
        let Some(name) = spec.and_then(|spec| spec.blueprint.as_ref()) else {
            return Ok(Ok(Vec::new()));
        };
        let project = &meta(&cluster.metadata).project;
        let found = resolve::blueprint(&self.blueprints, &ObjectName::new(project, name)).await?;
        let Some(found) = found else {
            let message = format!(
                "there is no blueprint {name:?} in project {project:?}, and none is shared with it: create it, or name another"
            );
            return Ok(Err(Obstacle { reason: "BlueprintNotFound", message }));
        };
        let mut wanted = Vec::new();
        for entry in &found.blueprint.spec.clone().unwrap_or_default().addons {
            let entry: &BlueprintAddon = entry;
            let addon = resolve::addon(&self.addons, &found.project, entry).await?;
            wanted.push(Wanted { name: entry.name().to_owned(), addon });
        }
        Ok(Ok(wanted))
    }

    async fn put(
        &self,
        cluster: &Cluster,
        addon: &str,
        workload: &Workload,
        nodes: &Nodes,
        machines_wanted: i32,
    ) -> Result<AddonProgress, Error> {
        let uid = &meta(&cluster.metadata).uid;
        let name = &meta(&workload.metadata).name;
        Ok(match parts::declare(&self.workloads, workload, uid).await? {
            Declared::Is(is, outcome) => {
                self.tell_of(cluster, &is, outcome).await;
                self.judge(addon, &is, nodes, machines_wanted)
            }
            Declared::Going => {
                let why = "what was here before is being taken away".to_owned();
                addons::present(addon, None, State::Progressing, why)
            }
            Declared::Taken => {
                addons::present(addon, None, State::Failing, taken("workload", name))
            }
            Declared::Refused(why) => addons::present(addon, None, State::Failing, why),
        })
    }

    fn judge(&self, addon: &str, is: &Workload, nodes: &Nodes, machines: i32) -> AddonProgress {
        let own = meta(&is.metadata);
        let uid = own.labels.get(names::CLUSTER_UID_LABEL).cloned().unwrap_or_default();
        let copies = self.copies_of(&uid, &ObjectName::new(&own.project, &own.name));
        let ready = &addons::ready_on(nodes, &copies);
        addons::judge(&Seen { addon, workload: is, nodes, ready, machines_wanted: machines })
    }

    fn copies_of(&self, uid: &str, workload: &ObjectName) -> Vec<WorkloadInstance> {
        let all = self.views.copies.indexed(uid).into_iter();
        let of = all.filter(|(name, copy)| {
            let spec = copy.spec.as_ref();
            name.project == workload.project
                && spec.is_some_and(|it| it.workload() == workload.name)
        });
        of.map(|(_, copy)| (*copy).clone()).collect()
    }

    /// The nodes of the machines that run and are to stay: those that should have every addon.
    fn nodes_of(&self, uid: &str) -> Nodes {
        let emptied: BTreeSet<String> = self
            .views
            .nodes
            .indexed(uid)
            .into_iter()
            .filter(|(_, node)| node.spec.as_ref().is_some_and(|spec| spec.drain()))
            .map(|(name, _)| name.name)
            .collect();
        let machines = self.views.machines.indexed(uid).into_iter();
        let running = machines.filter_map(|(_, machine)| {
            let status = machine.status.as_ref()?;
            let runs = status.phase == "Running" && !is_going(&machine.metadata);
            (runs && !status.node.is_empty()).then(|| status.node.clone())
        });
        running.filter(|node| !emptied.contains(node)).collect()
    }

    /// Says on nodes where an addon has been ready that it has, so that the next one comes. Says whether all nodes are
    /// known to say so: before that the next one is not told to look for it, or it would be taken off those that do not.
    async fn open_way(&self, cluster: &Cluster, addon: &str, of: &Nodes) -> Result<bool, Error> {
        let own = meta(&cluster.metadata);
        let workload = ObjectName::new(&own.project, names::part(&own.name, addon));
        let ready = addons::ready_on(of, &self.copies_of(&own.uid, &workload));
        let label = has_addon(addon);
        for node in addons::to_label(addon, &ready, |node, label| self.has(node, label)) {
            let add = |meta: &mut ObjectMeta| {
                meta.labels.insert(label.clone(), HAS_IT.to_owned());
            };
            let added = self.nodes.update_meta(&ObjectName::new("", node), add).await;
            super::ignore_gone(added)?;
        }
        Ok(of.iter().all(|node| self.has(node, &label)))
    }

    fn has(&self, node: &str, label: &str) -> bool {
        let node = self.views.nodes.get(&ObjectName::new("", node));
        node.is_some_and(|node| meta(&node.metadata).labels.contains_key(label))
    }

    /// Labels of addons that are not wanted any more go, once nothing is on its way that still looks for them.
    async fn unlabel_nodes(&self, uid: &str, known: &BTreeSet<String>) -> Result<(), Error> {
        let stale = |key: &String| key.starts_with(HAS_ADDON_LABEL) && !known.contains(key);
        for (name, node) in self.views.nodes.indexed(uid) {
            if meta(&node.metadata).labels.keys().any(stale) {
                let clean = |meta: &mut ObjectMeta| meta.labels.retain(|key, _| !stale(key));
                super::ignore_gone(self.nodes.update_meta(&name, clean).await)?;
            }
        }
        Ok(())
    }

    /// Takes addons away that the blueprint does not name any more, and says so until they are gone.
    async fn remove_addons(
        &self,
        cluster: &Cluster,
        wanted: &[Wanted],
        there: &[Workload],
    ) -> Result<Vec<AddonProgress>, Error> {
        let mut left = Vec::new();
        for workload in there {
            let addon = addon_of(workload);
            if wanted.iter().any(|it| it.name == addon) {
                continue;
            }
            self.remove(cluster, &self.workloads, workload).await?;
            let why = "it is not in the blueprint any more".to_owned();
            left.push(addons::present(addon, Some(workload), State::Removing, why));
        }
        Ok(left)
    }

    /// Asks a part of a cluster to go, and tells of it once.
    pub(super) async fn remove<T: Part>(
        &self,
        cluster: &Cluster,
        resources: &Resources<T>,
        part: &T,
    ) -> Result<(), Error> {
        if parts::remove(resources, part).await? {
            let kind = resources.kind().singular();
            let text = format!("{kind} {:?} is taken away", meta(part.metadata()).name);
            self.tell(cluster, T::TOLD.removed, text).await;
        }
        Ok(())
    }

    async fn tell_of<T: Part>(&self, cluster: &Cluster, part: &T, outcome: Outcome) {
        let (reason, done) = match outcome {
            Outcome::Created => (T::TOLD.created, "is made"),
            Outcome::Changed => (T::TOLD.changed, "is changed"),
            Outcome::Unchanged | Outcome::Gone => return,
        };
        let (kind, name) = (T::NAME.to_lowercase(), &meta(part.metadata()).name);
        self.tell(cluster, reason, format!("{kind} {name:?} {done}")).await;
    }

    async fn tell(&self, cluster: &Cluster, reason: &'static str, message: String) {
        let own = meta(&cluster.metadata);
        let regarding = ObjectReference {
            api_version: Some(cluster.api_version.clone()),
            kind: Some(cluster.kind.clone()),
            project: Some(own.project.clone()),
            name: Some(own.name.clone()),
            uid: Some(own.uid.clone()),
        };
        let severity = Severity::Normal;
        self.recorder.record(Happening { regarding, severity, reason, message }).await;
    }

    /// Writes a status if it says something new, of the cluster as it was read.
    pub(super) async fn publish(
        &self,
        cluster: &Cluster,
        status: ClusterStatus,
    ) -> Result<(), Error> {
        if cluster.status.as_ref() == Some(&status) {
            return Ok(());
        }
        let precondition = Precondition::At(parts::revision(&cluster.metadata)?);
        let metadata = cluster.metadata.clone();
        let next = Cluster { metadata, status: Some(status), ..Cluster::default() };
        let next = Encoded::from_typed(self.clusters.kind(), &next)
            .map_err(|error| Error::Internal(format!("cannot write a cluster: {error}")))?;
        let options = ApplyOptions { precondition, ..ApplyOptions::status() };
        self.clusters.accessor().apply_encoded(next, options).await.map(|_| ())
    }
}

/// Why a pool could not become what it should.
fn held_up<T>(pool: &Pool, declared: Declared<T>, kind: &str) -> PoolStatus {
    let name = &meta(&pool.deployment.metadata).name;
    let (state, why) = match declared {
        Declared::Taken => (State::Failing, taken(kind, name)),
        Declared::Refused(why) => (State::Failing, why),
        Declared::Going | Declared::Is(..) => {
            (State::Progressing, "what was here before is being taken away".to_owned())
        }
    };
    pools::reported(pool, state, why)
}

fn taken(kind: &str, name: &str) -> String {
    format!("the {kind} {name:?} is not this cluster's: rename that one, or the cluster's part")
}

fn template_class(pool: &Pool) -> Option<&str> {
    Some(pool.deployment.spec.as_ref()?.template.as_ref()?.class())
}

pub(super) fn addon_of(workload: &Workload) -> &str {
    let labels = &meta(&workload.metadata).labels;
    labels.get(names::ADDON_LABEL).map(String::as_str).unwrap_or_default()
}

#[async_trait]
impl Reconciler<ObjectName> for ClusterReconciler {
    type Error = Error;

    async fn reconcile(&self, key: &ObjectName) -> Result<Next, Error> {
        let Some(cluster) = self.clusters.find(key).await? else { return Ok(Next::AwaitChange) };
        outcome(match is_going(&cluster.metadata) {
            true => self.wind_up(&cluster).await,
            false => self.settle(&cluster).await,
        })
    }
}
