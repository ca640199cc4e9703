//! Objects that other projects read: over REST, over gRPC, and only by those who may.
use crate::access::{bind, certificate, get, json_of, list, until};
use crate::support::{Events, MERGE, PATIENCE, World};
use crate::wire::ask;
use orrery_api::SHARED_FROM;
use orrery_client::Commander;
use orrery_pki::Role;
use orrery_proto::hub::v1 as hub;
use orrery_proto::hub::v1::hub_client::HubClient;
use orrery_proto::hub::v1::watch_response::Type;
use serde_json::{Value, json};
use std::collections::BTreeSet;

const NAMESPACES: &str = "/apis/core.orrery.dev/v1/projects";
const JSON: &[(&str, &str)] = &[("Content-Type", "application/json")];

fn path(project: &str) -> String {
    format!("/apis/core.orrery.dev/v1/namespaces/{project}/secrets")
}

fn secret(name: &str, projects: &[&str]) -> Value {
    let projects: Vec<Value> = projects.iter().map(|name| json!({"name": name})).collect();
    let sharing = json!({"enabled": !projects.is_empty(), "projects": projects});
    json!({
        "apiVersion": "core.orrery.dev/v1", "kind": "Secret", "metadata": {"name": name},
        "spec": {"data": {"key": "aHVzaA=="}, "sharing": sharing},
    })
}

async fn with_projects() -> World {
    let world = World::start().await;
    for name in ["a", "b", "c"] {
        let project = json!({
            "apiVersion": "core.orrery.dev/v1", "kind": "Project", "metadata": {"name": name},
        });
        world.post(NAMESPACES, &project).await.expect(201);
    }
    world
}

fn names(list: &Value) -> Vec<&str> {
    let items = list["items"].as_array().unwrap();
    items.iter().map(|item| item["metadata"]["name"].as_str().unwrap()).collect()
}

/// proves: HUB-09
#[tokio::test]
async fn sharing_over_rest() {
    let world = with_projects().await;
    world.post(&path("a"), &secret("db", &["b"])).await.expect(201);
    let shown = world.get(&format!("{}/db", path("b"))).await.expect(200);
    assert_eq!(shown["metadata"]["namespace"], "b");
    assert_eq!(shown["metadata"]["annotations"][SHARED_FROM], "a");
    assert_eq!(shown["spec"]["data"]["key"], "aHVzaA==");
    world.get(&format!("{}/db", path("c"))).await.expect(404);
    assert_eq!(names(&world.get(&path("b")).await.expect(200)), ["db"]);
    assert!(names(&world.get(&path("c")).await.expect(200)).is_empty());
    let everywhere = world.get("/apis/core.orrery.dev/v1/secrets").await.expect(200);
    assert_eq!(names(&everywhere), ["db"], "it is one object");

    // It can be read there, and nothing else.
    let one = format!("{}/db", path("b"));
    let patch = json!({"metadata": {"labels": {"x": "y"}}});
    let mut sent_back = shown.clone();
    sent_back["metadata"]["labels"] = json!({"x": "y"});
    for refused in [
        world.patch(&one, MERGE, &patch).await,
        world.put(&one, &sent_back).await,
        world.delete(&one, &json!({})).await,
    ] {
        let refused = refused.expect(403);
        let message = refused["message"].as_str().unwrap();
        assert!(message.contains("by project \"a\" and can only be read here"), "{message}");
    }
    world.delete(&path("b"), &json!({})).await.expect(200);
    world.get(&format!("{}/db", path("a"))).await.expect(200);

    // An unknown project is named with its place.
    let wrong = world.post(&path("a"), &secret("x", &["b", "nowhere"])).await.expect(422);
    let cause = &wrong["details"]["causes"][0];
    assert_eq!(cause["field"], "spec.sharing.projects[1].name");
    assert!(cause["message"].as_str().unwrap().contains("there is no project of this name"));
}

/// The next event of a watch, as `TYPE owner`.
async fn line(events: &mut Events) -> String {
    let event = events.next().await.unwrap();
    let owner = event["object"]["metadata"]["annotations"][SHARED_FROM].as_str();
    format!("{} {}", event["type"].as_str().unwrap(), owner.unwrap_or("own"))
}

/// proves: HUB-09
#[tokio::test]
async fn watches_over_rest_tell_when_sharing_begins_and_ends() {
    let world = with_projects().await;
    let version = world.get(&path("b")).await.expect(200);
    let version = version["metadata"]["resourceVersion"].as_str().unwrap().to_owned();
    let watch = format!("{}?watch=true&resourceVersion={version}", path("b"));
    let mut lines = world.watch(&watch, "application/json").await;
    world.post(&path("a"), &secret("db", &[])).await.expect(201);
    let one = format!("{}/db", path("a"));
    let share =
        |projects: Value| json!({"spec": {"sharing": {"enabled": true, "projects": projects}}});
    world.patch(&one, MERGE, &share(json!([{"name": "b"}]))).await.expect(200);
    assert_eq!(line(&mut lines).await, "ADDED a");
    world.patch(&one, MERGE, &share(json!([{"name": "*"}]))).await.expect(200);
    assert_eq!(line(&mut lines).await, "MODIFIED a");
    world.post(&path("b"), &secret("db", &[])).await.expect(201);
    assert_eq!([line(&mut lines).await, line(&mut lines).await], ["DELETED a", "ADDED own"]);
    world.delete(&format!("{}/db", path("b")), &json!({})).await.expect(200);
    assert_eq!([line(&mut lines).await, line(&mut lines).await], ["DELETED own", "ADDED a"]);
    world.patch(&one, MERGE, &share(json!([{"name": "c"}]))).await.expect(200);
    assert_eq!(line(&mut lines).await, "DELETED a");
}

