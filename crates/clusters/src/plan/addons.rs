//! What the addons of a blueprint become on a cluster, in which order, and how far they are: pure.
//!
//! ```text
//!   first addon ── on every node of the cluster
//!   next addon ─── on every node of the cluster on which the one before it has been ready
//! ```
//! That a node has had an addon ready is a label on it, so that the order holds on a machine that joins later, too.
//! A version is put in place only when the addons before it are ready everywhere.
use super::State;
use crate::names::{self, ADDON_LABEL, CLUSTER_UID_LABEL, has_addon, meta};
use orrery_proto::apps::v1::{
    File, NodeSelector, Placement, Workload, WorkloadInstance, WorkloadSpec, file, workload_spec,
};
use orrery_proto::infra::v1::{
    Addon, AddonFile, AddonProgress, AddonTemplate, Cluster, addon_file, addon_template,
};
use orrery_proto::meta::v1::ObjectMeta;
use std::collections::BTreeSet;

/// The value of the label that says that a node has had an addon.
pub const HAS_IT: &str = "true";

/// The workload that an addon becomes; `after` is the addon before it in the blueprint.
pub fn workload(cluster: &Cluster, addon: &Addon, after: Option<&str>) -> Workload {
    let own = meta(&cluster.metadata);
    let name = &meta(&addon.metadata).name;
    let spec = addon.spec.clone().unwrap_or_default();
    let template = spec.template.unwrap_or_default();
    let ours = names::labels(cluster).into_iter().chain([(ADDON_LABEL.to_owned(), name.clone())]);
    let metadata = ObjectMeta {
        name: names::part(&own.name, name),
        project: own.project.clone(),
        labels: template.labels.clone().into_iter().chain(ours).collect(),
        owner_references: vec![names::owned_by(cluster)],
        ..ObjectMeta::default()
    };
    let of_cluster = (CLUSTER_UID_LABEL.to_owned(), own.uid.clone());
    let had = after.map(|after| (has_addon(after), HAS_IT.to_owned()));
    let selector = NodeSelector { match_labels: [of_cluster].into_iter().chain(had).collect() };
    let placement = Placement { selector: Some(selector), ..Placement::default() };
    let spec = filled(template, placement, spec.version);
    Workload { metadata: Some(metadata), spec: Some(spec), ..Workload::default() }
}

/// What an addon runs, as a workload has it. Every field of a workload is named here, so that a new one is thought of.
pub fn filled(of: AddonTemplate, placement: Placement, version: Option<String>) -> WorkloadSpec {
    WorkloadSpec {
        placement: Some(placement),
        restart_policy: of.restart_policy,
        stop_signal: of.stop_signal,
        stop_grace_seconds: of.stop_grace_seconds,
        // The order is the blueprint's.
        depends_on: Vec::new(),
        resources: of.resources,
        readiness_probe: of.readiness_probe,
        liveness_probe: of.liveness_probe,
        files: of.files.into_iter().map(file_of).collect(),
        update_strategy: of.update_strategy,
        version,
        // Who restarts the copies says so in the workload itself.
        restarted_at: None,
        // A volume is of one machine, and an addon of all.
        volumes: Vec::new(),
        runtime: of.runtime.map(|runtime| match runtime {
            addon_template::Runtime::Process(it) => workload_spec::Runtime::Process(it),
            addon_template::Runtime::Podman(it) => workload_spec::Runtime::Podman(it),
        }),
    }
}

fn file_of(of: AddonFile) -> File {
    let source = of.source.map(|source| match source {
        addon_file::Source::Secret(secret) => file::Source::Secret(secret),
        addon_file::Source::Text(text) => file::Source::Text(text),
    });
    File { path: of.path, source, mode: of.mode }
}

/// One machine of a cluster that should have all addons: the name of its node.
pub type Nodes = BTreeSet<String>;

/// On which of the nodes an addon is ready: its copies there run what they should and can do their work.
pub fn ready_on(nodes: &Nodes, copies: &[WorkloadInstance]) -> Nodes {
    let ready = copies.iter().filter(|copy| is_available(copy));
    let of = ready.filter_map(|copy| Some(copy.spec.as_ref()?.node().to_owned()));
    of.filter(|node| nodes.contains(node)).collect()
}

