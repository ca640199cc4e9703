//! What broke a peer of ours, one test each. (The sixth, a back-off that wrapped to zero, is a
//! property of the agent's plan: `never_zero_never_too_long_and_growing`.)
use crate::relay::{Line, relay};
use crate::workloads::{apply, mk_workload, shop, state};
use futures::future::join_all;
use orrery_client::{Commander, Endpoint, Error};
use orrery_hub::{ListOptions, ObjectName};
use orrery_pki::{Authority, IssueRequest, Role, TlsMaterial, Validity};
use orrery_proto::apps::v1::{NodeSelector, Placement, Workload, WorkloadInstance};
use orrery_proto::fleet::v1::server_message::Message;
use orrery_proto::hub::v1::ListRequest;
use orrery_proto::infra::v1::Node;
use orrery_testkit::agent::FakeAgent;
use orrery_testkit::world::{World, WorldOptions};
use std::collections::BTreeSet;
use std::net::Ipv4Addr;
use std::time::Duration;
use tokio::sync::watch;

const AGENTS: usize = 1000;

fn node(name: &str) -> ObjectName {
    ObjectName::new("", name)
}

fn is(node: &Node, state: &str) -> bool {
    node.status.as_ref().is_some_and(|status| status.state == state)
}

/// An agent that tries again until it is taken in, as agents do.
async fn connect(endpoint: &Endpoint, number: usize) -> FakeAgent {
    loop {
        match FakeAgent::connect(endpoint, &format!("edge-{number}")).await {
            Ok(agent) => return agent,
            Err(Error::NotAvailable { .. } | Error::ConnectionLost { .. }) => {}
            Err(error) => panic!("{error}"),
        }
    }
}

/// The copy that an agent is assigned. A connection that a busy machine has lost begins anew.
async fn copy_of(endpoint: &Endpoint, number: usize) -> String {
    loop {
        let mut agent = connect(endpoint, number).await;
        while let Some(message) = agent.next().await {
            if let Message::Set(set) = message {
                return set.assignments.first().expect("it has a copy").id.clone();
            }
        }
    }
}

