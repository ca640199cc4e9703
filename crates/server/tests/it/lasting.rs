//! Open streams end when who listens may not any more, or is not who they were: with a clear word.
use crate::access::{bind, certificate, meta, secret, until};
use crate::joining::world;
use crate::wire::Watch;
use orrery_client::{Commander, Endpoint};
use orrery_fleet::middleware::Peer;
use orrery_hub::ObjectName;
use orrery_pki::{BearerToken, Role};
use orrery_proto::apps::v1::{Placement, Process, Workload, WorkloadSpec, workload_spec};
use orrery_proto::core::v1 as core;
use orrery_proto::fleet::v1::{
    ExecEvent, ExecInput, ExecOutput, ExecRequest, ExecStart, LogChunk, LogsRequest, ToServer,
    exec_event, exec_input, server_message::Message, to_server,
};
use orrery_proto::hub::v1 as hub;
use orrery_proto::hub::v1::hub_client::HubClient;
use orrery_testkit::agent::{FakeAgent, InProcess};
use orrery_testkit::world::{SOON, World};
use serde_json::json;

const WORKLOADS: &str = "/apis/apps.orrery.dev/v1/namespaces/demo/workloads";
const PROJECTS: &str = "/apis/core.orrery.dev/v1/projects";
const SECRETS: &str = "/apis/core.orrery.dev/v1/namespaces/demo/secrets";

fn watch(kind: &str) -> hub::WatchRequest {
    let encoding = hub::Encoding::Json.into();
    hub::WatchRequest { kind: kind.into(), project: "demo".into(), encoding, ..<_>::default() }
}

pub async fn unbind(world: &World, name: &str) {
    let bindings = world.hub.resources::<core::RoleBinding>().unwrap();
    bindings.delete(&ObjectName::new("demo", name)).await.unwrap();
}

pub fn workload(name: &str) -> Workload {
    let process = Process { command: Some("true".into()), ..Process::default() };
    Workload {
        metadata: meta("demo", name),
        spec: Some(WorkloadSpec {
            runtime: Some(workload_spec::Runtime::Process(process)),
            placement: Some(Placement { nodes: vec!["edge-1".into()], ..Placement::default() }),
            ..WorkloadSpec::default()
        }),
        ..Workload::default()
    }
}

/// The error at the end of a stream of gRPC.
async fn end_of(mut events: tonic::Streaming<hub::WatchResponse>) -> tonic::Status {
    let end = async {
        loop {
            match events.message().await {
                Ok(Some(_)) => {}
                Ok(None) => panic!("it ends without a word"),
                Err(status) => return status,
            }
        }
    };
    tokio::time::timeout(SOON, end).await.expect("the stream ends")
}

/// A binding that is taken away ends watches, whichever way they were opened, and nobody else's.
#[tokio::test]
async fn watches_end_with_the_permission() {
    let world = world().await;
    world.project("demo").await;
    bind(&world, "demo", "viewer", "ann").await;
    bind(&world, "demo", "viewer", "bob").await;
    world.hub.resources().unwrap().apply(&workload("web")).await.unwrap();
    let ann = certificate(&world, Role::User, "ann", None);
    let bob = certificate(&world, Role::User, "bob", None);
    let mut api = HubClient::new(world.endpoint(Some(ann.clone())).connect().await.unwrap());
    let commander = Commander::connect(&world.endpoint(Some(ann.clone()))).await.unwrap();
    let by_grpc =
        until("the binding counts", async || api.watch(watch("workloads")).await.ok()).await;
    let mut by_commander = commander.watch(watch("workloads")).await.unwrap();
    assert!(by_commander.next().await.unwrap().is_some());
    let mut by_rest = Watch::open(&world, &ann, WORKLOADS, None).await;
    assert_eq!(by_rest.next().await.unwrap()["type"], "ADDED");
    let mut bobs = Watch::open(&world, &bob, WORKLOADS, None).await;
    assert_eq!(bobs.next().await.unwrap()["type"], "ADDED");

    unbind(&world, "ann-viewer").await;
    let words = "user \"ann\" cannot watch workloads in project \"demo\"";
    let status = end_of(by_grpc.into_inner()).await;
    assert_eq!(status.code(), tonic::Code::PermissionDenied, "{status}");
    assert!(status.message().contains(words), "{status}");
    let end = tokio::time::timeout(SOON, async {
        loop {
            match by_commander.next().await {
                Ok(Some(_)) => {}
                Ok(None) => panic!("it ends without a word"),
                Err(error) => return error.to_string(),
            }
        }
    });
    assert!(end.await.unwrap().contains(words));
    let last = loop {
        let event = by_rest.next().await.expect("it ends with a word");
        if event["type"] == "ERROR" {
            break event;
        }
    };
    assert_eq!(last["object"]["code"], 403, "{last}");
    assert!(last["object"]["message"].as_str().unwrap().contains(words), "{last}");
    assert!(by_rest.next().await.is_none(), "and then it is over");

    world.hub.resources().unwrap().apply(&workload("more")).await.unwrap();
    let more = async {
        while bobs.next().await.expect("bob's goes on")["object"]["metadata"]["name"] != "more" {}
    };
    tokio::time::timeout(SOON, more).await.expect("bob hears of it");
    assert!(commander.discover().await.is_ok(), "the connection itself is hers");
}

