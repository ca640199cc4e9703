//! The agent connection: one suite, run over gRPC on a real socket and within the process.
use orrery_client::Error;
use orrery_client::agent::{Link, Transport};
use orrery_fleet::middleware::Peer;
use orrery_hub::ObjectName;
use orrery_proto::fleet::v1::{AgentHello, InstanceStates, server_message::Message, to_server};
use orrery_proto::infra::v1::Node;
use orrery_testkit::agent::{FakeAgent, InProcess};
use orrery_testkit::world::{SOON, World};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

/// Runs a test over each transport.
macro_rules! over_each_transport {
    ($($(#[$doc:meta])* $test:ident),* $(,)?) => {
        mod grpc {
            use super::*;
            $($(#[$doc])* #[tokio::test]
            async fn $test() {
                let world = World::start().await;
                let transport = world.endpoint(None);
                super::$test(&world, &transport).await;
                world.stop().await;
            })*
        }
        mod in_process {
            use super::*;
            $($(#[$doc])* #[tokio::test]
            async fn $test() {
                let world = World::start().await;
                let transport = InProcess::new(&world, Peer::default());
                super::$test(&world, &transport).await;
                world.stop().await;
            })*
        }
    };
}

over_each_transport!(
    /// proves: AGT-01, AGT-05, AGT-07, AGT-08
    hello_is_answered_with_hello_and_the_full_set,
    /// proves: AGT-06
    other_versions_and_bad_hellos_are_refused,
    /// proves: AGT-11
    a_lost_connection_makes_the_node_gone,
    /// proves: AGT-14
    a_half_closed_connection_leaves_no_ghost,
    /// proves: AGT-01, AGT-14
    the_newest_session_of_a_name_wins,
    /// proves: AGT-08, AGT-14
    a_second_agent_of_a_name_is_refused_while_the_first_is_connected,
    /// proves: AGT-08, AGT-14
    of_agents_of_a_name_that_come_in_the_same_moment_one_is_taken_in,
    /// proves: AGT-14
    an_agent_is_ready_again_when_it_comes_back,
);

fn node(name: &str) -> ObjectName {
    ObjectName::new("", name)
}

fn state(node: &Node) -> &str {
    node.status.as_ref().map_or("", |status| status.state.as_str())
}

async fn hello_is_answered_with_hello_and_the_full_set(world: &World, transport: &dyn Transport) {
    let mut agent = FakeAgent::connect(transport, "edge-1").await.unwrap();
    let messages = agent.call().await.expect("a first call");
    assert!(matches!(messages[0].message, Some(Message::Hello(_))), "{messages:?}");
    assert!(matches!(messages[1].message, Some(Message::Set(_))), "{messages:?}");
    let node = world.until::<Node>(&node("edge-1"), |node| state(node) == "Ready").await;
    assert_eq!(node.status.unwrap().runtimes, ["process"]);
}

async fn other_versions_and_bad_hellos_are_refused(_: &World, transport: &dyn Transport) {
    let hello = |name: &str, version: &str| {
        to_server::Message::Hello(AgentHello {
            name: name.into(),
            version: version.into(),
            ..AgentHello::default()
        })
    };
    let refused = async |first| {
        let outcome = FakeAgent::connect_with(transport, first).await;
        outcome.err().expect("it is refused")
    };
    let error = refused(hello("edge-1", "")).await;
    assert!(matches!(&error, Error::Version { message, .. } if message.contains("no version")));
    let error = refused(hello("edge-1", "7.0.0")).await;
    assert!(matches!(&error, Error::Version { message, .. } if message.contains("7.0.0")));
    for bad in ["", "a@b c/../x"] {
        let error = refused(hello(bad, orrery_client::VERSION)).await;
        assert!(matches!(&error, Error::Refused { message, .. } if message.contains("bad name")));
    }
    let error = refused(to_server::Message::States(InstanceStates::default())).await;
    assert!(matches!(&error, Error::Refused { message, .. } if message.contains("AgentHello")));
}

async fn a_lost_connection_makes_the_node_gone(world: &World, transport: &dyn Transport) {
    let agent = FakeAgent::connect(transport, "edge-1").await.unwrap();
    world.until::<Node>(&node("edge-1"), |node| state(node) == "Ready").await;
    drop(agent);
    let gone = world.until::<Node>(&node("edge-1"), |node| state(node) == "Gone").await;
    assert_eq!(gone.status.unwrap().conditions[0].status, "False");
}

async fn a_half_closed_connection_leaves_no_ghost(world: &World, transport: &dyn Transport) {
    let mut agent = FakeAgent::connect(transport, "edge-1").await.unwrap();
    let (nothing, _) = mpsc::channel(1);
    drop(std::mem::replace(&mut agent.to_server, nothing));
    world.until::<Node>(&node("edge-1"), |node| state(node) == "Gone").await;
    while agent.call().await.is_some() {}
}

async fn the_newest_session_of_a_name_wins(world: &World, transport: &dyn Transport) {
    let mut old = FakeAgent::connect(transport, "edge-1").await.unwrap();
    let mut new = FakeAgent::connect(transport, "edge-1").await.unwrap();
    while old.call().await.is_some() {}
    drop(old);
    assert!(matches!(new.next().await, Some(Message::Hello(hello)) if hello.session_epoch == 2));
    let still = world.until::<Node>(&node("edge-1"), |node| state(node) == "Ready").await;
    assert_eq!(still.status.unwrap().session_epoch, 2);
}

/// The hello of an agent called edge-1.
fn hello(agent_id: &str, hostname: &str) -> to_server::Message {
    to_server::Message::Hello(AgentHello {
        name: "edge-1".into(),
        version: orrery_client::VERSION.into(),
        agent_id: agent_id.into(),
        hostname: hostname.into(),
        ..AgentHello::default()
    })
}

/// Without certificates the id of its data folder tells an agent from another of the same name.
async fn a_second_agent_of_a_name_is_refused_while_the_first_is_connected(
    world: &World,
    transport: &dyn Transport,
) {
    let mut first = FakeAgent::connect_with(transport, hello("a", "rack-1")).await.unwrap();
    assert!(matches!(first.next().await, Some(Message::Hello(_))));
    let refused = FakeAgent::connect_with(transport, hello("b", "rack-2")).await;
    let refused = refused.err().expect("another agent has the name");
    let says = |message: &str| message.contains("edge-1") && message.contains("rack-1");
    assert!(matches!(&refused, Error::Refused { message, .. } if says(message)), "{refused}");
    // The first is not disturbed; it may come back while its old connection is still open.
    let again = FakeAgent::connect_with(transport, hello("a", "rack-1")).await.unwrap();
    while first.call().await.is_some() {}
    drop((first, again));
    world.until::<Node>(&node("edge-1"), |node| state(node) == "Gone").await;
    let mut second = FakeAgent::connect_with(transport, hello("b", "rack-2")).await.unwrap();
    assert!(matches!(second.next().await, Some(Message::Hello(_))), "the name is free now");
    // One that does not say, as earlier versions, is taken in as before.
    FakeAgent::connect(transport, "edge-1").await.unwrap();
}

async fn of_agents_of_a_name_that_come_in_the_same_moment_one_is_taken_in(
    world: &World,
    transport: &dyn Transport,
) {
    let connecting = (0..8).map(|number| {
        let (id, hostname) = (format!("agent-{number}"), format!("rack-{number}"));
        async move { FakeAgent::connect_with(transport, hello(&id, &hostname)).await }
    });
    let connected = futures::future::join_all(connecting).await;
    let (taken, refused): (Vec<_>, Vec<_>) = connected.into_iter().partition(Result::is_ok);
    assert_eq!((taken.len(), refused.len()), (1, 7));
    let there = world.until::<Node>(&node("edge-1"), |node| state(node) == "Ready").await;
    assert_eq!(there.status.unwrap().session_epoch, 1, "the others have not begun a session");
    drop(taken);
    world.until::<Node>(&node("edge-1"), |node| state(node) == "Gone").await;
}

async fn an_agent_is_ready_again_when_it_comes_back(world: &World, transport: &dyn Transport) {
    drop(FakeAgent::connect(transport, "edge-1").await.unwrap());
    world.until::<Node>(&node("edge-1"), |node| state(node) == "Gone").await;
    let _agent = FakeAgent::connect(transport, "edge-1").await.unwrap();
    let back = world.until::<Node>(&node("edge-1"), |node| state(node) == "Ready").await;
    assert_eq!(back.status.unwrap().session_epoch, 2);
}

/// The link finds a server that starts later, and finds it again after a restart.
///
/// proves: AGT-03, AGT-14
#[tokio::test]
async fn an_agent_keeps_trying() {
    let folder = tempfile::tempdir().unwrap();
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let endpoint = orrery_client::Endpoint::new(&format!("http://{address}"), None).unwrap();
    let (_to_server, to_server_rx) = mpsc::channel(4);
    let (from_server_tx, mut from_server) = mpsc::channel(4);
    let hello = AgentHello {
        name: "edge-1".into(),
        version: orrery_client::VERSION.into(),
        ..AgentHello::default()
    };
    let stop = CancellationToken::new();
    let link =
        Link { transport: endpoint, hello, to_server: to_server_rx, from_server: from_server_tx };
    let linked = tokio::spawn(link.run(stop.clone()));
    for _ in 0..2 {
        let world = World::start_at(address, folder.path()).await;
        let first = tokio::time::timeout(SOON, from_server.recv()).await;
        let first = first.expect("it connects in time").expect("the link lives");
        assert!(matches!(first.messages[0].message, Some(Message::Hello(_))));
        world.stop().await;
    }
    stop.cancel();
    linked.await.unwrap().unwrap();
}
