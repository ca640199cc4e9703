//! Which copies of a workload there should be: pure.
use super::AGENT_FINALIZER;
use super::drain;
use super::placement::{Amounts, Needs, Present, Seat, Slot, place};
use super::rollout::{self, Candidate};
use super::volumes::Anchor;
use orrery_proto::apps::v1::{
    UpdateStrategy, Workload, WorkloadInstance, WorkloadInstanceSpec, WorkloadInstanceStatus,
    WorkloadSpec, workload_instance_spec, workload_spec,
};
use orrery_proto::meta::v1::{ObjectMeta, OwnerReference};
use sha2::{Digest, Sha256};
use std::collections::{BTreeMap, BTreeSet};

/// What the controller has to do; nothing of it twice.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Plan {
    /// Copies that are missing.
    pub create: Vec<WorkloadInstance>,
    /// Copies whose assignment changes now.
    pub update: Vec<WorkloadInstance>,
    /// Names of all copies that are not what is asked for yet.
    pub outdated: BTreeSet<String>,
    /// Names of copies that are too many.
    pub delete: Vec<String>,
    /// Names of copies that no agent will ever stop, because none of that name ever connected.
    pub release: Vec<String>,
    /// First words about copies that no agent has spoken of yet, to be written only where they are
    /// still as they were seen: what the agent says meanwhile is truer.
    pub introduce: Vec<WorkloadInstance>,
    /// The workload is being deleted and nothing of it is left.
    pub finished: bool,
    /// How many copies there should be.
    pub desired: usize,
    /// Why it is not as asked for, if the agents have no part in it.
    pub obstacle: Option<Obstacle>,
}

/// What stands in the way of a workload before any agent does something.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Obstacle {
    /// Some copies have no node.
    TooFewNodes(String),
    /// It waits for itself, along this way.
    Cycle(Vec<String>),
    /// It is stopped after the workload of this name, which depends on it.
    StoppedAfter(String),
}

/// What a plan depends on beside the workload and its copies.
#[derive(Clone, Debug, Default)]
pub struct Surroundings {
    /// All nodes that ever connected.
    pub nodes: BTreeMap<String, Seat>,
    /// The way from the workload back to itself, if its dependencies lead there.
    pub cycle: Option<Vec<String>>,
    /// A workload that depends on this one and is on its way out too.
    pub goes_first: Option<String>,
    /// Changes with the content of its files.
    pub files_revision: Option<String>,
    /// The volumes that its copies mount.
    pub volumes: Vec<Anchor>,
    /// The nodes of the workload that it is placed beside.
    pub beside: Vec<String>,
}

/// Decides. `instances` are all copies of this workload.
pub fn plan(workload: &Workload, instances: &[WorkloadInstance], around: &Surroundings) -> Plan {
    let deleting = meta(&workload.metadata).deletion_timestamp.is_some();
    let mut plan = Plan { finished: deleting && instances.is_empty(), ..Plan::default() };
    if let (true, Some(first)) = (deleting, &around.goes_first) {
        plan.obstacle = Some(Obstacle::StoppedAfter(first.clone()));
        return Plan { finished: false, ..plan };
    }
    let wanted =
        if deleting { BTreeMap::new() } else { wanted(workload, instances, around, &mut plan) };
    let mut present = BTreeSet::new();
    let mut staying = Vec::new();
    for instance in instances {
        let name = &meta(&instance.metadata).name;
        present.insert(name.as_str());
        staying.extend(judge(&mut plan, instance, wanted.get(name), &around.nodes));
    }
    let strategy = workload.spec.as_ref().and_then(|spec| spec.update_strategy.as_ref());
    let evicted = match is_beside(workload) {
        // They leave after those that they are beside.
        true => BTreeSet::new(),
        false => evicted(strategy, plan.desired, &staying, &around.nodes),
    };
    staying.retain(|copy| !evicted.contains(&meta(&copy.there.metadata).name));
    let outdated = staying.iter().filter(|copy| rollout::is_outdated(copy));
    plan.outdated = outdated.map(|copy| meta(&copy.there.metadata).name.clone()).collect();
    let missing = wanted.iter().filter(|(name, _)| !present.contains(name.as_str()));
    plan.create = missing.map(|(_, instance)| introduced(instance, &around.nodes)).collect();
    let awaited = plan.create.iter().filter(|copy| is_reachable(copy, &around.nodes)).count();
    plan.update = rollout::updates(strategy, &staying, evicted.len() + awaited);
    plan.delete.extend(evicted);
    plan
}

