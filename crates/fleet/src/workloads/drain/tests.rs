use super::*;
use crate::workloads::placement::Seat;
use crate::workloads::plan::{Plan, Surroundings, plan};
use crate::workloads::rollout::is_available;
use orrery_proto::apps::v1::{
    NodeSelector, Placement, Process, UpdateStrategy, Workload, WorkloadInstanceStatus,
    WorkloadSpec, workload_spec,
};
use orrery_proto::meta::v1::ObjectMeta;
use proptest::prelude::*;
use std::collections::BTreeMap;

/// "a" is available, "a-" is not; a capital is to leave.
#[track_caller]
fn check(max_unavailable: usize, desired: usize, copies: &str, expect: &str) {
    let standing = copies.split_whitespace().map(|word| Standing {
        name: word,
        to_leave: word.starts_with(char::is_uppercase),
        available: !word.ends_with('-'),
    });
    let copies: Vec<_> = standing.collect();
    let leaving: Vec<String> = evicted(max_unavailable, desired, &copies).into_iter().collect();
    assert_eq!(leaving.join(" "), expect);
}

#[test]
fn as_many_leave_as_may_be_missing() {
    check(1, 3, "A B c", "A");
    check(2, 3, "A B c", "A B");
    check(1, 3, "A B c-", "");
    check(1, 3, "A-", "A-");
    check(1, 3, "A- B c", "A-");
    check(1, 4, "A B c", "");
    check(3, 4, "A B C", "A B");
    check(1, 1, "A", "A");
    check(1, 0, "a", "");
}

/// One workload, nodes that are emptied and filled again, and agents that act when they like.
struct World {
    workload: Workload,
    around: Surroundings,
    copies: Vec<WorkloadInstance>,
}

