use super::*;
use orrery_proto::apps::v1::{
    Process, WorkloadInstanceSpec, WorkloadInstanceStatus, WorkloadStatus,
};
use orrery_proto::infra::v1::AddonSpec;
use orrery_proto::meta::v1::Condition;
use proptest::prelude::*;
use std::collections::BTreeMap;

fn mk_cluster() -> Cluster {
    let metadata = ObjectMeta {
        name: "edge".to_owned(),
        project: "shop".to_owned(),
        uid: "u1".to_owned(),
        ..ObjectMeta::default()
    };
    Cluster { metadata: Some(metadata), ..Cluster::default() }
}

fn mk_addon(name: &str, version: &str) -> Addon {
    let process = Process { command: Some("/bin/x".to_owned()), ..Process::default() };
    let template = AddonTemplate {
        runtime: Some(addon_template::Runtime::Process(process)),
        restart_policy: Some("always".to_owned()),
        files: vec![AddonFile {
            path: Some("f".to_owned()),
            source: Some(addon_file::Source::Text("t".to_owned())),
            mode: Some("0644".to_owned()),
        }],
        ..AddonTemplate::default()
    };
    let spec = AddonSpec { version: Some(version.to_owned()), template: Some(template) };
    let metadata = ObjectMeta { name: name.to_owned(), ..ObjectMeta::default() };
    Addon { metadata: Some(metadata), spec: Some(spec), ..Addon::default() }
}

fn selector(workload: &Workload) -> BTreeMap<String, String> {
    let placement = workload.spec.clone().and_then(|spec| spec.placement).unwrap_or_default();
    placement.selector.unwrap_or_default().match_labels.into_iter().collect()
}

#[test]
fn an_addon_becomes_a_workload_on_the_nodes_of_its_cluster() {
    let made = workload(&mk_cluster(), &mk_addon("log", "1.0"), None);
    let metadata = meta(&made.metadata);
    assert_eq!((&*metadata.project, &*metadata.name), ("shop", "edge-log"));
    assert_eq!(metadata.labels[ADDON_LABEL], "log");
    assert_eq!(metadata.owner_references[0].uid, "u1");
    let spec = made.spec.clone().unwrap_or_default();
    assert_eq!((spec.version(), spec.restart_policy()), ("1.0", "always"));
    assert_eq!(spec.files[0].source, Some(file::Source::Text("t".to_owned())));
    assert_eq!(spec.placement.and_then(|it| it.replicas), None, "one on each");
    let of_cluster = (CLUSTER_UID_LABEL.to_owned(), "u1".to_owned());
    assert_eq!(selector(&made), BTreeMap::from([of_cluster.clone()]));
    let next = workload(&mk_cluster(), &mk_addon("mesh", "1"), Some("log"));
    let had = ("clusters.orrery.dev/has.log".to_owned(), "true".to_owned());
    assert_eq!(selector(&next), BTreeMap::from([of_cluster, had]));
}

fn mk_copy(node: &str, state: &str, ready: Option<bool>) -> WorkloadInstance {
    let spec = WorkloadInstanceSpec { node: Some(node.to_owned()), ..<_>::default() };
    let status = WorkloadInstanceStatus {
        state: state.to_owned(),
        ready,
        observed_generation: 1,
        ..WorkloadInstanceStatus::default()
    };
    WorkloadInstance {
        metadata: Some(ObjectMeta { generation: 1, ..ObjectMeta::default() }),
        spec: Some(spec),
        status: Some(status),
        ..WorkloadInstance::default()
    }
}

fn set(names: &str) -> Nodes {
    names.split_whitespace().map(str::to_owned).collect()
}

#[test]
fn copies_count_where_they_can_do_their_work() {
    let mut outdated = mk_copy("d", "Running", None);
    outdated.metadata.as_mut().expect("just made").generation = 2;
    let copies = [
        mk_copy("a", "Running", None),
        mk_copy("b", "Running", Some(false)),
        mk_copy("c", "Succeeded", None),
        outdated,
        mk_copy("e", "Failed", None),
        mk_copy("elsewhere", "Running", Some(true)),
    ];
    assert_eq!(ready_on(&set("a b c d e f"), &copies), set("a c"));
}

