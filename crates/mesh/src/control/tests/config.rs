//! What a change of what is declared costs, and whom.
use super::*;
use crate::topology::{Backend, TrafficSplit};

fn join(world: &World, service: &str) -> StreamHandle {
    let joined = world.control.join(Admission {
        service: name(service),
        name: ProxyName::of(&name(service)),
        instance: service.to_owned(),
        address: None,
        protocol: Protocol::StateOfTheWorld,
        sides: Some(Sides::outbound(SocketAddr::from(([127, 0, 0, 1], 1)))),
        endpoints: Vec::new(),
    });
    joined.expect("there is room")
}

/// Has its routes.
async fn routed(world: &World, service: &str) -> StreamHandle {
    let stream = join(world, service);
    ask(&stream, Kind::Route, &["outbound"]);
    let first = pushed(&stream).await;
    acknowledge(&stream, &first, &["outbound"]);
    stream
}

fn target(sources: &[&str]) -> TrafficTarget {
    TrafficTarget {
        name: "bank".to_owned(),
        destination: name("bank"),
        sources: sources.iter().map(|source| name(source)).collect(),
        ports: None,
        rules: None,
        connections: false,
    }
}

#[tokio::test(start_paused = true)]
async fn a_target_wakes_only_whom_it_concerns() {
    let world = World::start(4).await;
    world.topology.put_target(target(&["books"]));
    let (web, books) = (routed(&world, "web").await, routed(&world, "books").await);
    // What was announced before they came changes nothing for them.
    tokio::time::sleep(Duration::from_secs(1)).await;
    world.topology.put_target(target(&[]));
    assert_eq!(pushed(&books).await.kind, Kind::Route);
    let idle = tokio::time::timeout(Duration::from_secs(60), web.changed()).await;
    assert!(idle.is_err(), "a stream of another service is not even woken");
}

#[tokio::test(start_paused = true)]
async fn routes_are_encoded_once_for_all_whom_no_target_names() {
    let world = World::start(4).await;
    let (web, books) = (routed(&world, "web").await, routed(&world, "books").await);
    world.topology.put_split(TrafficSplit {
        name: "canary".to_owned(),
        root: name("bank"),
        backends: vec![Backend { service: name("books"), weight: 1 }],
        matches: Vec::new(),
    });
    let (mine, yours) = (pushed(&web).await, pushed(&books).await);
    assert!(std::ptr::eq(mine.resources[0].any.as_ptr(), yours.resources[0].any.as_ptr()));
    let pending = tokio::time::timeout(Duration::from_secs(60), web.changed()).await;
    assert!(pending.is_err(), "and nothing else is looked at: {pending:?}");
}

/// Until the config that does without it is out, it is reached where it was.
#[tokio::test(start_paused = true)]
async fn endpoints_of_a_service_that_goes_go_with_its_config() {
    let world = World::start(4).await;
    let stream = join(&world, "web");
    ask(&stream, Kind::Endpoints, &["default/books"]);
    let first = pushed(&stream).await;
    acknowledge(&stream, &first, &["default/books"]);
    let removed_at = tokio::time::Instant::now();
    world.topology.remove_service(&name("books"));
    let gone = pushed(&stream).await;
    assert_eq!(gone.version, crate::envoy::load_assignment(&"default/books".into(), &[]).version);
    assert!(CONFIG_DELAY <= removed_at.elapsed(), "it waits for the config");
}