impl World {
    fn new(replicas: usize, most: i32) -> Self {
        let process = Process { command: Some("true".into()), ..Process::default() };
        let placement = Placement {
            selector: Some(NodeSelector::default()),
            replicas: i32::try_from(replicas).ok(),
            ..Placement::default()
        };
        let strategy = UpdateStrategy { r#type: None, max_unavailable: Some(most) };
        let spec = WorkloadSpec {
            runtime: Some(workload_spec::Runtime::Process(process)),
            placement: Some(placement),
            update_strategy: Some(strategy),
            ..WorkloadSpec::default()
        };
        let metadata = ObjectMeta { name: "web".into(), uid: "u".into(), ..ObjectMeta::default() };
        let workload = Workload { metadata: Some(metadata), spec: Some(spec), ..<_>::default() };
        let seat = Seat { ready: true, runtimes: ["process".into()].into(), ..Seat::default() };
        let nodes: BTreeMap<_, _> =
            ["a", "b", "c"].map(|name| (name.to_owned(), seat.clone())).into();
        let around = Surroundings { nodes, ..Surroundings::default() };
        Self { workload, around, copies: Vec::new() }
    }

    fn drain(&mut self, node: &str, draining: bool) {
        let seat = self.around.nodes.get_mut(node).expect("one of three");
        (seat.draining, seat.cordoned) = (draining, draining);
    }

    fn change(&mut self) {
        let spec = self.workload.spec.as_mut().expect("made with one");
        spec.stop_grace_seconds = Some(spec.stop_grace_seconds.unwrap_or(0) + 1);
    }

    fn plan(&mut self) -> Plan {
        let plan = plan(&self.workload, &self.copies, &self.around);
        for update in &plan.update {
            let copy = self.copies.iter_mut().find(|copy| name(copy) == name(update));
            let copy = copy.expect("what is updated is there");
            copy.spec.clone_from(&update.spec);
            copy.metadata.as_mut().expect("named").generation += 1;
        }
        for copy in self.copies.iter_mut().filter(|copy| plan.delete.contains(&name(copy))) {
            copy.metadata.as_mut().expect("named").deletion_timestamp = Some(<_>::default());
        }
        self.copies.extend(plan.create.clone());
        plan
    }

    /// The agent of a copy does what is written.
    fn act(&mut self, at: usize) {
        let Some(copy) = self.copies.get_mut(at) else { return };
        let metadata = copy.metadata.as_ref().expect("named");
        if metadata.deletion_timestamp.is_some() {
            self.copies.remove(at);
            return;
        }
        let observed_generation = metadata.generation;
        let state = "Running".to_owned();
        copy.status = Some(WorkloadInstanceStatus { state, observed_generation, ..<_>::default() });
    }

    fn settle(&mut self) {
        for _ in 0..200 {
            self.plan();
            (0..self.copies.len()).rev().for_each(|at| self.act(at));
        }
    }

    fn available(&self) -> usize {
        self.copies.iter().filter(|copy| !goes(copy) && is_available(copy)).count()
    }
}

fn name(copy: &WorkloadInstance) -> String {
    copy.metadata.as_ref().expect("named").name.clone()
}

fn goes(copy: &WorkloadInstance) -> bool {
    copy.metadata.as_ref().expect("named").deletion_timestamp.is_some()
}

fn mk_copy(name: &str) -> WorkloadInstance {
    let metadata = ObjectMeta { name: name.into(), ..ObjectMeta::default() };
    WorkloadInstance { metadata: Some(metadata), ..WorkloadInstance::default() }
}

/// What was told counts as told at once, and is forgotten when the watch shows it.
#[test]
fn a_plan_knows_whom_it_told_to_go() {
    let (told, web) = (Told::default(), ObjectName::new("p", "web"));
    told.note(&web, "one");
    let mut copies = [mk_copy("one"), mk_copy("two")];
    told.mark(&web, &mut copies, Timestamp::default());
    assert_eq!(copies.iter().map(goes).collect::<Vec<_>>(), [true, false]);
    told.mark(&web, &mut copies, Timestamp::default());
    assert!(told.by_workload.lock().is_empty(), "the watch shows it");
    let mut again = [mk_copy("one")];
    told.mark(&web, &mut again, Timestamp::default());
    assert!(!goes(&again[0]), "another copy of the same name stays");
}

#[derive(Clone, Copy, Debug)]
enum Event {
    Act(usize),
    Drain(&'static str, bool),
    Change,
}

fn events() -> impl Strategy<Value = Vec<Event>> {
    let node = prop_oneof![Just("a"), Just("b")];
    let event = prop_oneof![
        8 => any::<usize>().prop_map(Event::Act),
        2 => (node, any::<bool>()).prop_map(|(node, on)| Event::Drain(node, on)),
        1 => Just(Event::Change),
    ];
    proptest::collection::vec(event, 0..120)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    /// Whatever is drained, changed and done in whatever order: never more copies are missing than may
    /// be, and in the end the nodes are empty and every copy is what was asked for.
    #[test]
    fn a_workload_stays_served_while_nodes_are_emptied(
        replicas in 1_usize..8, most in 1_i32..4, events in events(),
    ) {
        let mut world = World::new(replicas, most);
        world.settle();
        let least = replicas.saturating_sub(usize::try_from(most).unwrap_or_default());
        for event in events {
            match event {
                Event::Act(at) => world.act(at.checked_rem(world.copies.len()).unwrap_or(0)),
                Event::Drain(node, on) => world.drain(node, on),
                Event::Change => world.change(),
            }
            world.plan();
            prop_assert!(least <= world.available(), "{:?}: {}", event, world.available());
        }
        world.settle();
        let rest = world.plan();
        prop_assert_eq!(rest, Plan { desired: replicas, ..Plan::default() });
        prop_assert_eq!((world.copies.len(), world.available()), (replicas, replicas));
        for copy in &world.copies {
            let node = copy.spec.as_ref().map(|spec| spec.node().to_owned()).unwrap_or_default();
            prop_assert!(!world.around.nodes[&node].draining, "{} is empty", node);
        }
    }
}
