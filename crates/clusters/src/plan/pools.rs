//! What the pools of a cluster become, and how far they are: pure.
use super::State;
use super::providers::{self, Machines};
use crate::names::{self, POOL_LABEL, meta};
use orrery_proto::infra::v1::{
    Cluster, ClusterSpec, MachineClass, MachineDeployment, MachineDeploymentSpec, MachineTemplate,
    NodePool, PoolStatus, node_pool,
};
use orrery_proto::meta::v1::ObjectMeta;

/// What a pool becomes.
#[derive(Clone, Debug, PartialEq)]
pub struct Pool {
    pub name: String,
    pub wanted: i32,
    /// The class of its machines; `None` when the pool names one that somebody else looks after.
    pub class: Option<MachineClass>,
    pub deployment: MachineDeployment,
}

/// One of each for every pool. Only fields that the cluster has something to say about are set: the others are
/// whoever's sets them, or the server's to fill in.
pub fn expand(cluster: &Cluster) -> Vec<Pool> {
    let spec = cluster.spec.clone().unwrap_or_default();
    spec.pools.iter().map(|pool| one(cluster, &spec, pool)).collect()
}

fn one(cluster: &Cluster, spec: &ClusterSpec, pool: &NodePool) -> Pool {
    let metadata = metadata(cluster, pool);
    // A pool of another provider is refused before it is stored.
    let machines = providers::machines(spec, pool).unwrap_or_default();
    let named = match &pool.machines {
        Some(node_pool::Machines::Class(name)) => name.clone(),
        Some(_) | None => metadata.name.clone(),
    };
    let class = |machines: &Machines| MachineClass {
        metadata: Some(metadata.clone()),
        spec: Some(machines.class()),
        ..MachineClass::default()
    };
    Pool {
        name: pool.name().to_owned(),
        wanted: pool.replicas(),
        class: machines.as_ref().map(class),
        deployment: MachineDeployment {
            spec: Some(deployment(pool, named, &metadata)),
            metadata: Some(metadata),
            ..MachineDeployment::default()
        },
    }
}

fn metadata(cluster: &Cluster, pool: &NodePool) -> ObjectMeta {
    let own = meta(&cluster.metadata);
    let of_pool = (POOL_LABEL.to_owned(), pool.name().to_owned());
    ObjectMeta {
        name: names::part(&own.name, pool.name()),
        project: own.project.clone(),
        labels: names::labels(cluster).into_iter().chain([of_pool]).collect(),
        owner_references: vec![names::owned_by(cluster)],
        ..ObjectMeta::default()
    }
}

fn deployment(pool: &NodePool, class: String, metadata: &ObjectMeta) -> MachineDeploymentSpec {
    // Ours come last: a pool that set one of them was refused before it was stored.
    let labels = pool.labels.iter().chain(&metadata.labels);
    let template = MachineTemplate {
        labels: labels.map(|(key, value)| (key.clone(), value.clone())).collect(),
        class: Some(class),
        timeouts: pool.timeouts,
        keep_failed: pool.keep_failed,
        ..MachineTemplate::default()
    };
    MachineDeploymentSpec {
        replicas: Some(pool.replicas()),
        template: Some(template),
        max_surge: pool.max_surge.clone(),
        max_unavailable: pool.max_unavailable.clone(),
        max_unhealthy: pool.max_unhealthy.clone(),
        min_ready_seconds: pool.min_ready_seconds,
        ..MachineDeploymentSpec::default()
    }
}

/// How a pool fares whose deployment is this one. `class` is the generation of the class that its machines should be
/// of; the deployment may not have heard of it yet.
pub fn judge(pool: &Pool, deployment: &MachineDeployment, class: Option<i64>) -> PoolStatus {
    let status = deployment.status.clone().unwrap_or_default();
    let pinned = deployment.spec.as_ref().and_then(|spec| spec.template.as_ref()?.class_revision);
    let follows = pinned.is_some() || class.is_none_or(|class| class == status.revision);
    let heard = status.observed_generation == meta(&deployment.metadata).generation && follows;
    let ready = if heard { status.available.min(status.updated).min(pool.wanted) } else { 0 };
    let complete = heard && status.state == "Complete" && ready == pool.wanted;
    let (state, message) = match status.state.as_str() {
        _ if complete => (State::Ready, String::new()),
        "Failing" => (State::Failing, said(&status.conditions, "ClassFound")),
        "Frozen" => (State::Progressing, "its machines are frozen".to_owned()),
        "Paused" => (State::Progressing, "the exchange of its machines is paused".to_owned()),
        _ => {
            let text = format!("{ready} of {} machines are as asked for", pool.wanted);
            (State::Progressing, text)
        }
    };
    PoolStatus { ready, ..reported(pool, state, message) }
}

/// What is said of a pool without asking its deployment.
pub fn reported(pool: &Pool, state: State, message: String) -> PoolStatus {
    PoolStatus {
        name: pool.name.clone(),
        deployment: meta(&pool.deployment.metadata).name.clone(),
        wanted: pool.wanted,
        ready: 0,
        state: state.as_str().to_owned(),
        message,
    }
}

/// What is said of a pool that left the spec, or whose cluster goes.
pub fn leaving(deployment: &MachineDeployment) -> PoolStatus {
    let metadata = meta(&deployment.metadata);
    let status = deployment.status.clone().unwrap_or_default();
    PoolStatus {
        name: metadata.labels.get(POOL_LABEL).cloned().unwrap_or_default(),
        deployment: metadata.name.clone(),
        wanted: 0,
        ready: 0,
        state: State::Removing.as_str().to_owned(),
        message: format!("{} machines are left", status.machines),
    }
}

fn said(conditions: &[orrery_proto::meta::v1::Condition], wanted: &str) -> String {
    let found = conditions.iter().find(|condition| condition.r#type == wanted);
    found.map(|condition| condition.message.clone()).unwrap_or_default()
}

#[cfg(test)]
mod tests;