fn mk_workload(generations: (i64, i64), state: &str, ready: bool) -> Workload {
    let condition = Condition {
        r#type: "Ready".to_owned(),
        status: if ready { "True" } else { "False" }.to_owned(),
        observed_generation: generations.1,
        message: "1 of 2 copies are as asked for".to_owned(),
        ..Condition::default()
    };
    let status = WorkloadStatus {
        state: state.to_owned(),
        message: if state == "Failed" { "it broke".to_owned() } else { String::new() },
        observed_generation: generations.1,
        conditions: vec![condition],
        ..WorkloadStatus::default()
    };
    let metadata = ObjectMeta { generation: generations.0, ..ObjectMeta::default() };
    Workload { metadata: Some(metadata), status: Some(status), ..Workload::default() }
}

#[track_caller]
fn check(workload: &Workload, nodes: &str, ready: &str, machines: i32, expect: (&str, &str)) {
    let (nodes, ready) = (&set(nodes), &set(ready));
    let said = judge(&Seen { addon: "log", workload, nodes, ready, machines_wanted: machines });
    assert_eq!((&*said.state, &*said.message), expect);
}

#[test]
fn an_addon_is_ready_when_every_machine_has_it() {
    let good = mk_workload((1, 1), "Running", true);
    check(&good, "a b", "a b", 2, ("Ready", ""));
    check(&good, "a b", "a", 2, ("Progressing", "ready on 1 of 2 machines, not on b"));
    check(&good, "", "", 2, ("Progressing", "no machine has joined yet"));
    check(&good, "", "", 0, ("Ready", ""));
    let new = mk_workload((2, 1), "Running", true);
    check(&new, "a b", "a b", 2, ("Progressing", "it has just been put in place"));
    let rolling = mk_workload((1, 1), "Running", false);
    check(&rolling, "a", "a", 1, ("Progressing", "1 of 2 copies are as asked for"));
    let broken = mk_workload((1, 1), "Failed", false);
    check(&broken, "a", "", 1, ("Failing", "it broke"));
    let mut unfit = mk_workload((1, 1), "Pending", false);
    unfit.status.as_mut().expect("just made").reason = "StartingFailed".to_owned();
    check(&unfit, "a b", "a", 2, ("Failing", "StartingFailed"));
}

#[test]
fn an_addon_waits_for_those_before_it() {
    let addon = mk_addon("mesh", "2");
    let said = waiting(&addon, None, "log");
    assert_eq!((&*said.state, &*said.version), ("Waiting", ""));
    assert!(said.message.contains("\"log\" is ready"), "{}", said.message);
    let there = |version: &str| AddonProgress {
        name: "mesh".to_owned(),
        version: version.to_owned(),
        state: "Ready".to_owned(),
        ..AddonProgress::default()
    };
    let said = waiting(&addon, Some(there("1")), "log");
    assert_eq!((&*said.state, &*said.version), ("Waiting", "1"));
    assert!(said.message.starts_with("version \"2\""), "{}", said.message);
    assert_eq!(waiting(&addon, Some(there("2")), "log"), there("2"), "it stays what it is");
}

proptest! {
    /// A world in which nodes join at any time and copies become ready in any order: no copy is on a node that has not
    /// had the addon before it, and in the end every node has all of them.
    #[test]
    fn the_order_holds_on_every_node(
        steps in prop::collection::vec((0usize..4, 0usize..3), 0..60),
    ) {
        let addons = ["a", "b", "c"];
        let made: Vec<Workload> = addons.iter().enumerate().map(|(number, name)| {
            let after = number.checked_sub(1).map(|before| addons[before]);
            workload(&mk_cluster(), &mk_addon(name, "1"), after)
        }).collect();
        let of_cluster = (CLUSTER_UID_LABEL.to_owned(), "u1".to_owned());
        let mut labels: BTreeMap<usize, BTreeMap<String, String>> = BTreeMap::new();
        let mut ready: BTreeSet<(usize, usize)> = BTreeSet::new();
        let settle = (0..4).flat_map(|node| (0..3).map(move |addon| (node, addon)));
        for (node, addon) in steps.into_iter().chain(settle) {
            let on = labels.entry(node).or_insert_with(|| BTreeMap::from([of_cluster.clone()]));
            let chosen = selector(&made[addon]).iter().all(|(key, value)| on.get(key) == Some(value));
            if !chosen {
                continue;
            }
            prop_assert!(addon == 0 || ready.contains(&(node, addon - 1)));
            ready.insert((node, addon));
            let name = node.to_string();
            let now = [name.clone()].into();
            let has = |_: &str, label: &str| on.contains_key(label);
            let missing = to_label(addons[addon], &now, has).len();
            prop_assert_eq!(missing, usize::from(!on.contains_key(&has_addon(addons[addon]))));
            on.insert(has_addon(addons[addon]), HAS_IT.to_owned());
        }
        prop_assert_eq!(ready.len(), 12);
    }
}
