//! Watches: what they begin with, what they tell, and how they end.
use crate::support::{MERGE, TABLE, WORKLOADS, World, project, workload};
use axum::http::Method;
use hyper_util::client::legacy::Client;
use hyper_util::rt::TokioExecutor;
use serde_json::{Value, json};

const NODES: &str = "/apis/infra.orrery.dev/v1/nodes";
const JSON: &str = "application/json";

async fn make(world: &World, name: &str) -> Value {
    let object = json!({ "metadata": { "name": name }, "spec": {} });
    world.post(NODES, &object).await.expect(201)
}

async fn label(world: &World, name: &str, value: &str) {
    let patch = json!({ "metadata": { "labels": { "v": value } } });
    world.patch(&format!("{NODES}/{name}"), MERGE, &patch).await.expect(200);
}

#[tokio::test]
async fn without_a_version_a_watch_begins_with_what_is_there() {
    let world = World::start().await;
    make(&world, "a").await;
    for version in ["", "&resourceVersion=0"] {
        let mut events = world.watch(&format!("{NODES}?watch=true{version}"), JSON).await;
        let first = events.next().await.expect("an event");
        assert_eq!(
            (&first["type"], &first["object"]["metadata"]["name"]),
            (&json!("ADDED"), &json!("a"))
        );
    }
}

#[tokio::test]
async fn from_a_version_on_every_change_is_told_once() {
    let world = World::start().await;
    let made = make(&world, "a").await;
    let version = made["metadata"]["resourceVersion"].as_str().expect("text");
    label(&world, "a", "1").await;
    make(&world, "b").await;
    world.delete(&format!("{NODES}/a"), &json!({})).await.expect(200);
    let mut events = world.watch(&format!("{NODES}?watch=1&resourceVersion={version}"), JSON).await;
    for (kind, name) in [("MODIFIED", "a"), ("ADDED", "b"), ("DELETED", "a")] {
        let event = events.next().await.expect("an event");
        assert_eq!(
            (&event["type"], &event["object"]["metadata"]["name"]),
            (&json!(kind), &json!(name))
        );
    }
}

#[tokio::test]
async fn selectors_decide_what_a_watcher_sees() {
    let world = World::start().await;
    make(&world, "a").await;
    make(&world, "b").await;
    let path = format!("{NODES}?watch=true&fieldSelector=metadata.name%3Db&resourceVersion=0");
    let mut events = world.watch(&path, JSON).await;
    assert_eq!(events.next().await.expect("an event")["object"]["metadata"]["name"], "b");
    let mut labelled = world.watch(&format!("{NODES}?watch=true&labelSelector=v%3D1"), JSON).await;
    label(&world, "a", "1").await;
    assert_eq!(labelled.next().await.expect("an event")["type"], "ADDED", "it begins to fit");
    label(&world, "a", "2").await;
    assert_eq!(labelled.next().await.expect("an event")["type"], "DELETED", "it no longer fits");
}

#[tokio::test]
async fn initial_events_end_with_a_bookmark() {
    let world = World::start().await;
    make(&world, "a").await;
    let path = format!(
        "{NODES}?watch=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true"
    );
    let mut events = world.watch(&path, JSON).await;
    assert_eq!(events.next().await.expect("an event")["type"], "ADDED");
    let end = events.next().await.expect("an event");
    assert_eq!((&end["type"], &end["object"]["kind"]), (&json!("BOOKMARK"), &json!("Node")));
    assert_eq!(end["object"]["metadata"]["annotations"]["k8s.io/initial-events-end"], "true");
    assert!(end["object"]["metadata"]["resourceVersion"].is_string());
    make(&world, "b").await;
    assert_eq!(events.next().await.expect("an event")["object"]["metadata"]["name"], "b");
}

#[tokio::test]
async fn tables_are_watched_with_columns_once() {
    let world = World::start().await;
    make(&world, "a").await;
    let mut events = world.watch(&format!("{NODES}?watch=true"), TABLE).await;
    let first = events.next().await.expect("an event");
    assert_eq!(first["object"]["kind"], "Table");
    assert!(!first["object"]["columnDefinitions"].as_array().expect("columns").is_empty());
    make(&world, "b").await;
    let second = events.next().await.expect("an event");
    assert_eq!(second["object"]["columnDefinitions"], json!([]));
    assert_eq!(second["object"]["rows"][0]["cells"][0], "b");
}

#[tokio::test]
async fn a_watch_ends_when_its_time_is_over() {
    let world = World::start().await;
    let mut events = world.watch(&format!("{WORKLOADS}?watch=true&timeoutSeconds=1"), JSON).await;
    assert_eq!(events.next().await, None, "a clean end");
}