fn is_beside(workload: &Workload) -> bool {
    let placement = workload.spec.as_ref().and_then(|spec| spec.placement.as_ref());
    placement.is_some_and(|placement| placement.beside.is_some())
}

/// A new copy with the first words about it.
fn introduced(copy: &WorkloadInstance, nodes: &BTreeMap<String, Seat>) -> WorkloadInstance {
    let status = Some(introduction(node(copy), nodes.contains_key(node(copy))));
    WorkloadInstance { status, ..copy.clone() }
}

/// The copies that leave nodes which are to be emptied.
fn evicted(
    strategy: Option<&UpdateStrategy>,
    desired: usize,
    staying: &[Candidate<'_>],
    nodes: &BTreeMap<String, Seat>,
) -> BTreeSet<String> {
    let standing = staying.iter().map(|copy| drain::Standing {
        name: &meta(&copy.there.metadata).name,
        to_leave: nodes.get(node(copy.there)).is_some_and(|seat| seat.draining),
        available: rollout::is_available(copy.there),
    });
    let standing: Vec<_> = standing.collect();
    drain::evicted(rollout::max_unavailable(strategy), desired, &standing)
}

fn node(instance: &WorkloadInstance) -> &str {
    instance.spec.as_ref().map_or("", WorkloadInstanceSpec::node)
}

fn is_reachable(instance: &WorkloadInstance, nodes: &BTreeMap<String, Seat>) -> bool {
    nodes.get(node(instance)).is_some_and(|seat| seat.ready)
}

/// What becomes of a copy that is there; returned when it stays.
fn judge<'a>(
    plan: &mut Plan,
    instance: &'a WorkloadInstance,
    wanted: Option<&'a WorkloadInstance>,
    nodes: &BTreeMap<String, Seat>,
) -> Option<Candidate<'a>> {
    let metadata = meta(&instance.metadata);
    let name = metadata.name.clone();
    let node = node(instance);
    let known = nodes.contains_key(node);
    if metadata.deletion_timestamp.is_some() {
        let held = metadata.finalizers.iter().any(|finalizer| finalizer == AGENT_FINALIZER);
        if held && !known {
            plan.release.push(name);
        }
        return None;
    }
    let Some(wanted) = wanted else {
        plan.delete.push(name);
        return None;
    };
    if instance.status.is_none() {
        let status = Some(introduction(node, known));
        plan.introduce.push(WorkloadInstance { status, ..instance.clone() });
    }
    let reachable = is_reachable(instance, nodes);
    Some(Candidate { there: instance, wanted, reachable })
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
fn wanted(
    workload: &Workload,
    instances: &[WorkloadInstance],
    around: &Surroundings,
    plan: &mut Plan,
) -> BTreeMap<String, WorkloadInstance> {
    let Some(spec) = &workload.spec else { return BTreeMap::new() };
    let placement = spec.placement.clone().unwrap_or_default();
    let present = present(instances);
    let amounts = Amounts::requested(spec.resources.as_ref());
    let (volumes, beside) = (&around.volumes, &around.beside);
    let needs = Needs { runtime: runtime_name(spec), amounts, volumes, beside };
    let mut placed = place(&placement, needs, &present, &around.nodes);
    plan.desired = placed.desired;
    plan.obstacle = placed.shortage.map(Obstacle::TooFewNodes);
    if let Some(cycle) = &around.cycle {
        // What runs goes on; what would wait for ever is not placed at all.
        placed.slots.retain(|slot| present.staying.contains(slot));
        plan.obstacle = Some(Obstacle::Cycle(cycle.clone()));
    }
    let named = |slot: &Slot| {
        let mut copy = instance(workload, slot);
        if let Some(spec) = &mut copy.spec {
            spec.files_revision.clone_from(&around.files_revision);
        }
        (instance_name(workload, slot), copy)
    };
    placed.slots.iter().map(named).collect()
}

