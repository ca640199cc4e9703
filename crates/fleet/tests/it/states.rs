//! States of many copies: stored together, in order, and only where something changed.
use crate::workloads::{apply, mk_workload, shop, state};
use orrery_hub::{ListOptions, ObjectName};
use orrery_proto::apps::v1::{
    NodeSelector, Placement, Workload, WorkloadInstance, WorkloadInstanceStatus, WorkloadStatus,
};
use orrery_proto::core::v1::Event;
use orrery_proto::fleet::v1::{Assignment, InstanceState, InstanceStates, ToServer, to_server};
use orrery_testkit::agent::FakeAgent;
use orrery_testkit::world::World;
use std::collections::{BTreeMap, BTreeSet};

const COPIES: i32 = 150;

fn web() -> ObjectName {
    ObjectName::new("shop", "web")
}

fn said(copy: &Assignment, state: &str, restarts: i64) -> InstanceState {
    let status = WorkloadInstanceStatus {
        state: state.into(),
        restarts,
        observed_generation: copy.generation,
        ..WorkloadInstanceStatus::default()
    };
    InstanceState { id: copy.id.clone(), status: Some(status) }
}

async fn say(agent: &FakeAgent, states: Vec<InstanceState>) {
    let message = Some(to_server::Message::States(InstanceStates { states }));
    agent.to_server.send(ToServer { message }).await.unwrap();
}

/// The restarts and the revision of each copy, by name.
async fn stored(world: &World) -> BTreeMap<String, (i64, String)> {
    let copies = world.hub.resources::<WorkloadInstance>().unwrap();
    let copies = copies.list(ListOptions::default()).await.unwrap().into_iter();
    let row = |copy: WorkloadInstance| {
        let metadata = copy.metadata.unwrap();
        (metadata.name, (copy.status.unwrap_or_default().restarts, metadata.resource_version))
    };
    copies.map(row).collect()
}

async fn until_restarts(world: &World, copy: &Assignment, restarts: i64) {
    let name = ObjectName::new(copy.project.clone(), copy.name.clone());
    let told = |copy: &WorkloadInstance| {
        copy.status.as_ref().is_some_and(|status| status.restarts == restarts)
    };
    world.until::<WorkloadInstance>(&name, told).await;
}

/// Many copies on one agent, all of them running.
async fn many(world: &World, agent: &mut FakeAgent) -> Vec<Assignment> {
    let mut workload = mk_workload("web", &[]);
    workload.spec.as_mut().unwrap().placement = Some(Placement {
        selector: Some(NodeSelector::default()),
        replicas: Some(COPIES),
        ..Placement::default()
    });
    apply(world, &workload).await;
    let mut copies = Vec::new();
    for _ in 0..COPIES {
        copies.push(agent.assignment().await);
    }
    say(agent, copies.iter().map(|copy| said(copy, "Running", 0)).collect()).await;
    let all = |w: &Workload| w.status.as_ref().is_some_and(|status| status.running == COPIES);
    world.until::<Workload>(&web(), all).await;
    copies
}

#[tokio::test]
async fn states_have_a_revision_each_and_unchanged_ones_are_not_written() {
    let (world, transport) = shop().await;
    let mut agent = FakeAgent::connect(&transport, "edge-1").await.unwrap();
    let copies = many(&world, &mut agent).await;
    say(&agent, copies.iter().map(|copy| said(copy, "Running", 1)).collect()).await;
    until_restarts(&world, &copies[copies.len() - 1], 1).await;
    for copy in &copies {
        until_restarts(&world, copy, 1).await;
    }
    let first = stored(&world).await;
    let revisions: BTreeSet<&String> = first.values().map(|(_, revision)| revision).collect();
    assert_eq!(revisions.len(), copies.len(), "a watch can go on from each of them");

    let (last, others) = copies.split_last().unwrap();
    let mut states: Vec<_> = others.iter().map(|copy| said(copy, "Running", 1)).collect();
    // Said twice in one message, and of nobody: the last word counts, and the rest is not disturbed.
    states.push(said(last, "Running", 7));
    states.push(InstanceState { id: "nobody".into(), ..said(last, "Failed", 9) });
    states.push(said(last, "Running", 2));
    say(&agent, states).await;
    until_restarts(&world, last, 2).await;
    say(&agent, vec![said(last, "Running", 3)]).await;
    until_restarts(&world, last, 3).await;
    let second = stored(&world).await;
    let changed: Vec<&String> = first.keys().filter(|name| first[*name] != second[*name]).collect();
    assert_eq!(changed, [&last.name], "what did not change is not written");
    world.stop().await;
}

#[tokio::test]
async fn an_event_says_which_copy_started_where_and_how_often() {
    let (world, transport) = shop().await;
    let mut agent = FakeAgent::connect(&transport, "edge-1").await.unwrap();
    apply(&world, &mk_workload("web", &["edge-1"])).await;
    let copy = agent.assignment().await;
    say(&agent, vec![said(&copy, "Running", 0)]).await;
    for restarts in 1..=5 {
        say(&agent, vec![said(&copy, "Running", restarts)]).await;
    }
    let mut told = BTreeMap::new();
    for _ in 0..4000 {
        if told.get("Restarted").is_some_and(|(count, _)| 5 <= *count) {
            break;
        }
        let events = world.hub.resources::<Event>().unwrap();
        let events = events.list(ListOptions::default()).await.unwrap().into_iter();
        let specs = events.filter_map(|event| event.spec);
        let specs = specs.filter(|spec| spec.regarding.as_ref().unwrap().name() == copy.name);
        let row = |spec: orrery_proto::core::v1::EventSpec| {
            (spec.reason().to_owned(), (spec.count(), spec.message().to_owned()))
        };
        told = specs.map(row).collect();
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
    assert_eq!(told["Started"], (1, format!("{} runs on node edge-1", copy.name)));
    let again = format!("{} runs again on node edge-1, restart 5", copy.name);
    assert_eq!(told["Restarted"], (5, again), "counted, not repeated");
    world.stop().await;
}

#[tokio::test]
async fn a_sum_that_somebody_else_wrote_is_put_right() {
    let (world, transport) = shop().await;
    let mut agent = FakeAgent::connect(&transport, "edge-1").await.unwrap();
    apply(&world, &mk_workload("web", &["edge-1"])).await;
    let copy = agent.assignment().await;
    agent.report(&copy.id, "Running", copy.generation).await;
    world.until::<Workload>(&web(), |w| state(w) == "Running").await;
    let status = WorkloadStatus { state: "Succeeded".into(), ..WorkloadStatus::default() };
    let wrong = Workload { status: Some(status), ..mk_workload("web", &["edge-1"]) };
    world.hub.resources().unwrap().write_status(&wrong).await.unwrap();
    world.until::<Workload>(&web(), |w| state(w) == "Running").await;
    world.stop().await;
}