/// Clients begin to watch before a project is made, and after it is made again.
#[tokio::test]
async fn a_watch_follows_the_name_of_its_project() {
    let world = World::start().await;
    let (projects, inside) =
        ("/apis/core.orrery.dev/v1/projects", "/apis/apps.orrery.dev/v1/namespaces/late/workloads");
    let list = world.get(inside).await.expect(200);
    let version = list["metadata"]["resourceVersion"].as_str().expect("text").to_owned();
    let watch = format!("{inside}?watch=true&resourceVersion={version}");
    let mut early = world.watch(&watch, JSON).await;
    world.post(projects, &project("late")).await.expect(201);
    assert_eq!(early.next().await, None, "it ends, so that its client comes back");
    let mut events = world.watch(&watch, JSON).await;
    world.post(inside, &workload("a")).await.expect(201);
    let first = events.next().await.expect("an event");
    assert_eq!(
        (&first["type"], &first["object"]["metadata"]["name"]),
        (&json!("ADDED"), &json!("a"))
    );
    world.delete(&format!("{projects}/late"), &json!({})).await.expect(200);
    let mut kinds = Vec::new();
    while let Some(event) = events.next().await {
        kinds.push(event["type"].as_str().expect("a type").to_owned());
    }
    let last: Vec<&str> = kinds.iter().rev().take(2).map(String::as_str).collect();
    assert_eq!(last, ["ERROR", "DELETED"], "what was in it goes first: {kinds:?}");
    let path = format!(
        "{inside}?watch=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true"
    );
    let mut gone = world.watch(&path, JSON).await;
    let end = gone.next().await.expect("a bookmark");
    assert_eq!(end["object"]["metadata"]["annotations"]["k8s.io/initial-events-end"], "true");
}

/// What was in a project that went is not told to those who go on from before its end, so they are told to list again.
#[tokio::test]
async fn a_watch_does_not_go_on_beyond_the_end_of_its_project() {
    let world = World::start().await;
    let projects = "/apis/core.orrery.dev/v1/projects";
    world.post(projects, &project("brief")).await.expect(201);
    for (group, plural) in [("apps.orrery.dev", "workloads"), ("core.orrery.dev", "secrets")] {
        let inside = format!("/apis/{group}/v1/namespaces/brief/{plural}");
        let version = async || {
            let list = world.get(&inside).await.expect(200);
            list["metadata"]["resourceVersion"].as_str().expect("text").to_owned()
        };
        let before = format!("{inside}?watch=true&resourceVersion={}", version().await);
        world.delete(&format!("{projects}/brief"), &json!({})).await.expect(200);
        while world.get(&format!("{projects}/brief")).await.code != 404 {
            tokio::task::yield_now().await;
        }
        for again in [false, true] {
            if again {
                world.post(projects, &project("brief")).await.expect(201);
            }
            let mut events = world.watch(&before, JSON).await;
            let event = events.next().await.expect("an event");
            assert_eq!((&event["type"], &event["object"]["code"]), (&json!("ERROR"), &json!(410)));
            assert_eq!(events.next().await, None);
        }
        let since =
            format!("{inside}?watch=true&timeoutSeconds=1&resourceVersion={}", version().await);
        assert_eq!(
            world.watch(&since, JSON).await.next().await,
            None,
            "nothing has happened since"
        );
    }
}

#[tokio::test]
async fn a_version_from_the_future_is_refused() {
    let world = World::start().await;
    let refused = world.get(&format!("{NODES}?watch=true&resourceVersion=999999999")).await;
    assert_eq!(refused.expect(504)["reason"], "Timeout");
}

#[tokio::test]
async fn history_that_is_gone_is_told_as_an_event() {
    let world = World::start().await;
    let made = make(&world, "a").await;
    let version = made["metadata"]["resourceVersion"].as_str().expect("text");
    label(&world, "a", "1").await;
    label(&world, "a", "2").await;
    let store = world.hub.store();
    store.compact(store.revision()).await.expect("compacted");
    let mut events =
        world.watch(&format!("{NODES}?watch=true&resourceVersion={version}"), JSON).await;
    let event = events.next().await.expect("an event");
    assert_eq!(event["type"], "ERROR", "{event}");
    let status = &event["object"];
    assert_eq!((&status["code"], &status["reason"]), (&json!(410), &json!("Expired")));
    assert_eq!(events.next().await, None);
}

/// One connection carries them all, and an idle watch costs next to nothing.
#[tokio::test]
async fn hundreds_of_watches_share_a_connection() {
    let mut world = World::start().await;
    world.client = Client::builder(TokioExecutor::new()).http2_only(true).build_http();
    let mut open = Vec::new();
    for _ in 0..500 {
        open.push(world.watch(&format!("{NODES}?watch=true"), JSON).await);
    }
    make(&world, "a").await;
    for events in &mut open {
        assert_eq!(events.next().await.expect("an event")["object"]["metadata"]["name"], "a");
    }
}

/// The paths of watches as they once were; libraries of Ruby still know no others.
#[tokio::test]
async fn watches_have_an_older_path() {
    let world = World::start().await;
    world.post(WORKLOADS, &workload("a")).await.expect(201);
    world.post(WORKLOADS, &workload("b")).await.expect(201);
    let older = WORKLOADS.replace("/v1/", "/v1/watch/");
    let mut events = world.watch(&format!("{older}?timeoutSeconds=30"), "application/json").await;
    let first = events.next().await.expect("an event");
    assert_eq!(
        (&first["type"], &first["object"]["metadata"]["name"]),
        (&json!("ADDED"), &json!("a"))
    );
    let mut events = world.watch(&format!("{older}/b"), "application/json").await;
    assert_eq!(events.next().await.expect("an event")["object"]["metadata"]["name"], "b");
    world.send_as(Method::POST, &older, "application/json", "{}").await.expect(404);
}
