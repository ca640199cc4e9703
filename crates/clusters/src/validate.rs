//! What the definitions cannot say with options alone.
use crate::names::{CLUSTER_NAME_MAX, LABELS, PART_NAME_MAX};
use crate::plan::providers::{self, Machines};
use orrery_api::{LabelSelector, Object, Reason, Violation};
use orrery_proto::infra::v1::{Addon, AwsMachines, Blueprint, Cluster, ClusterSpec, QemuMachines};
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// Refuses a cluster that could never be made.
pub fn cluster(object: &Object, old: Option<&Object>) -> Vec<Violation> {
    // What cannot be read as a cluster has been refused by then, with its own words.
    let Ok(cluster) = object.typed::<Cluster>() else { return Vec::new() };
    let spec = cluster.spec.unwrap_or_default();
    let mut found = name(object.name(), CLUSTER_NAME_MAX, "what it makes begin with it");
    let before = old.and_then(|old| old.typed::<Cluster>().ok()).and_then(|old| old.spec);
    found.extend(before.and_then(|before| other_provider(&before, &spec)));
    for (number, pool) in spec.pools.iter().enumerate() {
        let path = format!("spec.pools[{number}]");
        found.extend(labels(&format!("{path}.labels"), &pool.labels));
        match providers::machines(&spec, pool) {
            Ok(machines) => found.extend(machines.iter().flat_map(|it| missing(it, pool.name()))),
            Err(other) => {
                let (mine, theirs) = (other.cluster, other.pool);
                let why = format!(
                    "the cluster is of the provider {mine:?}: write {mine} here, or name a class"
                );
                found.push(Violation::forbidden(format!("{path}.{theirs}"), &why));
            }
        }
    }
    // What is missing for all pools is said once.
    found.dedup_by(|one, other| one.path == other.path);
    found
}

/// The class of a pool cannot become one of another driver, and machines cannot move.
fn other_provider(before: &ClusterSpec, now: &ClusterSpec) -> Option<Violation> {
    let (before, now) = (providers::provider(before), providers::provider(now));
    let differs = !before.is_empty() && !now.is_empty() && before != now;
    let why = format!("a cluster stays with its provider {before:?}: create another cluster");
    differs.then(|| Violation::forbidden(format!("spec.{now}"), &why))
}

/// What neither the cluster nor the pool says, and the driver needs.
fn missing(machines: &Machines, pool: &str) -> Vec<Violation> {
    match machines {
        Machines::Process(_) => Vec::new(),
        Machines::Qemu(qemu) => missing_of_qemu(qemu, pool),
        Machines::Aws(aws) => missing_of_aws(aws, pool),
    }
}

fn missing_of_qemu(qemu: &QemuMachines, pool: &str) -> Vec<Violation> {
    let QemuMachines { kernel, initramfs, disk, .. } = qemu;
    let hint = |what: &str| format!("{what}, for all pools here or in the pool {pool:?}");
    let (field, what) = match (kernel, initramfs, disk) {
        (Some(_), Some(_), _) | (None, None, Some(_)) => return Vec::new(),
        (Some(_), None, _) => ("initramfs", "a kernel needs an initramfs"),
        (None, Some(_), _) => ("kernel", "an initramfs needs a kernel"),
        (None, None, None) => ("disk", "name an image, or a kernel and an initramfs"),
    };
    vec![Violation::required(format!("spec.qemu.{field}"), &hint(what))]
}

fn missing_of_aws(aws: &AwsMachines, pool: &str) -> Vec<Violation> {
    let needed = [
        ("ami", &aws.ami, "name the image"),
        ("region", &aws.region, "name the region"),
        ("machineType", &aws.machine_type, "name the instance type"),
        ("secret", &aws.secret, "name the secret with the credentials"),
    ];
    let absent = needed.into_iter().filter(|(_, value, _)| value.is_none());
    let hint = |what: &str| format!("{what}, for all pools here or in the pool {pool:?}");
    let of = |(field, _, what): (&str, _, &str)| {
        Violation::required(format!("spec.aws.{field}"), &hint(what))
    };
    absent.map(of).collect()
}

/// Refuses a blueprint that names an addon twice: it would have to be before and after itself.
pub fn blueprint(object: &Object, _old: Option<&Object>) -> Vec<Violation> {
    let Ok(blueprint) = object.typed::<Blueprint>() else { return Vec::new() };
    let mut known = BTreeSet::new();
    let mut found = Vec::new();
    for (number, addon) in blueprint.spec.unwrap_or_default().addons.iter().enumerate() {
        if !known.insert(addon.name().to_owned()) {
            let text = format!(
                "Duplicate value: {:?}: an addon stands in a blueprint once; take one of them out",
                addon.name()
            );
            let path = format!("spec.addons[{number}].name");
            found.push(Violation::new(path, Reason::Duplicate, text));
        }
    }
    found
}

/// Refuses an addon whose workloads could not be named or labelled.
pub fn addon(object: &Object, _old: Option<&Object>) -> Vec<Violation> {
    let Ok(addon) = object.typed::<Addon>() else { return Vec::new() };
    let mut found = name(object.name(), PART_NAME_MAX, "workloads end with it");
    let template = addon.spec.and_then(|spec| spec.template).unwrap_or_default();
    found.extend(labels("spec.template.labels", &template.labels));
    found
}

fn name(name: &str, max: usize, because: &str) -> Vec<Violation> {
    if name.len() <= max {
        return Vec::new();
    }
    let why = format!("must have at most {max} characters, because the names of {because}");
    vec![Violation::invalid("metadata.name", format_args!("{name:?}"), &why)]
}

/// Labels that nothing could carry would be noticed only when it is made, and those of ours are set by us.
fn labels(path: &str, labels: &HashMap<String, String>) -> Vec<Violation> {
    let problem = |key: &str, value: &str| {
        if key.starts_with(LABELS) {
            return Some(format!("must not begin with {LABELS:?}: the cluster sets such labels"));
        }
        LabelSelector::parse(&format!("{key}={value}")).err().map(|error| error.to_string())
    };
    let labels: BTreeMap<&String, &String> = labels.iter().collect();
    let bad = labels.into_iter().filter_map(|(key, value)| {
        let why = problem(key, value)?;
        Some(Violation::invalid(format!("{path}[{key}]"), format_args!("{value:?}"), &why))
    });
    bad.collect()
}

#[cfg(test)]
mod tests;
