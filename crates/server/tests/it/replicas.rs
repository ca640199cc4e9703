//! Two servers on one etcd.
use orrery_fleet::middleware::Peer;
use orrery_hub::{ApplyOptions, Error, ListOptions, ObjectName};
use orrery_proto::apps::v1::{
    Placement, Process, Workload, WorkloadInstance, WorkloadSpec, workload_spec,
};
use orrery_proto::core::v1::Project;
use orrery_proto::fleet::v1::{
    ExecEnd, ExecEvent, ExecOutput, ExecRequest, ExecStart, Load, LoadReport, LogChunk, LogEnd,
    LogTime, LogsRequest, ToServer, TopRequest, Usage, exec_event, exec_input,
    server_message::Message, to_server,
};
use orrery_proto::infra::v1::Node;
use orrery_proto::meta::v1::ObjectMeta;
use orrery_testkit::agent::{FakeAgent, InProcess};
use orrery_testkit::etcd::Cluster;
use orrery_testkit::world::{World, WorldOptions};
use std::time::Duration;

async fn server(etcd: &Cluster) -> World {
    let etcd = Some(etcd.options("orrery/"));
    World::start_with(WorldOptions { etcd, ..WorldOptions::default() }).await
}

fn mk_workload(name: &str, node: &str) -> Workload {
    let process = Process { command: Some("true".into()), ..Process::default() };
    Workload {
        metadata: Some(ObjectMeta {
            name: name.into(),
            project: "shop".into(),
            ..ObjectMeta::default()
        }),
        spec: Some(WorkloadSpec {
            runtime: Some(workload_spec::Runtime::Process(process)),
            placement: Some(Placement { nodes: vec![node.into()], ..Placement::default() }),
            ..WorkloadSpec::default()
        }),
        ..Workload::default()
    }
}

/// What is written on one server is seen by the next read on the other, always.
#[tokio::test]
async fn a_write_on_one_is_read_on_the_other() {
    let etcd = Cluster::start(1);
    let (one, two) = (server(&etcd).await, server(&etcd).await);
    for number in 0..50 {
        let name = format!("p{number}");
        one.project(&name).await;
        let found = two.hub.resources::<Project>().unwrap();
        let found = found.find(&ObjectName::new("", &name)).await.unwrap();
        assert!(found.is_some(), "{name} was acknowledged and must be there");
    }
    one.stop().await;
    two.stop().await;
}

/// One of them leads; when it goes, the other does, and nothing is done twice.
#[tokio::test]
async fn the_work_goes_on_when_a_server_goes() {
    let etcd = Cluster::start(1);
    let one = server(&etcd).await;
    one.project("shop").await;
    let two = server(&etcd).await;
    let mut agent =
        FakeAgent::connect(&InProcess::new(&two, Peer::default()), "edge-1").await.unwrap();
    let apply = async |world: &World, name: &str| {
        world.hub.resources().unwrap().apply(&mk_workload(name, "edge-1")).await.unwrap();
    };
    apply(&one, "first").await;
    assert_eq!(agent.assignment().await.spec.unwrap().workload(), "first");
    one.stop().await;
    apply(&two, "second").await;
    assert_eq!(agent.assignment().await.spec.unwrap().workload(), "second");
    let instances = two.hub.resources::<WorkloadInstance>().unwrap();
    assert_eq!(instances.list(ListOptions::default()).await.unwrap().len(), 2);
    two.stop().await;
}

/// The agents of a server that ended are gone, unless they come back.
#[tokio::test]
async fn the_agents_of_a_server_that_ended_are_gone() {
    let etcd = Cluster::start(1);
    let (one, two) = (server(&etcd).await, server(&etcd).await);
    let lost = FakeAgent::connect(&InProcess::new(&one, Peer::default()), "lost").await.unwrap();
    let back = FakeAgent::connect(&InProcess::new(&one, Peer::default()), "back").await.unwrap();
    one.stop().await;
    drop((lost, back));
    let _back = FakeAgent::connect(&InProcess::new(&two, Peer::default()), "back").await.unwrap();
    let state = |node: &Node| node.status.as_ref().map(|status| status.state.clone());
    let gone = ObjectName::new("", "lost");
    two.until::<Node>(&gone, |node| state(node).as_deref() == Some("Gone")).await;
    let still = two.hub.resources::<Node>().unwrap();
    let still = still.find(&ObjectName::new("", "back")).await.unwrap().unwrap();
    assert_eq!(state(&still).as_deref(), Some("Ready"));
    two.stop().await;
}