/// Who may see secrets no longer, and may still watch which there are, is shown nothing more by a
/// watch that was opened before.
#[tokio::test]
async fn a_watch_of_secrets_ends_when_they_may_not_be_seen_any_more() {
    let world = world().await;
    world.project("demo").await;
    secret(&world, "demo", "db").await;
    let rule = core::AccessRule {
        verbs: vec!["list".into(), "watch".into()],
        groups: vec!["core".into()],
        resources: vec!["secrets".into()],
        names: vec![],
    };
    let role = core::Role {
        metadata: meta("demo", "lister"),
        spec: Some(core::RoleSpec { rules: vec![rule] }),
        ..<_>::default()
    };
    world.hub.resources().unwrap().create(&role).await.unwrap();
    bind(&world, "demo", "lister", "ann").await;
    // In `system` it holds everywhere, so she sees every secret there is.
    bind(&world, "system", "editor", "ann").await;
    let ann = certificate(&world, Role::User, "ann", None);
    let mut seen = until("both count", async || {
        let mut watch = Watch::open(&world, &ann, SECRETS, None).await;
        let event = watch.next().await?;
        event.to_string().contains("password").then_some(watch)
    })
    .await;
    let bindings = world.hub.resources::<core::RoleBinding>().unwrap();
    bindings.delete(&ObjectName::new("system", "ann-editor")).await.unwrap();
    let last = loop {
        let event = seen.next().await.expect("it ends with a word");
        if event["type"] == "ERROR" {
            break event;
        }
    };
    assert_eq!(last["object"]["code"], 403, "{last}");
    let mut again = Watch::open(&world, &ann, SECRETS, None).await;
    let event = again.next().await.expect("she may still watch").to_string();
    assert!(event.contains("\"db\"") && !event.contains("password"), "{event}");
}

/// What a workload writes, and a command beside it, end with the permission.
#[tokio::test]
async fn logs_and_commands_end_with_the_permission() {
    let world = world().await;
    world.project("demo").await;
    bind(&world, "demo", "editor", "ann").await;
    let edge = InProcess::new(&world, Peer::default());
    let mut agent = FakeAgent::connect(&edge, "edge-1").await.unwrap();
    world.hub.resources().unwrap().apply(&workload("web")).await.unwrap();
    let copy = agent.assignment().await;
    agent.report(&copy.id, "Running", copy.generation).await;
    let ann = certificate(&world, Role::User, "ann", None);
    let commander = Commander::connect(&world.endpoint(Some(ann))).await.unwrap();
    until("the binding counts", async || commander.watch(watch("workloads")).await.ok()).await;

    let request = LogsRequest {
        project: "demo".into(),
        name: "web".into(),
        follow: true,
        ..LogsRequest::default()
    };
    let mut logs = commander.logs(request).await.unwrap();
    let start = ExecStart { command: vec!["cat".into()], stdin: true, ..ExecStart::default() };
    let request = ExecRequest {
        project: "demo".into(),
        name: "web".into(),
        start: Some(start),
        ..ExecRequest::default()
    };
    let mut exec = commander.exec(request).await.unwrap();
    // Both have begun when they have said something.
    let (mut logging, mut running) = (false, None);
    while !(logging && running.is_some()) {
        let message = match agent.next().await.expect("the connection is open") {
            Message::Log(request) => {
                logging = true;
                let data = b"a line\n".to_vec();
                to_server::Message::LogChunk(LogChunk {
                    stream: request.stream,
                    data,
                    ..LogChunk::default()
                })
            }
            Message::Exec(order) if order.start.is_some() => {
                running = Some(order.stream.clone());
                let event = ExecEvent { message: Some(exec_event::Message::Credit(4)) };
                let output = ExecOutput { stream: order.stream, event: Some(event) };
                to_server::Message::ExecOutput(output)
            }
            _ => continue,
        };
        agent.to_server.send(ToServer { message: Some(message) }).await.unwrap();
    }
    assert_eq!(logs.next().await.unwrap().unwrap().data, b"a line\n");
    assert!(exec.next().await.unwrap().is_some());

    unbind(&world, "ann-editor").await;
    let end = tokio::time::timeout(SOON, logs.next()).await.expect("the logs end");
    let said = end.expect_err("with a word").to_string();
    assert!(said.contains("cannot get workloads/log in project \"demo\""), "{said}");
    let end = tokio::time::timeout(SOON, exec.next()).await.expect("the command ends");
    let said = end.expect_err("with a word").to_string();
    assert!(said.contains("cannot create workloads/exec in project \"demo\""), "{said}");
    until_cancelled(&mut agent, &running.expect("it ran")).await;
}

