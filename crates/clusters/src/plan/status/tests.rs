use super::*;
use orrery_proto::infra::v1::{ClusterSpec, ProcessMachines, cluster_spec};
use orrery_proto::meta::v1::ObjectMeta;
use proptest::prelude::*;

fn mk_cluster(blueprint: bool) -> Cluster {
    let provider = Some(cluster_spec::Provider::Process(ProcessMachines::default()));
    let blueprint = blueprint.then(|| "base".to_owned());
    let metadata = ObjectMeta { generation: 7, ..ObjectMeta::default() };
    let spec = ClusterSpec { provider, blueprint, ..ClusterSpec::default() };
    Cluster { metadata: Some(metadata), spec: Some(spec), ..Cluster::default() }
}

fn mk_pool(state: &str, ready: i32, wanted: i32) -> PoolStatus {
    PoolStatus {
        name: "workers".to_owned(),
        state: state.to_owned(),
        message: "so far".to_owned(),
        wanted,
        ready,
        ..PoolStatus::default()
    }
}

fn mk_addon(name: &str, state: &str) -> AddonProgress {
    AddonProgress {
        name: name.to_owned(),
        state: state.to_owned(),
        message: "so far".to_owned(),
        ..AddonProgress::default()
    }
}

/// The cluster in a line: its state, conditions, counts, and what it says.
fn shown(parts: Parts, blueprint: bool) -> String {
    let status = summarize(&mk_cluster(blueprint), parts, Timestamp::default());
    let conditions: Vec<String> = status
        .conditions
        .iter()
        .map(|it| format!("{}={}({})", it.r#type, it.status, it.reason))
        .collect();
    assert!(status.conditions.iter().all(|it| it.observed_generation == 7));
    let ClusterStatus { state, machines, addons_ready, progress, message, .. } = status;
    let conditions = conditions.join(" ");
    format!("{state} {machines} {addons_ready} {progress}% {conditions} | {message}")
}

#[track_caller]
fn check(pools: &[PoolStatus], addons: &[AddonProgress], blueprint: bool, expect: &str) {
    let parts = Parts { pools: pools.to_vec(), addons: addons.to_vec(), obstacle: None };
    assert_eq!(shown(parts, blueprint), expect);
}

#[test]
fn a_cluster_is_ready_when_its_machines_and_addons_are() {
    check(
        &[mk_pool("Ready", 2, 2)],
        &[mk_addon("log", "Ready")],
        true,
        "Ready 2/2 1/1 100% Ready=True(Ready) MachinesReady=True(Ready) AddonsReady=True(Ready) | ",
    );
    check(
        &[mk_pool("Ready", 0, 0)],
        &[],
        false,
        "Ready 0/0 0/0 100% Ready=True(Ready) MachinesReady=True(Ready) AddonsReady=True(NoBlueprint) | ",
    );
}

#[test]
fn what_it_waits_for_is_said() {
    check(
        &[mk_pool("Progressing", 1, 2)],
        &[mk_addon("log", "Progressing"), mk_addon("mesh", "Waiting")],
        true,
        "Progressing 1/2 0/2 25% Ready=False(Progressing) MachinesReady=False(Progressing) \
         AddonsReady=False(Progressing) | pool \"workers\": so far",
    );
    check(
        &[mk_pool("Progressing", 1, 2)],
        &[mk_addon("log", "Failing"), mk_addon("mesh", "Waiting")],
        true,
        "Failing 1/2 0/2 25% Ready=False(Failing) MachinesReady=False(Progressing) \
         AddonsReady=False(Failing) | addon \"log\": so far",
    );
    check(
        &[mk_pool("Ready", 2, 2), mk_pool("Removing", 0, 0)],
        &[],
        true,
        "Progressing 2/2 0/0 100% Ready=False(Progressing) MachinesReady=False(Progressing) \
         AddonsReady=True(Ready) | pool \"workers\": so far",
    );
    check(
        &[mk_pool("Ready", 2, 2)],
        &[mk_addon("log", "Ready"), mk_addon("old", "Removing")],
        true,
        "Progressing 2/2 1/1 100% Ready=False(Progressing) MachinesReady=True(Ready) \
         AddonsReady=False(Progressing) | addon \"old\": so far",
    );
    let obstacle = Obstacle { reason: "BlueprintNotFound", message: "there is none".to_owned() };
    let parts =
        Parts { pools: vec![mk_pool("Ready", 1, 1)], addons: vec![], obstacle: Some(obstacle) };
    let expect = "Failing 1/1 0/0 100% Ready=False(BlueprintNotFound) MachinesReady=True(Ready) \
                  AddonsReady=False(BlueprintNotFound) | there is none";
    assert_eq!(shown(parts, true), expect);
}

#[test]
fn what_others_say_of_it_stays() {
    let mut cluster = mk_cluster(false);
    let synced = Condition { r#type: "Synced".to_owned(), ..Condition::default() };
    let before = ClusterStatus { conditions: vec![synced.clone()], ..ClusterStatus::default() };
    cluster.status = Some(before);
    let status = summarize(&cluster, Parts::default(), Timestamp::default());
    assert_eq!(status.conditions[0], synced);
    let status = leaving(&cluster, Parts::default(), "waiting", Timestamp::default());
    assert_eq!((&*status.state, &*status.message), ("Deleting", "waiting"));
    assert_eq!(status.conditions[0], synced);
}

proptest! {
    /// Ready means that every part is, and only then is everything done.
    #[test]
    fn ready_is_the_sum_of_all(
        pools in prop::collection::vec(("Ready|Progressing|Failing|Removing", 0i32..5), 0..4),
        addons in prop::collection::vec("Ready|Progressing|Waiting|Failing|Removing", 0..4),
    ) {
        let pools: Vec<_> = pools.iter().map(|(state, wanted)| {
            let ready = if state == "Ready" { *wanted } else { 0 };
            mk_pool(state, ready, *wanted)
        }).collect();
        let addons: Vec<_> = addons.iter().map(|state| mk_addon("a", state)).collect();
        let all = pools.iter().all(|it| it.state == "Ready") && addons.iter().all(|it| it.state == "Ready");
        let parts = Parts { pools, addons, obstacle: None };
        let cluster = mk_cluster(true);
        let status = summarize(&cluster, parts.clone(), Timestamp::default());
        prop_assert_eq!(status.state == "Ready", all);
        prop_assert_eq!(status.conditions[0].status == "True", all);
        prop_assert!(!all || status.progress == 100);
        let again = Cluster { status: Some(status.clone()), ..cluster };
        let later = Timestamp { seconds: 9, nanos: 0 };
        prop_assert_eq!(summarize(&again, parts, later), status, "the same is said once");
    }
}
