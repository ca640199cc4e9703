//! Clusters: pools become deployments of machines, addons become workloads, one after the other.
use super::outcome;
use super::parts::{self, Part};
use crate::names::{self, is_going, meta};
use crate::plan::State;
use crate::plan::pools;
use crate::plan::status::{self, Parts};
use crate::watches::Views;
use async_trait::async_trait;
use orrery_hub::events::{Happening, Recorder, Severity};
use orrery_hub::{Error, Hub, ObjectName, Outcome, Resources};
use orrery_proto::apps::v1::Workload;
use orrery_proto::core::v1::ObjectReference;
use orrery_proto::infra::v1::{
    Addon, Blueprint, Cluster, ClusterStatus, Machine, MachineClass, MachineDeployment, Node,
};
use orrery_runtime::{Next, Reconciler};
use std::time::Duration;

/// What stands in the way may be somebody else's, of which a cluster hears nothing when it goes.
const LOOK_AT_FAILURES: Duration = Duration::from_secs(15);

pub struct ClusterReconciler {
    pub(super) hub: Hub,
    pub(super) clusters: Resources<Cluster>,
    pub(super) blueprints: Resources<Blueprint>,
    pub(super) addons: Resources<Addon>,
    pub(super) classes: Resources<MachineClass>,
    pub(super) deployments: Resources<MachineDeployment>,
    pub(super) workloads: Resources<Workload>,
    pub(super) machines: Resources<Machine>,
    pub(super) nodes: Resources<Node>,
    pub(super) views: Views,
    recorder: Recorder,
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
            machines: hub.resources()?,
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

    pub(super) async fn tell_of<T: Part>(&self, cluster: &Cluster, part: &T, outcome: Outcome) {
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
        let metadata = cluster.metadata.clone();
        let next = Cluster { metadata, status: Some(status), ..Cluster::default() };
        parts::write_status(&self.clusters, &cluster.metadata, &next).await
    }
}

/// Why a name cannot be had.
pub(super) fn taken(kind: &str, name: &str) -> String {
    format!("the {kind} {name:?} is not this cluster's: rename that one, or the cluster's part")
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
