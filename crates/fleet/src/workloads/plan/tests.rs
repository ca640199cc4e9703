use super::*;
use orrery_proto::apps::v1::{Placement, Process, WorkloadSpec};
use proptest::prelude::*;
use prost_types::Timestamp;

fn mk_workload(nodes: &[&str]) -> Workload {
    let process = Process { command: Some("true".into()), ..Process::default() };
    Workload {
        api_version: "apps.orrery.dev/v1".into(),
        kind: "Workload".into(),
        metadata: Some(ObjectMeta {
            name: "web".into(),
            project: "shop".into(),
            uid: "u-1".into(),
            ..ObjectMeta::default()
        }),
        spec: Some(WorkloadSpec {
            runtime: Some(workload_spec::Runtime::Process(process)),
            placement: Some(Placement { nodes: nodes.iter().map(|n| (*n).into()).collect() }),
            ..WorkloadSpec::default()
        }),
        status: None,
    }
}

fn names(list: &[&str]) -> BTreeSet<String> {
    list.iter().map(|name| (*name).to_owned()).collect()
}

fn nodes_of(instances: &[WorkloadInstance]) -> Vec<&str> {
    let mut nodes: Vec<_> =
        instances.iter().map(|i| i.spec.as_ref().expect("planned with a spec").node()).collect();
    nodes.sort_unstable();
    nodes
}

#[test]
fn one_copy_on_each_named_node() {
    let plan = plan(&mk_workload(&["a", "b"]), &[], &names(&["a"]));
    assert_eq!(nodes_of(&plan.create), ["a", "b"]);
    assert_eq!((plan.update, plan.delete, plan.finished), (vec![], vec![], false));
}

#[test]
fn what_is_there_stays_and_what_is_too_many_goes() {
    let both = plan(&mk_workload(&["a", "b"]), &[], &names(&[])).create;
    let next = plan(&mk_workload(&["b", "c"]), &both, &names(&["a", "b", "c"]));
    assert_eq!(nodes_of(&next.create), ["c"]);
    assert_eq!(next.delete, [instance_name(&mk_workload(&[]), "a")]);
    assert!(next.update.is_empty());
}

#[test]
fn a_changed_spec_changes_the_assignment() {
    let there = plan(&mk_workload(&["a"]), &[], &names(&[])).create;
    let mut changed = mk_workload(&["a"]);
    changed.spec.as_mut().expect("made with one").restart_policy = Some("never".into());
    let next = plan(&changed, &there, &names(&["a"]));
    assert_eq!(nodes_of(&next.update), ["a"]);
    assert!(next.create.is_empty() && next.delete.is_empty());
}

#[test]
fn an_unknown_node_is_said_and_let_go() {
    let mut there = plan(&mk_workload(&["ghost"]), &[], &names(&[])).create;
    let next = plan(&mk_workload(&["ghost"]), &there, &names(&["a"]));
    assert!(next.introduce[0].1.message.contains("no agent named \"ghost\" has ever connected"));
    let metadata = there[0].metadata.as_mut().expect("planned with metadata");
    metadata.deletion_timestamp = Some(Timestamp::default());
    let next = plan(&mk_workload(&[]), &there, &names(&["a"]));
    assert_eq!(next.release.len(), 1, "nobody else would ever let it go");
    let next = plan(&mk_workload(&[]), &there, &names(&["ghost"]));
    assert!(next.release.is_empty(), "its agent has to stop it first");
}

#[test]
fn a_deleted_workload_is_finished_when_nothing_is_left() {
    let there = plan(&mk_workload(&["a"]), &[], &names(&[])).create;
    let mut deleted = mk_workload(&["a"]);
    let metadata = deleted.metadata.as_mut().expect("made with one");
    metadata.deletion_timestamp = Some(Timestamp::default());
    let next = plan(&deleted, &there, &names(&["a"]));
    assert_eq!((next.delete.len(), next.create.len(), next.finished), (1, 0, false));
    assert!(plan(&deleted, &[], &names(&["a"])).finished);
}

proptest! {
    /// Doing what the plan says leaves nothing to do, from any start.
    #[test]
    fn converges(before in proptest::collection::btree_set("[a-e]", 0..5),
                 after in proptest::collection::btree_set("[a-e]", 0..5)) {
        let list = |set: &BTreeSet<String>| set.iter().cloned().collect::<Vec<_>>();
        let known = names(&["a", "b", "c", "d", "e"]);
        let with = |nodes: &BTreeSet<String>| {
            let nodes = list(nodes);
            mk_workload(&nodes.iter().map(String::as_str).collect::<Vec<_>>())
        };
        let mut world = plan(&with(&before), &[], &known).create;
        let next = plan(&with(&after), &world, &known);
        world.retain(|i| !next.delete.contains(&meta(&i.metadata).name));
        world.extend(next.create.clone());
        prop_assert_eq!(nodes_of(&world), after.iter().map(String::as_str).collect::<Vec<_>>());
        for instance in &mut world { instance.status = Some(WorkloadInstanceStatus::default()); }
        prop_assert_eq!(plan(&with(&after), &world, &known), Plan::default());
    }

    #[test]
    fn names_are_short_and_differ(a in "[a-z]{1,63}", b in "[a-z]{1,63}") {
        let workload = mk_workload(&[]);
        let (first, second) = (instance_name(&workload, &a), instance_name(&workload, &b));
        prop_assert!(first.len() <= 63);
        prop_assert_eq!(a == b, first == second);
    }
}
