//! Addons on a cluster: each becomes a workload, when those before it are ready.
use super::cluster::{ClusterReconciler, addon_of, taken};
use super::parts::{self, Declared};
use super::{ignore_gone, resolve};
use crate::names::{self, HAS_ADDON_LABEL, has_addon, is_going, meta};
use crate::plan::State;
use crate::plan::addons::{self, HAS_IT, Nodes, Seen};
use crate::plan::status::Obstacle;
use orrery_hub::{Error, ObjectName};
use orrery_proto::apps::v1::{Workload, WorkloadInstance};
use orrery_proto::infra::v1::{Addon, AddonProgress, Cluster};
use orrery_proto::meta::v1::ObjectMeta;
use std::collections::BTreeSet;

/// An addon of the blueprint, and what it is or why it is not there.
struct Wanted {
    name: String,
    addon: Result<Addon, String>,
}

impl ClusterReconciler {
    /// Puts addons in place, each when those before it are ready; takes others away. What cannot be found changes
    /// nothing that runs.
    pub(super) async fn addons(
        &self,
        cluster: &Cluster,
        machines_wanted: i32,
    ) -> Result<(Vec<AddonProgress>, Option<Obstacle>), Error> {
        let ObjectMeta { project, uid, .. } = meta(&cluster.metadata);
        let there = parts::of_cluster(&self.workloads, project, uid).await?;
        let nodes = self.nodes_of(project, uid).await?;
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

    /// The nodes of the machines that run and are to stay: those that should have every addon. They are asked of the
    /// store after the deployments were: a machine that counts there counts here.
    async fn nodes_of(&self, project: &str, uid: &str) -> Result<Nodes, Error> {
        let emptied: BTreeSet<String> = self
            .views
            .nodes
            .indexed(uid)
            .into_iter()
            .filter(|(_, node)| node.spec.as_ref().is_some_and(|spec| spec.drain()))
            .map(|(name, _)| name.name)
            .collect();
        let machines = parts::labelled(&self.machines, project, uid).await?;
        let running = machines.into_iter().filter_map(|machine| {
            let going = is_going(&machine.metadata);
            let status = machine.status?;
            let runs = status.phase == "Running" && !going && !status.node.is_empty();
            runs.then_some(status.node)
        });
        Ok(running.filter(|node| !emptied.contains(node)).collect())
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
            ignore_gone(added)?;
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
                ignore_gone(self.nodes.update_meta(&name, clean).await)?;
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
}
