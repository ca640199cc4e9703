//! Workloads that wait for each other.
use crate::workloads::{apply, mk_workload, shop, state};
use orrery_hub::ObjectName;
use orrery_proto::apps::v1::{Dependency, Workload};
use orrery_proto::core::v1::Project;
use orrery_proto::fleet::v1::Assignment;
use orrery_proto::fleet::v1::server_message::Message;
use orrery_testkit::agent::FakeAgent;
use orrery_testkit::world::World;

fn after(mut workload: Workload, needed: &str) -> Workload {
    let dependency = Dependency { workload: Some(needed.into()), condition: None };
    workload.spec.as_mut().unwrap().depends_on.push(dependency);
    workload
}

fn name(name: &str) -> ObjectName {
    ObjectName::new("shop", name)
}

fn message(workload: &Workload) -> &str {
    workload.status.as_ref().map_or("", |status| status.message.as_str())
}

/// The next state of a workload that the agent is told of.
async fn told(agent: &mut FakeAgent) -> String {
    loop {
        if let Message::Dependencies(said) = agent.next().await.unwrap() {
            let one = said.states.first().unwrap();
            return format!("{} {}", one.workload, one.state);
        }
    }
}

async fn run(agent: &mut FakeAgent) -> Assignment {
    let assignment = agent.assignment().await;
    agent.report(&assignment.id, "Running", assignment.generation).await;
    assignment
}

/// proves: AGT-08, AGT-11
#[tokio::test]
async fn the_agents_concerned_are_told_and_only_they() {
    let (world, transport) = shop().await;
    let mut near = FakeAgent::connect(&transport, "near").await.unwrap();
    let mut far = FakeAgent::connect(&transport, "far").await.unwrap();
    apply(&world, &after(mk_workload("web", &["far"]), "db")).await;
    assert_eq!(told(&mut far).await, "db ", "there is no such workload yet");
    apply(&world, &mk_workload("db", &["near"])).await;
    assert_eq!(told(&mut far).await, "db Pending");
    run(&mut near).await;
    assert_eq!(told(&mut far).await, "db Running");
    drop(near);
    assert_eq!(told(&mut far).await, "db Unknown", "nobody knows what a gone agent does");
    // A new session is told with its set what that set needs.
    drop(far);
    let mut far = FakeAgent::connect(&transport, "far").await.unwrap();
    assert_eq!(told(&mut far).await, "db Unknown");
    let mut near = FakeAgent::connect(&transport, "near").await.unwrap();
    let calls = [near.next().await.unwrap(), near.next().await.unwrap()];
    assert!(matches!(calls, [Message::Hello(_), Message::Set(_)]), "db needs nothing: {calls:?}");
    world.stop().await;
}

#[tokio::test]
async fn a_circle_is_named_and_goes_when_it_is_opened() {
    let (world, transport) = shop().await;
    let mut agent = FakeAgent::connect(&transport, "edge-1").await.unwrap();
    let needs = |who: &str, needed: &str| after(mk_workload(who, &["edge-1"]), needed);
    apply(&world, &needs("a", "b")).await;
    apply(&world, &needs("b", "c")).await;
    apply(&world, &needs("c", "a")).await;
    let circle =
        world.until::<Workload>(&name("c"), |w| message(w).contains("waits for itself")).await;
    assert!(message(&circle).contains("c -> a -> b -> c"), "{}", message(&circle));
    assert_eq!(state(&circle), "NotScheduled");
    world.until::<Workload>(&name("b"), |w| message(w).contains("b -> c -> a -> b")).await;
    apply(&world, &mk_workload("c", &["edge-1"])).await;
    for one in ["a", "b", "c"] {
        world.until::<Workload>(&name(one), |w| state(w) == "Pending").await;
    }
    agent.assignment().await;
    let own = world.hub.resources::<Workload>().unwrap().apply(&needs("x", "x")).await;
    let own = own.unwrap_err().to_string();
    assert!(own.contains("must not be the workload itself"), "{own}");
    world.stop().await;
}

async fn delete(world: &World, workload: &str) {
    world.hub.resources::<Workload>().unwrap().delete(&name(workload)).await.unwrap();
}

/// Whatever is asked for first, what others depend on is stopped last.
#[tokio::test]
async fn what_others_depend_on_is_stopped_last() {
    let (world, transport) = shop().await;
    let mut agent = FakeAgent::connect(&transport, "edge-1").await.unwrap();
    apply(&world, &mk_workload("db", &["edge-1"])).await;
    let db = run(&mut agent).await;
    apply(&world, &after(mk_workload("web", &["edge-1"]), "db")).await;
    let web = run(&mut agent).await;
    world.until::<Workload>(&name("web"), |w| state(w) == "Running").await;
    let projects = world.hub.resources::<Project>().unwrap();
    projects.delete(&ObjectName::new("", "shop")).await.unwrap();
    let first = agent.assignment().await;
    assert!(first.removing && first.id == web.id, "web is stopped first: {first:?}");
    let held = world.until::<Workload>(&name("db"), |w| state(w) == "Stopping").await;
    assert_eq!(message(&held), "stopped after workload \"web\", which depends on it");
    agent.report(&web.id, "Removed", first.generation).await;
    let second = agent.assignment().await;
    assert!(second.removing && second.id == db.id);
    agent.report(&db.id, "Removed", second.generation).await;
    world.until_gone::<Project>(&ObjectName::new("", "shop")).await;
    world.stop().await;
}

#[tokio::test]
async fn what_is_deleted_alone_does_not_wait_for_those_that_stay() {
    let (world, transport) = shop().await;
    let mut agent = FakeAgent::connect(&transport, "edge-1").await.unwrap();
    apply(&world, &mk_workload("db", &["edge-1"])).await;
    let db = run(&mut agent).await;
    apply(&world, &after(mk_workload("web", &["edge-1"]), "db")).await;
    run(&mut agent).await;
    delete(&world, "db").await;
    let removing = agent.assignment().await;
    assert!(removing.removing && removing.id == db.id);
    world.stop().await;
}

/// proves: AGT-15
#[tokio::test]
async fn a_circle_can_be_deleted() {
    let (world, _) = shop().await;
    apply(&world, &after(mk_workload("a", &["ghost"]), "b")).await;
    apply(&world, &after(mk_workload("b", &["ghost"]), "a")).await;
    world.until::<Workload>(&name("b"), |w| message(w).contains("waits for itself")).await;
    delete(&world, "a").await;
    delete(&world, "b").await;
    world.until_gone::<Workload>(&name("a")).await;
    world.until_gone::<Workload>(&name("b")).await;
    world.stop().await;
}
