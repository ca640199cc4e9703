//! Which copies of a workload there should be: pure.
use super::AGENT_FINALIZER;
use orrery_proto::apps::v1::{
    Workload, WorkloadInstance, WorkloadInstanceSpec, WorkloadInstanceStatus,
    workload_instance_spec, workload_spec,
};
use orrery_proto::meta::v1::{ObjectMeta, OwnerReference};
use sha2::{Digest, Sha256};
use std::collections::{BTreeMap, BTreeSet};

/// What the controller has to do; nothing of it twice.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Plan {
    /// Copies that are missing.
    pub create: Vec<WorkloadInstance>,
    /// Copies whose assignment changed.
    pub update: Vec<WorkloadInstance>,
    /// Names of copies that are too many.
    pub delete: Vec<String>,
    /// Names of copies that no agent will ever stop, because none of that name ever connected.
    pub release: Vec<String>,
    /// First words about copies that no agent has spoken of yet.
    pub introduce: Vec<(String, WorkloadInstanceStatus)>,
    /// The workload is being deleted and nothing of it is left.
    pub finished: bool,
}

/// Decides. `instances` are all copies of this workload, `nodes` the names of all nodes that ever
/// connected.
pub fn plan(workload: &Workload, instances: &[WorkloadInstance], nodes: &BTreeSet<String>) -> Plan {
    let deleting = meta(&workload.metadata).deletion_timestamp.is_some();
    let wanted = if deleting { BTreeMap::new() } else { wanted(workload) };
    let mut plan = Plan { finished: deleting && instances.is_empty(), ..Plan::default() };
    let mut present = BTreeSet::new();
    for instance in instances {
        let name = &meta(&instance.metadata).name;
        present.insert(name.as_str());
        judge(&mut plan, instance, wanted.get(name), nodes);
    }
    let missing = wanted.iter().filter(|(name, _)| !present.contains(name.as_str()));
    plan.create = missing.map(|(_, instance)| instance.clone()).collect();
    plan
}

/// What becomes of a copy that is there.
fn judge(
    plan: &mut Plan,
    instance: &WorkloadInstance,
    wanted: Option<&WorkloadInstance>,
    nodes: &BTreeSet<String>,
) {
    let metadata = meta(&instance.metadata);
    let name = metadata.name.clone();
    let node = instance.spec.as_ref().map_or("", WorkloadInstanceSpec::node);
    let known = nodes.contains(node);
    if metadata.deletion_timestamp.is_some() {
        let held = metadata.finalizers.iter().any(|finalizer| finalizer == AGENT_FINALIZER);
        if held && !known {
            plan.release.push(name);
        }
        return;
    }
    match wanted {
        None => plan.delete.push(name),
        Some(wanted) => {
            if wanted.spec != instance.spec {
                plan.update.push(wanted.clone());
            }
            if instance.status.is_none() {
                plan.introduce.push((name, introduction(node, known)));
            }
        }
    }
}

fn introduction(node: &str, known: bool) -> WorkloadInstanceStatus {
    let message = if known {
        format!("waiting for the agent on node {node:?} to take it")
    } else {
        format!("no agent named {node:?} has ever connected; start one with --name {node}")
    };
    WorkloadInstanceStatus {
        state: "Pending".into(),
        reason: "Initial".into(),
        message,
        ..WorkloadInstanceStatus::default()
    }
}

/// The copies that the spec asks for, by name.
fn wanted(workload: &Workload) -> BTreeMap<String, WorkloadInstance> {
    let Some(spec) = &workload.spec else { return BTreeMap::new() };
    let nodes = spec.placement.iter().flat_map(|placement| &placement.nodes);
    nodes.map(|node| (instance_name(workload, node), instance(workload, node))).collect()
}

fn instance(workload: &Workload, node: &str) -> WorkloadInstance {
    let owner = meta(&workload.metadata);
    let metadata = ObjectMeta {
        name: instance_name(workload, node),
        project: owner.project.clone(),
        labels: owner.labels.clone(),
        finalizers: vec![AGENT_FINALIZER.into()],
        owner_references: vec![OwnerReference {
            api_version: workload.api_version.clone(),
            kind: workload.kind.clone(),
            name: owner.name.clone(),
            uid: owner.uid.clone(),
            controller: Some(true),
            block_owner_deletion: Some(true),
        }],
        ..ObjectMeta::default()
    };
    WorkloadInstance {
        metadata: Some(metadata),
        spec: Some(assignment(workload, node)),
        ..WorkloadInstance::default()
    }
}

fn assignment(workload: &Workload, node: &str) -> WorkloadInstanceSpec {
    let spec = workload.spec.clone().unwrap_or_default();
    let runtime = spec.runtime.map(|runtime| match runtime {
        workload_spec::Runtime::Process(process) => {
            workload_instance_spec::Runtime::Process(process)
        }
    });
    WorkloadInstanceSpec {
        workload: Some(meta(&workload.metadata).name.clone()),
        node: Some(node.to_owned()),
        restart_policy: spec.restart_policy,
        stop_signal: spec.stop_signal,
        stop_grace_seconds: spec.stop_grace_seconds,
        runtime,
    }
}

/// The same for the same workload and node, different for any other pair, and short enough for a
/// name. The workload's identity is part of it: what an old one left behind is not adopted.
fn instance_name(workload: &Workload, node: &str) -> String {
    let metadata = meta(&workload.metadata);
    let mut hash = Sha256::new();
    for part in [metadata.uid.as_str(), node] {
        hash.update(part);
        hash.update([0]);
    }
    let digest: String = hash.finalize().iter().take(4).map(|b| format!("{b:02x}")).collect();
    let clip =
        |text: &str| text.chars().take(26).collect::<String>().trim_end_matches('-').to_owned();
    format!("{}-{}-{digest}", clip(&metadata.name), clip(node))
}

fn meta(metadata: &Option<ObjectMeta>) -> &ObjectMeta {
    static NOTHING: std::sync::LazyLock<ObjectMeta> = std::sync::LazyLock::new(ObjectMeta::default);
    metadata.as_ref().unwrap_or(&NOTHING)
}

#[cfg(test)]
mod tests;