/// 1. A thousand agents that reconnect at once are all served.
///
/// proves: AGT-08, AGT-14
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_storm_of_reconnections() {
    let world = World::start().await;
    world.project("shop").await;
    let endpoint = world.endpoint(None);
    let agents = join_all((0..AGENTS).map(|number| connect(&endpoint, number))).await;
    let mut workload = mk_workload("web", &[]);
    let selector = Some(NodeSelector::default());
    workload.spec.as_mut().unwrap().placement =
        Some(Placement { selector, ..Placement::default() });
    apply(&world, &workload).await;
    let instances = world.hub.resources::<WorkloadInstance>().unwrap();
    while instances.list(ListOptions::default()).await.unwrap().len() < AGENTS {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    drop(agents);
    let copies = join_all((0..AGENTS).map(|number| copy_of(&endpoint, number))).await;
    let copies: BTreeSet<String> = copies.into_iter().collect();
    assert_eq!(copies.len(), AGENTS, "each has its own copy");
    world.stop().await;
}

/// 2. An agent that stops reading costs nobody else anything, the command line included.
///
/// proves: AGT-09, AGT-14
#[tokio::test]
async fn an_agent_that_stops_reading() {
    let world = World::start().await;
    world.project("shop").await;
    let endpoint = world.endpoint(None);
    let _deaf = FakeAgent::connect(&endpoint, "deaf").await.unwrap();
    let mut agent = FakeAgent::connect(&endpoint, "edge-1").await.unwrap();
    // More than the windows of a connection hold.
    let long = "x".repeat(60_000);
    for number in 0..40 {
        let mut workload = mk_workload(&format!("w{number}"), &["deaf", "edge-1"]);
        workload.metadata.as_mut().unwrap().annotations.insert("note".into(), long.clone());
        let spec = workload.spec.as_mut().unwrap();
        let Some(orrery_proto::apps::v1::workload_spec::Runtime::Process(process)) =
            &mut spec.runtime
        else {
            panic!("a process")
        };
        process.args = vec![long.clone()];
        apply(&world, &workload).await;
    }
    for _ in 0..40 {
        agent.assignment().await;
    }
    let commander = world.commander().await;
    let list = ListRequest { kind: "workloads".into(), ..ListRequest::default() };
    assert!(!commander.list(list).await.unwrap().items.is_empty());
    world.stop().await;
}

/// 3. A clean half-close leaves no ghost.
///
/// proves: AGT-11, AGT-14
#[tokio::test]
async fn a_half_closed_connection() {
    let world = World::start().await;
    let mut agent = FakeAgent::connect(&world.endpoint(None), "edge-1").await.unwrap();
    world.until::<Node>(&node("edge-1"), |node| is(node, "Ready")).await;
    let (nothing, _) = tokio::sync::mpsc::channel(1);
    drop(std::mem::replace(&mut agent.to_server, nothing));
    world.until::<Node>(&node("edge-1"), |node| is(node, "Gone")).await;
    world.stop().await;
}

/// 4. The old connection's death does not evict the new one of the same name.
///
/// proves: AGT-14
#[tokio::test]
async fn an_old_connection_that_dies_late() {
    let (world, transport) = shop().await;
    let endpoint = world.endpoint(None);
    let old = FakeAgent::connect(&endpoint, "edge-1").await.unwrap();
    let mut new = FakeAgent::connect(&endpoint, "edge-1").await.unwrap();
    drop(old);
    // What comes after shows that the end of the old one was taken in.
    let last = FakeAgent::connect(&transport, "edge-2").await.unwrap();
    drop(last);
    world.until::<Node>(&node("edge-2"), |node| is(node, "Gone")).await;
    apply(&world, &mk_workload("web", &["edge-1"])).await;
    let assignment = new.assignment().await;
    new.report(&assignment.id, "Running", assignment.generation).await;
    let web = ObjectName::new("shop", "web");
    world.until::<Workload>(&web, |workload| state(workload) == "Running").await;
    let still = world.hub.resources::<Node>().unwrap().find(&node("edge-1")).await.unwrap();
    assert!(is(&still.unwrap(), "Ready"));
    world.stop().await;
}

#[allow(clippy::disallowed_methods, reason = "certificates are judged by the real clock")]
fn validity() -> Validity {
    Validity::starting(std::time::SystemTime::now(), Duration::from_secs(3600))
}

/// 5. An agent's certificate is good for being that agent, and for nothing else.
///
/// proves: AGT-12
#[tokio::test]
async fn an_agent_that_wants_more_than_it_may() {
    let folder = tempfile::tempdir().unwrap();
    let authority = Authority::generate(&"orrery.test".parse().unwrap(), validity()).unwrap();
    let issue = |role, name: &str| {
        let request = IssueRequest::new(role, name).ip(Ipv4Addr::LOCALHOST);
        authority.issue(&request, validity()).unwrap()
    };
    let tls = issue(Role::Server, "server").write_to(folder.path()).unwrap();
    let world = World::start_with(WorldOptions { tls, ..WorldOptions::default() }).await;
    let with = |tls: TlsMaterial| world.endpoint(Some(tls));
    let material = |role, name: &str| issue(role, name).material().unwrap();
    let agent = with(material(Role::Agent, "edge-1"));
    let refused = Commander::connect(&agent).await.err().expect("it is refused");
    assert!(matches!(&refused, Error::Refused { message, .. } if message.contains("not for user")));
    for name in ["edge-2", "", "a@b c/../x"] {
        let refused = FakeAgent::connect(&agent, name).await.err().expect("it is refused");
        assert!(matches!(&refused, Error::Refused { .. }), "{name}: {refused}");
    }
    let user = with(material(Role::User, "alice"));
    assert!(FakeAgent::connect(&user, "edge-1").await.is_err());
    let _first = FakeAgent::connect(&agent, "edge-1").await.unwrap();
    let twin = with(material(Role::Agent, "edge-1"));
    let refused = FakeAgent::connect(&twin, "edge-1").await.err().expect("it is refused");
    let text = refused.to_string();
    assert!(text.contains("another certificate"), "{text}");
    let stranger = Authority::generate(&"orrery.test".parse().unwrap(), validity()).unwrap();
    let request = IssueRequest::new(Role::Agent, "edge-3").ip(Ipv4Addr::LOCALHOST);
    let stranger = stranger.issue(&request, validity()).unwrap().material().unwrap();
    let refused = FakeAgent::connect(&with(stranger), "edge-3").await.err().expect("refused");
    let text = refused.to_string();
    assert!(text.contains("not of an authority that you trust"), "{text}");
    world.stop().await;
}

/// 7. A pulled cable is noticed by both sides, within 10 s.
///
/// proves: AGT-11, AGT-14
#[tokio::test]
async fn a_pulled_cable() {
    let world = World::start().await;
    let (pull, pulled) = watch::channel(false);
    let server = world.url.trim_start_matches("http://").parse().unwrap();
    let line = Line { pulled, bytes: 64 << 10, pause: Duration::ZERO };
    let relay = relay(server, line).await;
    let endpoint = Endpoint::new(&format!("http://{relay}"), None).unwrap();
    assert!(endpoint.server().contains(&relay.to_string()));
    let mut agent = FakeAgent::connect(&endpoint, "edge-1").await.unwrap();
    world.until::<Node>(&node("edge-1"), |node| is(node, "Ready")).await;
    let edge = node("edge-1");
    let noticed = async {
        pull.send_replace(true);
        let by_the_server = world.until::<Node>(&edge, |node| is(node, "Gone"));
        let by_the_agent = async { while agent.call().await.is_some() {} };
        tokio::join!(by_the_server, by_the_agent)
    };
    tokio::time::timeout(Duration::from_secs(10), noticed).await.expect("noticed in time");
    world.stop().await;
}

/// A message that is too large ends its own connection, and one that nobody knows ends nothing.
#[tokio::test]
async fn messages_that_are_too_large_or_too_new() {
    use orrery_proto::fleet::v1::{AgentGoodbye, ToServer, to_server};
    let world = World::start().await;
    world.project("shop").await;
    let endpoint = world.endpoint(None);
    let mut newer = FakeAgent::connect(&endpoint, "newer").await.unwrap();
    newer.to_server.send(ToServer { message: None }).await.unwrap();
    let large = FakeAgent::connect(&endpoint, "large").await.unwrap();
    let goodbye = AgentGoodbye { reason: "x".repeat(17 << 20) };
    let message = Some(to_server::Message::Goodbye(goodbye));
    large.to_server.send(ToServer { message }).await.unwrap();
    let gone = world.until::<Node>(&node("large"), |node| is(node, "Gone")).await;
    let why = gone.status.unwrap().conditions[0].message.clone();
    assert!(why.contains("its connection broke"), "{why}");
    apply(&world, &mk_workload("web", &["newer"])).await;
    assert_eq!(newer.assignment().await.spec.unwrap().workload(), "web");
    world.stop().await;
}
