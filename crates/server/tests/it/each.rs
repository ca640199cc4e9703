//! Many resources over one stream: each is allowed, refused and answered by itself.
use crate::access::{bind, certificate, meta, until};
use crate::joining::world;
use orrery_client::Endpoint;
use orrery_hub::ObjectName;
use orrery_pki::{BearerToken, Role};
use orrery_proto::apps::v1::{Placement, Process, Workload, WorkloadSpec, workload_spec};
use orrery_proto::core::v1 as core;
use orrery_proto::hub::v1 as hub;
use orrery_proto::hub::v1::apply_each_response::Outcome;
use orrery_proto::hub::v1::hub_client::HubClient;
use orrery_testkit::world::{SOON, World};
use prost::Message as _;
use std::collections::BTreeMap;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;

fn request(id: u64, project: &str, name: &str, command: Option<&str>) -> hub::ApplyEachRequest {
    let process = Process { command: command.map(str::to_owned), ..Process::default() };
    let workload = Workload {
        metadata: meta(project, name),
        spec: Some(WorkloadSpec {
            runtime: Some(workload_spec::Runtime::Process(process)),
            placement: Some(Placement { nodes: vec!["edge-1".into()], ..Placement::default() }),
            ..WorkloadSpec::default()
        }),
        ..Workload::default()
    };
    let body = hub::resource::Body::Protobuf(workload.encode_to_vec().into());
    let resource = hub::Resource { kind: "Workload".into(), body: Some(body), ..<_>::default() };
    let apply = hub::ApplyRequest { resource: Some(resource), ..<_>::default() };
    hub::ApplyEachRequest { id, apply: Some(apply) }
}

struct Stream {
    requests: mpsc::Sender<hub::ApplyEachRequest>,
    answers: tonic::Streaming<hub::ApplyEachResponse>,
}

impl Stream {
    async fn next(&mut self) -> Option<hub::ApplyEachResponse> {
        let next = tokio::time::timeout(SOON, self.answers.message()).await;
        next.expect("an answer in time").expect("no error of the stream itself")
    }

    async fn exchange(&mut self, request: hub::ApplyEachRequest) -> Outcome {
        let id = request.id;
        self.requests.send(request).await.unwrap();
        let answer = self.next().await.expect("the stream goes on");
        assert_eq!(answer.id, id);
        answer.outcome.expect("an answer says something")
    }
}

/// proves: HUB-06
#[tokio::test]
async fn each_of_many_is_judged_by_itself() {
    let world = world().await;
    world.project("demo").await;
    world.project("other").await;
    bind(&world, "demo", "editor", "ann").await;
    let ann = certificate(&world, Role::User, "ann", None);
    let mut api = HubClient::new(world.endpoint(Some(ann)).connect().await.unwrap());
    let (requests, received) = mpsc::channel(8);
    let answers = api.apply_each(ReceiverStream::new(received)).await.unwrap().into_inner();
    let mut stream = Stream { requests, answers };

    until("the binding counts", async || {
        let outcome = stream.exchange(request(0, "demo", "first", Some("true"))).await;
        matches!(outcome, Outcome::Applied(_)).then_some(())
    })
    .await;
    let three = [
        request(1, "demo", "second", Some("true")),
        request(2, "other", "second", Some("true")),
        request(3, "demo", "third", None),
    ];
    for request in three {
        stream.requests.send(request).await.unwrap();
    }
    let mut told = BTreeMap::new();
    while told.len() < 3 {
        let answer = stream.next().await.expect("three answers");
        told.insert(answer.id, answer.outcome.expect("an answer says something"));
    }
    let created = i32::from(hub::apply_response::Outcome::Created);
    assert!(matches!(&told[&1], Outcome::Applied(applied) if applied.outcome == created));
    let Outcome::Error(error) = &told[&2] else { panic!("it is not hers") };
    assert_eq!(error.reason, "Forbidden", "{error:?}");
    let Outcome::Error(error) = &told[&3] else { panic!("it has no command") };
    assert_eq!((error.reason.as_str(), error.violations.is_empty()), ("Invalid", false));

    // The same again changes nothing, and what was refused was not stored.
    let Outcome::Applied(again) = stream.exchange(request(4, "demo", "second", Some("true"))).await
    else {
        panic!("it is hers")
    };
    assert_eq!(again.outcome, i32::from(hub::apply_response::Outcome::Unchanged));
    let workloads = world.hub.resources::<Workload>().unwrap();
    assert!(workloads.find(&ObjectName::new("other", "second")).await.unwrap().is_none());

    let Stream { requests, mut answers } = stream;
    drop(requests);
    let end = tokio::time::timeout(SOON, answers.message()).await.expect("it ends").unwrap();
    assert!(end.is_none(), "with its last request");
}