/// Waits until an agent is told to end a command.
pub async fn until_cancelled(agent: &mut FakeAgent, stream: &str) {
    let cancel = |word: &ExecInput| matches!(word.message, Some(exec_input::Message::Cancel(_)));
    let cancelled = async {
        loop {
            if let Some(Message::Exec(order)) = agent.next().await
                && order.stream == stream
                && order.input.iter().any(cancel)
            {
                return;
            }
        }
    };
    tokio::time::timeout(SOON, cancelled).await.expect("nobody types to it any more");
}

/// A token that is taken back, that comes to its end, or that stands for somebody else by now.
#[tokio::test]
async fn streams_end_with_their_token() {
    let world = world().await;
    world.project("demo").await;
    let tokens = world.hub.resources::<core::AccessToken>().unwrap();
    let make = async |name: &str, ends: Option<i64>| {
        let token = BearerToken::generate(name);
        let spec = core::AccessTokenSpec {
            user: Some("robot".into()),
            groups: vec!["orrery:admins".into()],
            secret_hash: Some(token.hash().to_string()),
            expires_at: ends.map(|seconds| prost_types::Timestamp { seconds, nanos: 0 }),
        };
        let metadata = meta("", name);
        tokens
            .create(&core::AccessToken { metadata, spec: Some(spec), ..<_>::default() })
            .await
            .unwrap();
        token.to_text()
    };
    let authority = world.identities.authorities().current().unwrap().fingerprint();
    let endpoint = Endpoint::pinned(&world.url, authority).unwrap();
    let mut api = HubClient::new(endpoint.connect().await.unwrap());
    let mut open = async |token: &str| {
        until("the token counts", async || {
            let mut request = tonic::Request::new(watch("workloads"));
            let value = format!("Bearer {token}").parse().unwrap();
            request.metadata_mut().insert("authorization", value);
            api.watch(request).await.ok()
        })
        .await
        .into_inner()
    };
    let now = world.hub.clock().now().seconds;
    let (deleted, ending) = (make("deleted", None).await, make("ending", Some(now + 5)).await);
    let changed = make("changed", None).await;
    let streams = [open(&deleted).await, open(&ending).await, open(&changed).await];
    // The same by REST, without a certificate of one's own.
    let machine = certificate(&world, Role::Agent, "edge-1", None);
    let mut by_rest = Watch::open(&world, &machine, PROJECTS, Some(&deleted)).await;
    assert_eq!(by_rest.next().await.unwrap()["type"], "ADDED");

    tokens.delete(&ObjectName::new("", "deleted")).await.unwrap();
    let mut object = tokens.find(&ObjectName::new("", "changed")).await.unwrap().unwrap();
    object.spec.as_mut().unwrap().groups.clear();
    tokens.apply(&object).await.unwrap();
    for stream in streams {
        let status = end_of(stream).await;
        assert_eq!(status.code(), tonic::Code::Unauthenticated, "{status}");
        assert!(status.message().contains("good no longer"), "{status}");
    }
    let last = loop {
        let event = by_rest.next().await.expect("it ends with a word");
        if event["type"] == "ERROR" {
            break event;
        }
    };
    assert_eq!(last["object"]["code"], json!(401), "{last}");
    assert_eq!(last["object"]["kind"], json!("Status"), "{last}");
    assert!(by_rest.next().await.is_none());
}
