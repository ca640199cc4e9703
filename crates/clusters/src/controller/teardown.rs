//! A cluster that goes: its addons, its machines, and then itself.
use super::cluster::{ClusterReconciler, addon_of};
use super::{ignore_gone, parts};
use crate::names::{CLUSTER_FINALIZER, meta};
use crate::plan::status::{self, Parts};
use crate::plan::teardown::{self, ADDONS_GRACE, Left, Step};
use crate::plan::{State, addons, pools};
use orrery_hub::{Error, ObjectName, Propagation};
use orrery_proto::apps::v1::Workload;
use orrery_proto::infra::v1::{Cluster, MachineClass, MachineDeployment};
use orrery_proto::meta::v1::ObjectMeta;
use orrery_runtime::Next;
use std::time::Duration;

/// What is left of a cluster in the store.
struct Remains {
    /// In the order in which they were put in place.
    workloads: Vec<Workload>,
    deployments: Vec<MachineDeployment>,
    classes: Vec<MachineClass>,
}

impl ClusterReconciler {
    pub(super) async fn wind_up(&self, cluster: &Cluster) -> Result<Next, Error> {
        let own = meta(&cluster.metadata);
        if own.finalizers.iter().any(|held| held == Propagation::ORPHAN_FINALIZER) {
            // What it made is to stay, and forgets its owner first; nothing is ours any more then.
            return Ok(Next::AwaitChange);
        }
        let remains = self.remains(cluster).await?;
        let now = self.hub.clock().now();
        let asked = own.deletion_timestamp.map_or(now.seconds, |time| time.seconds);
        let since = Duration::from_secs(u64::try_from(now.seconds - asked).unwrap_or_default());
        let step = teardown::next(&remains.left(), since);
        self.take(cluster, &remains, &step).await?;
        if step == Step::Done {
            let name = ObjectName::new(&own.project, &own.name);
            let without = |meta: &mut ObjectMeta| {
                meta.finalizers.retain(|held| held != CLUSTER_FINALIZER);
            };
            ignore_gone(self.clusters.update_meta(&name, without).await)?;
            return Ok(Next::AwaitChange);
        }
        let status = status::leaving(cluster, remains.said(), &step.said(), now);
        self.publish(cluster, status).await?;
        Ok(match step {
            Step::Workloads(_) => Next::After(ADDONS_GRACE.saturating_sub(since)),
            Step::Machines { .. } | Step::Classes(_) | Step::Done => Next::AwaitChange,
        })
    }

    async fn remains(&self, cluster: &Cluster) -> Result<Remains, Error> {
        let ObjectMeta { project, uid, .. } = meta(&cluster.metadata);
        let mut workloads = parts::of_cluster(&self.workloads, project, uid).await?;
        let known = cluster.status.as_ref().map(|status| status.addons.as_slice());
        let place = |workload: &Workload| {
            let mut known = known.unwrap_or_default().iter();
            known.position(|addon| addon.name == addon_of(workload))
        };
        workloads.sort_by_key(|workload| place(workload));
        Ok(Remains {
            workloads,
            deployments: parts::of_cluster(&self.deployments, project, uid).await?,
            classes: parts::of_cluster(&self.classes, project, uid).await?,
        })
    }

    async fn take(&self, cluster: &Cluster, of: &Remains, step: &Step) -> Result<(), Error> {
        let name = |metadata: &Option<ObjectMeta>| meta(metadata).name.clone();
        let (workloads, deployments, classes): (&[String], &[String], &[String]) = match step {
            Step::Workloads(workloads) => (workloads, &[], &[]),
            Step::Machines { workloads, deployments } => (workloads, deployments, &[]),
            Step::Classes(classes) => (&[], &[], classes),
            Step::Done => (&[], &[], &[]),
        };
        for it in of.workloads.iter().filter(|it| workloads.contains(&name(&it.metadata))) {
            self.remove(cluster, &self.workloads, it).await?;
        }
        for it in of.deployments.iter().filter(|it| deployments.contains(&name(&it.metadata))) {
            self.remove(cluster, &self.deployments, it).await?;
        }
        for it in of.classes.iter().filter(|it| classes.contains(&name(&it.metadata))) {
            self.remove(cluster, &self.classes, it).await?;
        }
        Ok(())
    }
}

impl Remains {
    fn left(&self) -> Left {
        let name = |metadata: &Option<ObjectMeta>| meta(metadata).name.clone();
        Left {
            workloads: self.workloads.iter().map(|it| name(&it.metadata)).collect(),
            deployments: self.deployments.iter().map(|it| name(&it.metadata)).collect(),
            classes: self.classes.iter().map(|it| name(&it.metadata)).collect(),
        }
    }

    fn said(&self) -> Parts {
        let addon = |workload: &Workload| {
            addons::present(addon_of(workload), Some(workload), State::Removing, String::new())
        };
        Parts {
            pools: self.deployments.iter().map(pools::leaving).collect(),
            addons: self.workloads.iter().map(addon).collect(),
            obstacle: None,
        }
    }
}