/// A leader that was held up past the end of its lease cannot write any more.
#[tokio::test]
async fn who_lost_the_lease_writes_nothing() {
    let etcd = Cluster::start(1);
    let (one, two) = (server(&etcd).await, server(&etcd).await);
    let ttl = Duration::from_secs(2);
    let lease = one.hub.acquire("test", "one", ttl).await.unwrap().expect("nobody has it");
    let fenced = one.hub.fenced(&lease);
    let project = |name: &str| Project {
        metadata: Some(ObjectMeta { name: name.into(), ..ObjectMeta::default() }),
        ..Project::default()
    };
    let projects = fenced.resources::<Project>().unwrap();
    projects.create(&project("while-held")).await.unwrap();
    assert!(two.hub.acquire("test", "two", ttl).await.unwrap().is_none(), "it is taken");
    one.hub.resign(lease).await.unwrap();
    let next = two.hub.acquire("test", "two", ttl).await.unwrap().expect("it is free");
    let error = projects.create(&project("too-late")).await.expect_err("the fence holds");
    assert!(matches!(error, Error::Fenced { .. }), "{error}");
    let kept = one.hub.resources::<Project>().unwrap();
    assert!(kept.find(&ObjectName::new("", "too-late")).await.unwrap().is_none());
    let kind = one.hub.scheme().kind_of::<Project>().unwrap();
    let mut object = orrery_api::Object::new(&kind);
    object.set_name("later");
    two.hub
        .fenced(&next)
        .accessor(&kind)
        .unwrap()
        .apply(object, ApplyOptions::default())
        .await
        .unwrap();
    one.stop().await;
    two.stop().await;
}

/// Output, commands and load of an agent that is connected to the other server.
///
/// proves: AGT-10
#[tokio::test]
async fn what_an_agent_of_another_server_says_is_passed_on() {
    let etcd = Cluster::start(1);
    let (one, two) = (server(&etcd).await, server(&etcd).await);
    one.project("shop").await;
    let mut agent =
        FakeAgent::connect(&InProcess::new(&two, Peer::default()), "edge-1").await.unwrap();
    one.hub.resources().unwrap().apply(&mk_workload("web", "edge-1")).await.unwrap();
    let copy = agent.assignment().await;
    agent.report(&copy.id, "Running", copy.generation).await;
    let answering = tokio::spawn(answer(agent, copy.id.clone()));
    let commander = one.commander().await;

    let request = LogsRequest {
        project: "shop".into(),
        name: "web".into(),
        times: true,
        since_seconds: Some(60),
        after: [(copy.id.clone(), "place-1".to_owned())].into(),
        ..LogsRequest::default()
    };
    let mut logs = commander.logs(request).await.unwrap();
    let piece = logs.next().await.unwrap().unwrap();
    assert_eq!((piece.data.as_slice(), &piece.id, piece.copies), (&b"a line\n"[..], &copy.id, 1));
    assert_eq!((piece.times[0].offset, piece.position.as_str()), (3, "place-1 true Some(60)"));
    assert!(logs.next().await.unwrap().is_none());

    let start = ExecStart { command: vec!["cat".into()], stdin: true, ..ExecStart::default() };
    let request = ExecRequest {
        project: "shop".into(),
        name: "web".into(),
        start: Some(start),
        ..ExecRequest::default()
    };
    let mut exec = commander.exec(request).await.unwrap();
    let mut event = async || exec.next().await.unwrap().unwrap().message.unwrap();
    assert_eq!(event().await, exec_event::Message::Credit(4));
    exec.voice().say(exec_input::Message::Data(b"echo".to_vec())).await;
    let mut event = async || exec.next().await.unwrap().unwrap().message.unwrap();
    assert_eq!(event().await, exec_event::Message::Stdout(b"echo".to_vec()));
    assert!(matches!(event().await, exec_event::Message::End(end) if end.exit_code == Some(9)));

    let top = TopRequest { project: "shop".into(), nodes: false };
    let rows = commander.top(top).await.unwrap().rows;
    assert_eq!(rows[0].usage.unwrap().cpu_millis, 7, "{rows:?}");
    answering.abort();
    one.stop().await;
    two.stop().await;
}

/// An agent that answers everything that it is asked.
async fn answer(mut agent: FakeAgent, id: String) {
    let out = agent.to_server.clone();
    let say = async |message: to_server::Message| {
        out.send(ToServer { message: Some(message) }).await.unwrap();
    };
    while let Some(message) = agent.next().await {
        match message {
            Message::Log(request) => {
                let chunk = LogChunk {
                    stream: request.stream.clone(),
                    data: b"a line\n".to_vec(),
                    times: vec![LogTime { offset: 3, time: None }],
                    // So that who asked sees what arrived here.
                    position: format!(
                        "{} {} {:?}",
                        request.after, request.times, request.since_seconds
                    ),
                    ..LogChunk::default()
                };
                say(to_server::Message::LogChunk(chunk)).await;
                let end = LogEnd { stream: request.stream, problem: String::new() };
                say(to_server::Message::LogEnd(end)).await;
            }
            Message::Exec(order) => {
                let event = |message| {
                    let event = Some(ExecEvent { message: Some(message) });
                    to_server::Message::ExecOutput(ExecOutput {
                        stream: order.stream.clone(),
                        event,
                    })
                };
                if order.start.is_some() {
                    say(event(exec_event::Message::Credit(4))).await;
                }
                for word in order.input {
                    if let Some(exec_input::Message::Data(data)) = word.message {
                        say(event(exec_event::Message::Stdout(data))).await;
                        let end = ExecEnd { exit_code: Some(9), problem: String::new() };
                        say(event(exec_event::Message::End(end))).await;
                    }
                }
            }
            Message::Load(request) => {
                let usage = Usage { cpu_millis: 7, memory_bytes: 1 };
                let load = Load { node: Some(usage), instances: [(id.clone(), usage)].into() };
                let report = LoadReport { stream: request.stream, load: Some(load) };
                say(to_server::Message::Load(report)).await;
            }
            _ => {}
        }
    }
}
