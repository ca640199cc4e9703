//! From a declared workload to an agent and back.
use orrery_fleet::middleware::Peer;
use orrery_hub::{DeleteOptions, ListOptions, ObjectName, Propagation};
use orrery_proto::apps::v1::{
    Placement, Process, Workload, WorkloadInstance, WorkloadSpec, workload_spec,
};
use orrery_proto::fleet::v1::server_message::Message;
use orrery_proto::meta::v1::ObjectMeta;
use orrery_testkit::agent::{FakeAgent, InProcess};
use orrery_testkit::world::World;

pub fn mk_workload(name: &str, nodes: &[&str]) -> Workload {
    let process = Process { command: Some("true".into()), ..Process::default() };
    Workload {
        metadata: Some(ObjectMeta {
            name: name.into(),
            project: "shop".into(),
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
        ..Workload::default()
    }
}

pub fn state(workload: &Workload) -> &str {
    workload.status.as_ref().map_or("", |status| status.state.as_str())
}

pub async fn shop() -> (World, InProcess) {
    let world = World::start().await;
    world.project("shop").await;
    let transport = InProcess::new(&world, Peer::default());
    (world, transport)
}

pub async fn apply(world: &World, workload: &Workload) {
    world.hub.resources().unwrap().apply(workload).await.unwrap();
}

fn web() -> ObjectName {
    ObjectName::new("shop", "web")
}

/// proves: AGT-08, AGT-10
#[tokio::test]
async fn a_workload_reaches_its_agent_runs_and_goes() {
    let (world, transport) = shop().await;
    let mut agent = FakeAgent::connect(&transport, "edge-1").await.unwrap();
    apply(&world, &mk_workload("web", &["edge-1"])).await;
    let assignment = agent.assignment().await;
    assert_eq!(assignment.spec.as_ref().unwrap().workload(), "web");
    agent.report(&assignment.id, "Running", assignment.generation).await;
    let running = world.until::<Workload>(&web(), |w| state(w) == "Running").await;
    assert_eq!(running.status.unwrap().conditions[0].status, "True");

    world.hub.resources::<Workload>().unwrap().delete(&web()).await.unwrap();
    let removing = agent.assignment().await;
    assert!(removing.removing && removing.id == assignment.id);
    let held = world.until::<Workload>(&web(), |w| state(w) == "Stopping").await;
    assert!(held.metadata.unwrap().deletion_timestamp.is_some(), "it waits for its agent");
    agent.report(&assignment.id, "Removed", removing.generation).await;
    world.until_gone::<Workload>(&web()).await;
    assert!(matches!(agent.next().await, Some(Message::Unassign(u)) if u.id == assignment.id));
    world.stop().await;
}

/// Copies are parts of their workload, whatever a deletion asks for.
#[tokio::test]
async fn copies_go_with_their_workload_also_when_it_is_to_leave_orphans() {
    let (world, transport) = shop().await;
    let mut agent = FakeAgent::connect(&transport, "edge-1").await.unwrap();
    apply(&world, &mk_workload("web", &["edge-1"])).await;
    let mut assignment = agent.assignment().await;
    let instances = world.hub.resources::<WorkloadInstance>().unwrap();
    let copy = instances.list(ListOptions::default()).await.unwrap().remove(0).metadata.unwrap();
    let wish = Some(Propagation::Orphan);
    let options = DeleteOptions { propagation: wish, ..DeleteOptions::from(web()) };
    let workloads = world.hub.resources::<Workload>().unwrap();
    workloads.accessor().delete(options).await.unwrap();
    while !assignment.removing {
        assignment = agent.assignment().await;
    }
    agent.report(&assignment.id, "Removed", assignment.generation).await;
    world.until_gone::<Workload>(&web()).await;
    world.until_gone::<WorkloadInstance>(&ObjectName::new("shop", &copy.name)).await;
    world.stop().await;
}

#[tokio::test]
async fn a_changed_spec_reaches_the_agent_and_a_state_does_not() {
    let (world, transport) = shop().await;
    let mut agent = FakeAgent::connect(&transport, "edge-1").await.unwrap();
    apply(&world, &mk_workload("web", &["edge-1"])).await;
    let first = agent.assignment().await;
    agent.report(&first.id, "Running", first.generation).await;
    world.until::<Workload>(&web(), |w| state(w) == "Running").await;
    let mut changed = mk_workload("web", &["edge-1"]);
    changed.spec.as_mut().unwrap().restart_policy = Some("never".into());
    apply(&world, &changed).await;
    let second = agent.assignment().await;
    assert_eq!((second.id, second.generation), (first.id, first.generation + 1));
    world.stop().await;
}

/// proves: AGT-11
#[tokio::test]
async fn the_workloads_of_a_gone_agent_are_unknown_until_it_is_back() {
    let (world, transport) = shop().await;
    let mut agent = FakeAgent::connect(&transport, "edge-1").await.unwrap();
    apply(&world, &mk_workload("web", &["edge-1"])).await;
    let assignment = agent.assignment().await;
    agent.report(&assignment.id, "Running", assignment.generation).await;
    world.until::<Workload>(&web(), |w| state(w) == "Running").await;
    drop(agent);
    let unknown = world.until::<Workload>(&web(), |w| state(w) == "Unknown").await;
    assert!(unknown.status.unwrap().message.contains("edge-1"));
    let mut agent = FakeAgent::connect(&transport, "edge-1").await.unwrap();
    let again = agent.assignment().await;
    assert_eq!(again.id, assignment.id, "the hello is answered with the full set");
    agent.report(&again.id, "Running", again.generation).await;
    world.until::<Workload>(&web(), |w| state(w) == "Running").await;
    world.stop().await;
}

#[tokio::test]
async fn an_agent_cannot_speak_for_another() {
    let (world, transport) = shop().await;
    let mut honest = FakeAgent::connect(&transport, "edge-1").await.unwrap();
    let liar = FakeAgent::connect(&transport, "edge-2").await.unwrap();
    apply(&world, &mk_workload("web", &["edge-1"])).await;
    let assignment = honest.assignment().await;
    liar.report(&assignment.id, "Failed", assignment.generation).await;
    // The lie travels before the truth on another connection; wait until it was taken in.
    drop(liar);
    world
        .until::<orrery_proto::infra::v1::Node>(&ObjectName::new("", "edge-2"), |node| {
            node.status.as_ref().is_some_and(|status| status.state == "Gone")
        })
        .await;
    let instances = world.hub.resources::<WorkloadInstance>().unwrap();
    let all = instances.list(ListOptions::default()).await.unwrap();
    assert_ne!(all[0].status.as_ref().unwrap().state, "Failed");
    honest.report(&assignment.id, "Running", assignment.generation).await;
    world.until::<Workload>(&web(), |w| state(w) == "Running").await;
    world.stop().await;
}

#[tokio::test]
async fn a_workload_for_an_unknown_agent_says_so_and_can_go() {
    let (world, _) = shop().await;
    apply(&world, &mk_workload("web", &["ghost"])).await;
    let pending = world
        .until::<Workload>(&web(), |w| {
            w.status.as_ref().is_some_and(|status| status.message.contains("ghost"))
        })
        .await;
    assert_eq!(state(&pending), "Pending");
    world.hub.resources::<Workload>().unwrap().delete(&web()).await.unwrap();
    world.until_gone::<Workload>(&web()).await;
    world.stop().await;
}

/// An agent that stops reading costs nobody else anything.
#[tokio::test]
async fn an_agent_that_does_not_read_holds_up_nobody() {
    let (world, transport) = shop().await;
    let _deaf = FakeAgent::connect(&transport, "deaf").await.unwrap();
    let mut agent = FakeAgent::connect(&transport, "edge-1").await.unwrap();
    for number in 0..100 {
        apply(&world, &mk_workload(&format!("w{number}"), &["deaf", "edge-1"])).await;
    }
    for _ in 0..100 {
        agent.assignment().await;
    }
    world.stop().await;
}