/// proves: HUB-09
#[tokio::test]
async fn sharing_over_grpc() {
    let world = with_projects().await;
    let mut api = HubClient::connect(world.url()).await.unwrap();
    let apply = |project: &str, projects: &[&str], mode: hub::apply_request::Mode| {
        let mut object = secret("db", projects);
        object["metadata"]["project"] = json!(project);
        let body = Some(hub::resource::Body::Json(object.to_string()));
        let resource = Some(hub::Resource { body, ..<_>::default() });
        let encoding = hub::Encoding::Json.into();
        hub::ApplyRequest { resource, encoding, mode: mode.into(), ..<_>::default() }
    };
    let watch = hub::WatchRequest {
        kind: "Secret".into(),
        project: "b".into(),
        encoding: hub::Encoding::Json.into(),
        ..<_>::default()
    };
    let mut events = api.watch(watch).await.unwrap().into_inner();
    let next = async |events: &mut tonic::Streaming<hub::WatchResponse>| {
        let event = tokio::time::timeout(PATIENCE, events.message()).await.unwrap();
        event.unwrap().unwrap().r#type()
    };
    assert_eq!(next(&mut events).await, Type::Bookmark);
    api.apply(apply("a", &["b"], <_>::default())).await.unwrap();
    assert_eq!(next(&mut events).await, Type::Added);
    let found = api.get(get("secret", "b", "db")).await.unwrap().into_inner();
    let found = json_of(found.resource);
    assert_eq!(found["metadata"]["project"], "b");
    assert_eq!(found["metadata"]["annotations"][SHARED_FROM], "a");
    assert_eq!(api.list(list("secret", "b")).await.unwrap().into_inner().items.len(), 1);
    assert_eq!(api.list(list("secret", "c")).await.unwrap().into_inner().items.len(), 0);
    assert_eq!(api.get(get("secret", "c", "db")).await.unwrap_err().code(), tonic::Code::NotFound);
    let replace = apply("b", &[], hub::apply_request::Mode::Replace);
    let name = get("secret", "b", "db").name;
    let delete = hub::DeleteRequest { name, ..<_>::default() };
    for refused in [
        api.apply(replace).await.map(|_| ()).unwrap_err(),
        api.delete(delete).await.map(|_| ()).unwrap_err(),
    ] {
        assert_eq!(refused.code(), tonic::Code::PermissionDenied, "{refused}");
        assert!(refused.message().contains("can only be read here"), "{refused}");
    }
    api.apply(apply("a", &["c"], <_>::default())).await.unwrap();
    assert_eq!(next(&mut events).await, Type::Deleted);
    let kinds = api.discover(hub::DiscoverRequest {}).await.unwrap().into_inner().kinds;
    let shareable = kinds.iter().filter(|kind| kind.shareable);
    let shareable: BTreeSet<&str> = shareable.map(|kind| kind.kind.as_str()).collect();
    assert_eq!(shareable, ["Blueprint", "Secret"].into());
}

/// proves: HUB-09
#[tokio::test]
async fn who_reads_what_is_shared_may_read_it_where_it_is_shared() {
    let world = crate::joining::world().await;
    for project in ["a", "b"] {
        world.project(project).await;
    }
    bind(&world, "b", "viewer", "ann").await;
    bind(&world, "b", "editor", "bob").await;
    bind(&world, "a", "editor", "cid").await;
    let (ann, bob, cid) = (
        certificate(&world, Role::User, "ann", None),
        certificate(&world, Role::User, "bob", None),
        certificate(&world, Role::User, "cid", None),
    );
    let post = async |project: &str, body: Value| {
        ask(&world, &cid, "POST", &path(project), JSON, &body.to_string()).await
    };
    let (code, said) = until("the bindings count", async || {
        Some(post("a", secret("db", &[])).await).filter(|it| it.0 != 403)
    })
    .await;
    assert_eq!(code, 201, "{said}");
    // Who may not make such objects there cannot make one appear there.
    let body = secret("db", &["b"]).to_string();
    let one = format!("{}/db", path("a"));
    let (code, said) = ask(&world, &cid, "PUT", &one, JSON, &body).await;
    assert_eq!(code, 403, "{said}");
    let said = said["message"].as_str().unwrap();
    assert!(said.contains("cannot share \"db\" with project \"b\""), "{said}");
    let all = secret("db", &["*"]).to_string();
    let (code, said) = ask(&world, &cid, "PUT", &one, JSON, &all).await;
    assert!(code == 403 && said.to_string().contains("with all projects"), "{code} {said}");

    bind(&world, "b", "editor", "cid").await;
    until("the binding counts", async || {
        (ask(&world, &cid, "PUT", &one, JSON, &body).await.0 == 200).then_some(())
    })
    .await;
    let there = format!("{}/db", path("b"));
    // A viewer reads no secrets, shared or not; whoever reads those of b reads this one, and a stays closed.
    assert_eq!(ask(&world, &ann, "GET", &there, &[], "").await.0, 403);
    let (code, said) = ask(&world, &bob, "GET", &there, &[], "").await;
    assert!(code == 200 && said["spec"]["data"]["key"] == "aHVzaA==", "{code} {said}");
    assert_eq!(ask(&world, &bob, "GET", &one, &[], "").await.0, 403);
    assert_eq!(ask(&world, &bob, "DELETE", &there, &[], "").await.0, 403);
    let bob = Commander::connect(&world.endpoint(Some(bob))).await.unwrap();
    assert_eq!(bob.list(list("secrets", "b")).await.unwrap().items.len(), 1);
    assert!(bob.list(list("secrets", "a")).await.is_err());
}