fn is_available(copy: &WorkloadInstance) -> bool {
    let metadata = meta(&copy.metadata);
    copy.status.as_ref().is_some_and(|status| {
        metadata.deletion_timestamp.is_none()
            && status.observed_generation == metadata.generation
            && matches!(status.state.as_str(), "Running" | "Succeeded")
            && status.ready != Some(false)
    })
}

/// What an addon is judged by.
#[derive(Clone, Debug)]
pub struct Seen<'a> {
    pub addon: &'a str,
    pub workload: &'a Workload,
    /// The machines that should have it.
    pub nodes: &'a Nodes,
    /// Those of them that have it.
    pub ready: &'a Nodes,
    /// How many machines the cluster should have, here or not.
    pub machines_wanted: i32,
}

/// How far an addon is that has been put in place.
pub fn judge(seen: &Seen<'_>) -> AddonProgress {
    let status = seen.workload.status.clone().unwrap_or_default();
    let generation = meta(&seen.workload.metadata).generation;
    let ready = status.conditions.iter().find(|condition| condition.r#type == "Ready");
    let as_asked = status.observed_generation == generation
        && ready.is_some_and(|it| it.status == "True" && it.observed_generation == generation);
    let missing = seen.nodes.difference(seen.ready).next();
    let (state, message) = match missing {
        _ if status.observed_generation != generation => {
            (State::Progressing, "it has just been put in place".to_owned())
        }
        // An agent that cannot start it tries again, but hardly ever with success.
        _ if status.state == "Failed" || status.reason == "StartingFailed" => {
            (State::Failing, why(&status.reason, &status.message))
        }
        Some(node) => {
            let more = why(&status.reason, &status.message);
            let more = if more.is_empty() { more } else { format!(": {more}") };
            let (have, all) = (seen.ready.len(), seen.nodes.len());
            let text = format!("ready on {have} of {all} machines, not on {node}{more}");
            (State::Progressing, text)
        }
        None if !as_asked => {
            (State::Progressing, ready.map(|it| it.message.clone()).unwrap_or_default())
        }
        None if seen.nodes.is_empty() && 0 < seen.machines_wanted => {
            (State::Progressing, "no machine has joined yet".to_owned())
        }
        None => (State::Ready, String::new()),
    };
    AddonProgress {
        wanted: count(seen.nodes),
        running: count(seen.ready),
        ..present(seen.addon, Some(seen.workload), state, message)
    }
}

fn why(reason: &str, message: &str) -> String {
    let parts = [reason, message].into_iter().filter(|part| !part.is_empty());
    parts.collect::<Vec<_>>().join(", ")
}

fn count(nodes: &Nodes) -> i32 {
    i32::try_from(nodes.len()).unwrap_or(i32::MAX)
}

/// What is said of an addon without a look at its copies.
pub fn present(
    addon: &str,
    workload: Option<&Workload>,
    state: State,
    message: String,
) -> AddonProgress {
    let spec = workload.and_then(|workload| workload.spec.as_ref());
    AddonProgress {
        name: addon.to_owned(),
        version: spec.map(|spec| spec.version().to_owned()).unwrap_or_default(),
        workload: workload.map(|it| meta(&it.metadata).name.clone()).unwrap_or_default(),
        state: state.as_str().to_owned(),
        message,
        ..AddonProgress::default()
    }
}

/// What is said of an addon whose turn has not come, because the addon `first` is not ready; `seen` is how far it is
/// if it has been put in place before.
pub fn waiting(addon: &Addon, seen: Option<AddonProgress>, first: &str) -> AddonProgress {
    let name = &meta(&addon.metadata).name;
    let version = addon.spec.as_ref().map(|spec| spec.version()).unwrap_or_default();
    let waits = |text: String| present(name, None, State::Waiting, text);
    match seen {
        None => waits(format!("it is put in place when addon {first:?} is ready")),
        Some(seen) if seen.version != version => {
            let text = format!("version {version:?} is put in place when addon {first:?} is ready");
            AddonProgress { state: State::Waiting.as_str().to_owned(), message: text, ..seen }
        }
        Some(seen) => seen,
    }
}

/// The nodes that lack the label of an addon which is ready on them.
pub fn to_label<'a>(
    addon: &str,
    ready: &'a Nodes,
    labelled: impl Fn(&str, &str) -> bool,
) -> Vec<&'a String> {
    let label = has_addon(addon);
    ready.iter().filter(|node| !labelled(node, &label)).collect()
}

#[cfg(test)]
mod tests;