/// A stream in two projects of the same person.
async fn in_two_projects(world: &World) -> Stream {
    for project in ["demo", "other"] {
        world.project(project).await;
        bind(world, project, "editor", "ann").await;
    }
    let ann = certificate(world, Role::User, "ann", None);
    let mut api = HubClient::new(world.endpoint(Some(ann)).connect().await.unwrap());
    let (requests, received) = mpsc::channel(8);
    let answers = api.apply_each(ReceiverStream::new(received)).await.unwrap().into_inner();
    let mut stream = Stream { requests, answers };
    for project in ["demo", "other"] {
        until("the binding counts", async || {
            let outcome = stream.exchange(request(0, project, "first", Some("true"))).await;
            matches!(outcome, Outcome::Applied(_)).then_some(())
        })
        .await;
    }
    stream
}

/// Whoever loses a right loses it with the next request; the stream ends when nothing is left that it was used
/// for, without waiting for a request.
#[tokio::test]
async fn a_stream_of_writes_ends_with_the_last_permission() {
    let world = world().await;
    let mut stream = in_two_projects(&world).await;
    let bindings = world.hub.resources::<core::RoleBinding>().unwrap();
    bindings.delete(&ObjectName::new("demo", "ann-editor")).await.unwrap();
    until("the binding counts no more", async || {
        let outcome = stream.exchange(request(1, "demo", "second", Some("true"))).await;
        matches!(outcome, Outcome::Error(error) if error.reason == "Forbidden").then_some(())
    })
    .await;
    let outcome = stream.exchange(request(2, "other", "second", Some("true"))).await;
    assert!(matches!(outcome, Outcome::Applied(_)), "the other project is still hers");

    bindings.delete(&ObjectName::new("other", "ann-editor")).await.unwrap();
    let end = tokio::time::timeout(SOON, stream.answers.message()).await.expect("it ends");
    let status = end.expect_err("with a word");
    assert_eq!(status.code(), tonic::Code::PermissionDenied, "{status}");
    assert!(status.message().contains("workloads in project \"other\""), "{status}");
}

/// A token that is taken back ends what was opened with it.
#[tokio::test]
async fn a_stream_of_writes_ends_with_its_token() {
    let world = world().await;
    world.project("demo").await;
    let tokens = world.hub.resources::<core::AccessToken>().unwrap();
    let token = BearerToken::generate("writer");
    let spec = core::AccessTokenSpec {
        user: Some("robot".into()),
        groups: vec!["orrery:admins".into()],
        secret_hash: Some(token.hash().to_string()),
        expires_at: None,
    };
    let token_object =
        core::AccessToken { metadata: meta("", "writer"), spec: Some(spec), ..<_>::default() };
    tokens.create(&token_object).await.unwrap();
    let authority = world.identities.authorities().current().unwrap().fingerprint();
    let endpoint = Endpoint::pinned(&world.url, authority).unwrap();
    let mut api = HubClient::new(endpoint.connect().await.unwrap());
    let (requests, answers) = until("the token counts", async || {
        let (requests, received) = mpsc::channel(8);
        let mut opening = tonic::Request::new(ReceiverStream::new(received));
        let value = format!("Bearer {}", token.to_text().as_str()).parse().unwrap();
        opening.metadata_mut().insert("authorization", value);
        Some((requests, api.apply_each(opening).await.ok()?.into_inner()))
    })
    .await;
    let mut stream = Stream { requests, answers };
    let outcome = stream.exchange(request(1, "demo", "first", Some("true"))).await;
    assert!(matches!(outcome, Outcome::Applied(_)), "{outcome:?}");

    tokens.delete(&ObjectName::new("", "writer")).await.unwrap();
    let end = tokio::time::timeout(SOON, stream.answers.message()).await.expect("it ends");
    let status = end.expect_err("with a word");
    assert_eq!(status.code(), tonic::Code::Unauthenticated, "{status}");
    let workloads = world.hub.resources::<Workload>().unwrap();
    stream.requests.send(request(2, "demo", "late", Some("true"))).await.ok();
    assert!(workloads.find(&ObjectName::new("demo", "late")).await.unwrap().is_none());
}
