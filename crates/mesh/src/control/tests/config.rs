//! What a change of what is declared costs, and whom.
use super::*;
use crate::topology::{Backend, TrafficSplit};
use crate::xds::Mailbox;

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

/// One of several proxies of `web`, as the first of its group.
fn group(world: &World, proxy: &str, mailbox: &Arc<Mailbox>) -> Arc<groups::Group> {
    let at = |port| SocketAddr::from(([127, 0, 0, 1], port));
    let inbound = Inbound { port: None, listen: at(2), instance: at(3) };
    let sides = Some(Sides { inbound: vec![inbound], ..Sides::outbound(at(1)) });
    let key = sides::GroupKey { service: name("web"), name: proxy.parse().unwrap(), sides };
    world.control.groups.join(world.control.origin(), key, StreamId(1), mailbox)
}

/// Thousands of proxies with names of their own are given fresh ones one by one.
#[tokio::test(start_paused = true)]
async fn a_certificate_that_is_replaced_concerns_its_own_proxies() {
    let world = World::start(4).await;
    // What was announced before they came changes nothing for them.
    tokio::time::sleep(Duration::from_secs(1)).await;
    let mailbox = Arc::new(Mailbox::default());
    let one = group(&world, "web.default.i-1", &mailbox);
    let two = group(&world, "web.default.i-2", &mailbox);
    let (of_one, of_two) = (one.snapshot(), two.snapshot());
    let bundle = crate::secrets::CertificateBundle {
        certificate_chain: "fresh".to_owned(),
        private_key: "key".to_owned(),
        roots: "roots".to_owned(),
    };
    world.secrets.set(&"web.default.i-1".parse().unwrap(), bundle);
    let changed = tokio::time::timeout(Duration::from_secs(60), mailbox.next()).await;
    assert!(changed.is_ok(), "it is told");
    assert!(!Arc::ptr_eq(&one.snapshot(), &of_one));
    assert!(Arc::ptr_eq(&two.snapshot(), &of_two), "nothing of another is made anew");
}

#[tokio::test(start_paused = true)]
async fn proxies_of_a_service_share_what_takes_the_traffic_of_others() {
    let world = World::start(4).await;
    let mailbox = Arc::new(Mailbox::default());
    let groups = ["web.default.i-1", "web.default.i-2"].map(|one| group(&world, one, &mailbox));
    for (kind, name) in [(Kind::Listener, "inbound"), (Kind::Cluster, "local")] {
        let [one, two] = groups.each_ref().map(|group| group.snapshot().get(kind, name));
        let (one, two) = (one.expect("it is there"), two.expect("it is there"));
        assert!(Arc::ptr_eq(&one, &two), "{name}");
    }
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