fn present(instances: &[WorkloadInstance]) -> Present {
    let mut present = Present::default();
    for instance in instances {
        let Some(spec) = &instance.spec else { continue };
        let slot = Slot { node: spec.node().to_owned(), copy: spec.copy() };
        let leaving = meta(&instance.metadata).deletion_timestamp.is_some();
        let slots = if leaving { &mut present.leaving } else { &mut present.staying };
        slots.insert(slot);
    }
    present
}

/// The runtime that a node must have, as agents name it.
fn runtime_name(spec: &WorkloadSpec) -> &'static str {
    match &spec.runtime {
        Some(workload_spec::Runtime::Process(_)) => "process",
        Some(workload_spec::Runtime::Podman(_)) => "podman",
        // Refused before it is stored; no node has a runtime without a name.
        None => "",
    }
}

fn instance(workload: &Workload, slot: &Slot) -> WorkloadInstance {
    let owner = meta(&workload.metadata);
    let metadata = ObjectMeta {
        name: instance_name(workload, slot),
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
        spec: Some(assignment(workload, slot)),
        ..WorkloadInstance::default()
    }
}

fn assignment(workload: &Workload, slot: &Slot) -> WorkloadInstanceSpec {
    let spec = workload.spec.clone().unwrap_or_default();
    let runtime = spec.runtime.map(|runtime| match runtime {
        workload_spec::Runtime::Process(process) => {
            workload_instance_spec::Runtime::Process(process)
        }
        workload_spec::Runtime::Podman(podman) => workload_instance_spec::Runtime::Podman(podman),
    });
    WorkloadInstanceSpec {
        workload: Some(meta(&workload.metadata).name.clone()),
        node: Some(slot.node.clone()),
        restart_policy: spec.restart_policy,
        stop_signal: spec.stop_signal,
        stop_grace_seconds: spec.stop_grace_seconds,
        runtime,
        copy: (0 < slot.copy).then_some(slot.copy),
        depends_on: spec.depends_on,
        resources: spec.resources,
        readiness_probe: spec.readiness_probe,
        liveness_probe: spec.liveness_probe,
        files: spec.files,
        files_revision: None,
        held: None,
        restarted_at: spec.restarted_at,
        volumes: spec.volumes,
    }
}

/// The same for the same workload, node and number, different for any others, and short enough for
/// a name. The workload's identity is part of it: what an old one left behind is not adopted.
fn instance_name(workload: &Workload, slot: &Slot) -> String {
    let metadata = meta(&workload.metadata);
    let mut hash = Sha256::new();
    for part in [metadata.uid.as_str(), &slot.node] {
        hash.update(part);
        hash.update([0]);
    }
    if 0 < slot.copy {
        hash.update(slot.copy.to_le_bytes());
    }
    let digest: String = hash.finalize().iter().take(4).map(|b| format!("{b:02x}")).collect();
    let clip =
        |text: &str| text.chars().take(26).collect::<String>().trim_end_matches('-').to_owned();
    format!("{}-{}-{digest}", clip(&metadata.name), clip(&slot.node))
}

fn meta(metadata: &Option<ObjectMeta>) -> &ObjectMeta {
    static NOTHING: std::sync::LazyLock<ObjectMeta> = std::sync::LazyLock::new(ObjectMeta::default);
    metadata.as_ref().unwrap_or(&NOTHING)
}

#[cfg(test)]
mod tests;
