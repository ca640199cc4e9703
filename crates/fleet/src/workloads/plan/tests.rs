use super::*;
use orrery_proto::apps::v1::{Placement, Process};
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
            placement: Some(Placement {
                nodes: nodes.iter().map(|n| (*n).into()).collect(),
                ..Placement::default()
            }),
            ..WorkloadSpec::default()
        }),
        status: None,
    }
}

fn names(list: &[&str]) -> Surroundings {
    let nodes = list.iter().map(|name| ((*name).to_owned(), Seat::default())).collect();
    Surroundings { nodes, ..Surroundings::default() }
}

fn slot(node: &str, copy: i32) -> Slot {
    Slot { node: node.to_owned(), copy }
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
    assert_eq!(next.delete, [instance_name(&mk_workload(&[]), &slot("a", 0))]);
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
    let said = |copy: &WorkloadInstance| {
        let status = copy.status.clone().unwrap_or_default();
        status.message.contains("no agent named \"ghost\" has ever connected")
    };
    assert!(said(&there[0]), "a copy begins with it");
    let next = plan(&mk_workload(&["ghost"]), &there, &names(&["a"]));
    assert!(next.introduce.is_empty(), "what was said is not said again");
    there[0].status = None;
    let next = plan(&mk_workload(&["ghost"]), &there, &names(&["a"]));
    assert!(said(&next.introduce[0]), "a copy that somebody else made");
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

#[test]
fn copies_on_one_node_have_numbers() {
    let mut workload = mk_workload(&[]);
    let placement =
        Placement { selector: Some(<_>::default()), replicas: Some(3), ..Placement::default() };
    workload.spec.as_mut().expect("made with one").placement = Some(placement);
    let mut around = names(&["a"]);
    let seat = Seat { ready: true, runtimes: ["process".into()].into(), ..Seat::default() };
    around.nodes.insert("a".into(), seat);
    let there = plan(&workload, &[], &around);
    let mut copies: Vec<_> =
        there.create.iter().map(|i| i.spec.as_ref().expect("planned with one").copy).collect();
    copies.sort_unstable();
    assert_eq!((copies, there.desired), (vec![None, Some(1), Some(2)], 3));
    assert!(plan(&workload, &there.create, &around).create.is_empty());
    assert!(plan(&workload, &there.create, &around).delete.is_empty());
}

#[test]
fn a_circle_places_nothing_new_and_leaves_what_runs() {
    let there = plan(&mk_workload(&["a"]), &[], &names(&["a"])).create;
    let cycle = vec!["web".to_owned(), "db".to_owned(), "web".to_owned()];
    let around = Surroundings { cycle: Some(cycle.clone()), ..names(&["a", "b"]) };
    let next = plan(&mk_workload(&["a", "b"]), &there, &around);
    assert!(next.create.is_empty() && next.delete.is_empty());
    assert_eq!((next.obstacle, next.desired), (Some(Obstacle::Cycle(cycle)), 2));
}

#[test]
fn what_others_depend_on_is_stopped_after_them() {
    let there = plan(&mk_workload(&["a"]), &[], &names(&["a"])).create;
    let mut deleted = mk_workload(&["a"]);
    let metadata = deleted.metadata.as_mut().expect("made with one");
    metadata.deletion_timestamp = Some(Timestamp::default());
    let around = Surroundings { goes_first: Some("web".into()), ..names(&["a"]) };
    let held = plan(&deleted, &there, &around);
    assert!(held.delete.is_empty() && !held.finished);
    assert_eq!(held.obstacle, Some(Obstacle::StoppedAfter("web".into())));
    assert!(!plan(&deleted, &[], &around).finished);
    assert_eq!(plan(&deleted, &there, &names(&["a"])).delete.len(), 1);
    let waiting = Surroundings { goes_first: Some("web".into()), ..names(&["a"]) };
    assert!(plan(&mk_workload(&["a"]), &there, &waiting).obstacle.is_none(), "it is not deleted");
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
        let rest = Plan { desired: after.len(), ..Plan::default() };
        prop_assert_eq!(plan(&with(&after), &world, &known), rest);
    }

    #[test]
    fn names_are_short_and_differ(a in "[a-z]{1,63}", b in "[a-z]{1,63}") {
        let workload = mk_workload(&[]);
        let name = |node: &str, copy| instance_name(&workload, &slot(node, copy));
        let (first, second) = (name(&a, 0), name(&b, 0));
        prop_assert!(first.len() <= 63);
        prop_assert_eq!(a == b, first == second);
        prop_assert_ne!(first, name(&a, 1));
    }
}
