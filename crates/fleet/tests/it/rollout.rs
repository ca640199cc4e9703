//! Update strategies and room on nodes, with agents that speak the protocol.
use crate::workloads::{apply, mk_workload, shop, state};
use orrery_hub::ObjectName;
use orrery_proto::apps::v1::{
    NodeSelector, Placement, ResourceAmounts, Resources, UpdateStrategy, Workload,
    WorkloadInstanceStatus,
};
use orrery_proto::fleet::v1::{
    AgentHello, Assignment, InstanceState, InstanceStates, ToServer, to_server,
};
use orrery_proto::infra::v1::NodeResources;
use orrery_testkit::agent::FakeAgent;
use orrery_testkit::world::World;

fn web() -> ObjectName {
    ObjectName::new("shop", "web")
}

fn versioned(grace: i32, kind: &str) -> Workload {
    let mut workload = mk_workload("web", &["edge-1", "edge-2"]);
    let spec = workload.spec.as_mut().unwrap();
    spec.stop_grace_seconds = Some(grace);
    spec.update_strategy =
        Some(UpdateStrategy { r#type: Some(kind.into()), max_unavailable: Some(1) });
    workload
}

async fn report(agent: &FakeAgent, assignment: &Assignment, state: &str, ready: Option<bool>) {
    let status = WorkloadInstanceStatus {
        state: state.into(),
        observed_generation: assignment.generation,
        ready,
        ..WorkloadInstanceStatus::default()
    };
    let state = InstanceState { id: assignment.id.clone(), status: Some(status) };
    let states = InstanceStates { states: vec![state] };
    let message = ToServer { message: Some(to_server::Message::States(states)) };
    agent.to_server.send(message).await.unwrap();
}

fn is_ready(workload: &Workload) -> bool {
    workload.status.as_ref().is_some_and(|status| status.conditions[0].status == "True")
}

async fn two_running(kind: &str) -> (World, FakeAgent, FakeAgent) {
    let (world, transport) = shop().await;
    let mut first = FakeAgent::connect(&transport, "edge-1").await.unwrap();
    let mut second = FakeAgent::connect(&transport, "edge-2").await.unwrap();
    apply(&world, &versioned(1, kind)).await;
    for agent in [&mut first, &mut second] {
        let assignment = agent.assignment().await;
        report(agent, &assignment, "Running", None).await;
    }
    world.until::<Workload>(&web(), is_ready).await;
    (world, first, second)
}

/// proves: AGT-15
#[tokio::test]
async fn rolling_waits_until_what_was_changed_is_ready() {
    let (world, mut first, mut second) = two_running("rolling").await;
    apply(&world, &versioned(2, "rolling")).await;
    let (assignment, was_first) = tokio::select! {
        assignment = first.assignment() => (assignment, true),
        assignment = second.assignment() => (assignment, false),
    };
    let (changed, mut waits) = if was_first { (first, second) } else { (second, first) };
    report(&changed, &assignment, "Running", Some(false)).await;
    let not_yet = |workload: &Workload| {
        let status = workload.status.as_ref();
        status
            .is_some_and(|status| status.conditions[0].message == "0 of 2 copies are as asked for")
    };
    world.until::<Workload>(&web(), not_yet).await;
    report(&changed, &assignment, "Running", Some(true)).await;
    let next = waits.assignment().await;
    assert_eq!(next.spec.as_ref().unwrap().stop_grace_seconds(), 2);
    report(&waits, &next, "Running", Some(true)).await;
    world.until::<Workload>(&web(), is_ready).await;
    world.stop().await;
}

#[tokio::test]
async fn recreate_stops_all_before_it_starts_one() {
    let (world, mut first, mut second) = two_running("recreate").await;
    apply(&world, &versioned(2, "recreate")).await;
    let held = [first.assignment().await, second.assignment().await];
    assert!(held.iter().all(|copy| copy.spec.as_ref().unwrap().held()));
    report(&first, &held[0], "Pending", None).await;
    report(&second, &held[1], "Stopping", None).await;
    report(&second, &held[1], "Pending", None).await;
    let free = [first.assignment().await, second.assignment().await];
    for (agent, copy) in [(&first, &free[0]), (&second, &free[1])] {
        let spec = copy.spec.as_ref().unwrap();
        assert_eq!((spec.held(), spec.stop_grace_seconds()), (false, 2));
        report(agent, copy, "Running", None).await;
    }
    world.until::<Workload>(&web(), is_ready).await;
    world.stop().await;
}

fn asking(name: &str, cpu_millis: i64) -> Workload {
    let mut workload = mk_workload(name, &[]);
    let spec = workload.spec.as_mut().unwrap();
    let requests = ResourceAmounts { cpu_millis: Some(cpu_millis), ..ResourceAmounts::default() };
    spec.resources = Some(Resources { requests: Some(requests), limits: None });
    let selector = Some(NodeSelector::default());
    spec.placement = Some(Placement { selector, replicas: Some(1), ..Placement::default() });
    workload
}

/// proves: AGT-15
#[tokio::test]
async fn a_copy_waits_for_room_and_gets_it_when_it_is_free() {
    let (world, transport) = shop().await;
    let hello = AgentHello {
        name: "edge-1".into(),
        version: orrery_client::VERSION.into(),
        runtimes: vec!["process".into()],
        allocatable: Some(NodeResources { cpu_millis: 1000, memory_mib: 1000 }),
        ..AgentHello::default()
    };
    let first = to_server::Message::Hello(hello);
    let mut agent = FakeAgent::connect_with(&transport, first).await.unwrap();
    apply(&world, &asking("big", 700)).await;
    let big = agent.assignment().await;
    agent.report(&big.id, "Running", big.generation).await;
    apply(&world, &asking("late", 400)).await;
    let late = ObjectName::new("shop", "late");
    let none = world.until::<Workload>(&late, |w| state(w) == "NotScheduled").await;
    let message = none.status.unwrap().message;
    assert_eq!(message, "1 chosen nodes take nothing new: 1 with too little room");
    apply(&world, &asking("small", 300)).await;
    assert_eq!(agent.assignment().await.spec.unwrap().workload(), "small");
    let name = ObjectName::new("shop", "big");
    world.hub.resources::<Workload>().unwrap().delete(&name).await.unwrap();
    let removing = agent.assignment().await;
    assert!(removing.removing);
    agent.report(&removing.id, "Removed", removing.generation).await;
    assert_eq!(agent.assignment().await.spec.unwrap().workload(), "late");
    world.stop().await;
}
