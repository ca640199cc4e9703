//! The `kube` crate, as authors of controllers use it: its client, its watcher, its controller.
use crate::support::{PATIENCE, World, workload};
use futures::{Stream, StreamExt as _};
use k8s_openapi::api::core::v1::{Event as CoreEvent, Namespace};
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::core::{DynamicObject, GroupVersionKind, PartialObjectMeta};
use kube::discovery::{ApiResource, Discovery, Scope, pinned_kind};
use kube::runtime::events::{Event as News, EventType, Recorder};
use kube::runtime::watcher::{self, Event, watcher};
use kube::runtime::{Controller, controller::Action};
use kube::{Api, Client, Config, ResourceExt as _};
use serde_json::{Value, json};
use std::sync::Arc;

fn client(world: &World) -> Client {
    let config = Config::new(world.url().parse().expect("an address"));
    Client::try_from(config).expect("a client")
}

/// What discovery says of workloads, and the way to those of the default project.
async fn workloads(client: &Client) -> (ApiResource, Api<DynamicObject>) {
    let kind = GroupVersionKind::gvk("apps.orrery.dev", "v1", "Workload");
    let (resource, found) = pinned_kind(client, &kind).await.expect("discovered");
    assert_eq!(found.scope, Scope::Namespaced);
    let api = Api::namespaced_with(client.clone(), "default", &resource);
    (resource, api)
}

fn object(name: &str) -> DynamicObject {
    serde_json::from_value(workload(name)).expect("an object")
}

/// Copies that can be counted: placed by a selector that nothing fits.
fn scalable(name: &str, replicas: i32) -> DynamicObject {
    let mut value: Value = workload(name);
    value["spec"]["placement"] =
        json!({ "selector": { "matchLabels": { "a": "b" } }, "replicas": replicas });
    serde_json::from_value(value).expect("an object")
}

#[track_caller]
fn code<T: std::fmt::Debug>(outcome: Result<T, kube::Error>) -> (u16, String) {
    match outcome.expect_err("refused") {
        kube::Error::Api(status) => (status.code, status.reason),
        other => panic!("no answer of the server: {other}"),
    }
}

#[tokio::test]
async fn kube_writes_and_sees_conflicts() {
    let world = World::start().await;
    let client = client(&world);
    let (_, api) = workloads(&client).await;
    let made = api.create(&PostParams::default(), &object("a")).await.expect("created");
    assert_eq!(code(api.create(&PostParams::default(), &object("a")).await).0, 409);
    let merge = Patch::Merge(json!({ "metadata": { "labels": { "tier": "web" } } }));
    let patched = api.patch("a", &PatchParams::default(), &merge).await.expect("patched");
    assert_eq!(patched.labels()["tier"], "web");
    assert_eq!(
        code(api.replace("a", &PostParams::default(), &made).await),
        (409, "Conflict".into())
    );
    let current = api.get("a").await.expect("there");
    api.replace("a", &PostParams::default(), &current).await.expect("replaced");

    let declared = |seconds: i32| {
        Patch::Apply(json!({
            "apiVersion": "apps.orrery.dev/v1", "kind": "Workload", "metadata": { "name": "a" },
            "spec": { "stopGraceSeconds": seconds },
        }))
    };
    let (mine, yours) = (PatchParams::apply("mine"), PatchParams::apply("yours"));
    // Whoever created it holds the field: the first to apply must insist.
    assert_eq!(code(api.patch("a", &mine, &declared(3)).await), (409, "Conflict".into()));
    api.patch("a", &mine.clone().force(), &declared(3)).await.expect("forced");
    assert_eq!(code(api.patch("a", &yours, &declared(4)).await), (409, "Conflict".into()));
    let same = api.patch("a", &yours, &declared(3)).await.expect("agreed");
    assert_eq!(same.data["spec"]["stopGraceSeconds"], 3);
    let dry = PatchParams { dry_run: true, ..PatchParams::default() };
    let other = Patch::Merge(json!({ "spec": { "stopGraceSeconds": 9 } }));
    assert_eq!(
        api.patch("a", &dry, &other).await.expect("dry").data["spec"]["stopGraceSeconds"],
        9
    );
    assert_eq!(api.get("a").await.expect("there").data["spec"]["stopGraceSeconds"], 3);

    let seen = api.get_metadata("a").await.expect("metadata");
    assert_eq!(seen.labels()["tier"], "web");
    assert_eq!(api.get_opt("nope").await.expect("an answer").map(|found| found.name_any()), None);
    let invalid = Patch::Merge(json!({ "spec": { "stopGraceSeconds": -1 } }));
    assert_eq!(
        code(api.patch("a", &PatchParams::default(), &invalid).await),
        (422, "Invalid".into())
    );
}

#[tokio::test]
async fn kube_lists_in_pages_and_deletes_many() {
    let world = World::start().await;
    let client = client(&world);
    let (resource, api) = workloads(&client).await;
    for name in ["a", "b", "c"] {
        api.create(&PostParams::default(), &object(name)).await.expect("created");
    }
    let page = api.list(&ListParams::default().limit(2)).await.expect("a page");
    assert_eq!((page.items.len(), page.metadata.remaining_item_count), (2, Some(1)));
    let token = page.metadata.continue_.expect("more");
    let rest = api.list(&ListParams::default().limit(2).continue_token(&token)).await;
    assert_eq!(rest.expect("the rest").items[0].name_any(), "c");
    let everywhere: Api<DynamicObject> = Api::all_with(client.clone(), &resource);
    assert_eq!(everywhere.list_metadata(&ListParams::default()).await.expect("all").items.len(), 3);
    let one = ListParams::default().fields("metadata.name=b");
    api.delete_collection(&DeleteParams::default(), &one).await.expect("deleted");
    let until = kube::runtime::wait::conditions::is_deleted;
    let uid = api.get_opt("b").await.expect("an answer").and_then(|object| object.uid());
    if let Some(uid) = uid {
        let gone = kube::runtime::wait::await_condition(api.clone(), "b", until(&uid));
        tokio::time::timeout(PATIENCE, gone).await.expect("in time").expect("gone");
    }
    assert_eq!(api.list(&ListParams::default()).await.expect("all").items.len(), 2);
}

#[tokio::test]
async fn kube_scales_and_writes_the_status() {
    let world = World::start().await;
    let client = client(&world);
    let (_, api) = workloads(&client).await;
    api.create(&PostParams::default(), &scalable("a", 2)).await.expect("created");
    let scale = api.get_scale("a").await.expect("a scale");
    assert_eq!(scale.spec.as_ref().and_then(|spec| spec.replicas), Some(2));
    let change = Patch::Merge(json!({ "spec": { "replicas": 5 } }));
    let changed = api.patch_scale("a", &PatchParams::default(), &change).await.expect("patched");
    assert_eq!(changed.spec.and_then(|spec| spec.replicas), Some(5));
    let placed = api.get("a").await.expect("there");
    assert_eq!(placed.data["spec"]["placement"]["replicas"], 5);
    // The scale that was read first is of an older version by now.
    let stale = api.replace_scale("a", &PostParams::default(), &scale).await;
    assert_eq!(code(stale), (409, "Conflict".into()));
    let condition = json!({ "type": "Seen", "status": "True", "reason": "Test" });
    let status = Patch::Merge(json!({ "status": { "conditions": [condition] } }));
    let patched = api.patch_status("a", &PatchParams::default(), &status).await.expect("patched");
    assert_eq!(patched.data["spec"]["placement"]["replicas"], 5);
    assert_eq!(api.get_status("a").await.expect("a status").name_any(), "a");
}

#[tokio::test]
async fn kube_discovers_both_ways_and_reads_built_in_kinds() {
    let world = World::start().await;
    let client = client(&world);
    for found in [
        Discovery::new(client.clone()).run().await.expect("plain"),
        Discovery::new(client.clone()).run_aggregated().await.expect("aggregated"),
    ] {
        let kind = GroupVersionKind::gvk("apps.orrery.dev", "v1", "Workload");
        let (resource, able) = found.resolve_gvk(&kind).expect("workloads");
        assert_eq!(resource.plural, "workloads");
        let parts: Vec<&str> =
            able.subresources.iter().map(|(part, _)| part.plural.as_str()).collect();
        assert!(parts.iter().any(|part| part.ends_with("scale")), "{parts:?}");
    }
    let namespaces: Api<Namespace> = Api::all(client.clone());
    let names: Vec<String> = namespaces
        .list(&ListParams::default())
        .await
        .expect("all")
        .items
        .iter()
        .map(|namespace| namespace.name_any())
        .collect();
    assert!(names.contains(&"default".to_owned()), "{names:?}");
    let new: Namespace =
        serde_json::from_value(json!({ "metadata": { "name": "from-kube" } })).expect("one");
    namespaces.create(&PostParams::default(), &new).await.expect("created");
    let events: Api<CoreEvent> = Api::namespaced(client.clone(), "default");
    events.list(&ListParams::default()).await.expect("typed events");
    assert!(client.apiserver_version().await.expect("a version").git_version.contains("orrery"));
}

#[tokio::test]
async fn kube_records_events() {
    let world = World::start().await;
    let client = client(&world);
    let (resource, api) = workloads(&client).await;
    let made = api.create(&PostParams::default(), &object("a")).await.expect("created");
    let recorder = Recorder::new(client.clone(), "example.com/ctl".into());
    let news = News {
        type_: EventType::Warning,
        reason: "Odd".into(),
        note: Some("it is odd".into()),
        action: "Look".into(),
        secondary: None,
    };
    let about = kube::Resource::object_ref(&made, &resource);
    for _ in 0..3 {
        recorder.publish(&news, &about).await.expect("told");
    }
    let events: Api<CoreEvent> = Api::namespaced(client, "default");
    let of_it = ListParams::default().fields("involvedObject.name=a,reason=Odd");
    let told = events.list(&of_it).await.expect("events").items;
    assert_eq!(
        (told.len(), told[0].count, told[0].message.as_deref()),
        (1, Some(3), Some("it is odd"))
    );
    assert_eq!(told[0].reporting_component.as_deref(), Some("example.com/ctl"));
}

/// The names that a watcher tells until its first list is complete.
async fn first_list<K>(
    events: &mut (impl Stream<Item = watcher::Result<Event<K>>> + Unpin),
) -> Vec<String>
where
    K: kube::Resource,
{
    let mut names = Vec::new();
    loop {
        match next(events).await {
            Event::Init => names.clear(),
            Event::InitApply(object) => names.push(object.name_any()),
            Event::InitDone => return names,
            Event::Apply(_) | Event::Delete(_) => panic!("a change before the list is complete"),
        }
    }
}

async fn next<K>(events: &mut (impl Stream<Item = watcher::Result<Event<K>>> + Unpin)) -> Event<K> {
    let event = tokio::time::timeout(PATIENCE, events.next()).await;
    event.expect("an event in time").expect("no end").expect("no error")
}

/// Listing first and streaming the list, with pages, bookmarks and metadata alone.
#[tokio::test]
async fn kube_watchers_begin_with_everything_and_follow() {
    let world = World::start().await;
    let client = client(&world);
    let (resource, api) = workloads(&client).await;
    for name in ["a", "b", "c"] {
        api.create(&PostParams::default(), &object(name)).await.expect("created");
    }
    let by_pages = watcher::Config::default().page_size(2);
    let streamed = watcher::Config::default().streaming_lists();
    for config in [by_pages, streamed.clone()] {
        let mut events = Box::pin(watcher(api.clone(), config));
        assert_eq!(first_list(&mut events).await, ["a", "b", "c"]);
        let label = Patch::Merge(json!({ "metadata": { "labels": { "at": uuid() } } }));
        let patched = api.patch("b", &PatchParams::default(), &label).await.expect("patched");
        // What the controllers of the server write to the status may be told before.
        loop {
            match next(&mut events).await {
                Event::Apply(object) if object.labels() == patched.labels() => break,
                Event::Apply(_) => {}
                other => panic!("expected the change, got {other:?}"),
            }
        }
    }
    let metadata: Api<PartialObjectMeta<DynamicObject>> =
        Api::namespaced_with(client.clone(), "default", &resource);
    let mut events = Box::pin(watcher(metadata, streamed));
    assert_eq!(first_list(&mut events).await, ["a", "b", "c"]);
    api.delete("c", &DeleteParams::default()).await.expect("deleted");
    loop {
        match next(&mut events).await {
            Event::Delete(object) => break assert_eq!(object.name_any(), "c"),
            Event::Apply(_) => {}
            other => panic!("expected the deletion, got {other:?}"),
        }
    }
}

fn uuid() -> String {
    uuid::Uuid::new_v4().simple().to_string()
}

/// A watcher whose place in history is gone lists again, and goes on.
#[tokio::test]
async fn kube_watchers_start_again_when_history_is_gone() {
    let world = World::start().await;
    let client = client(&world);
    let (_, api) = workloads(&client).await;
    api.create(&PostParams::default(), &object("a")).await.expect("created");
    // It comes back every second, from where it was.
    let mut events = Box::pin(watcher(api.clone(), watcher::Config::default().timeout(1)));
    assert_eq!(first_list(&mut events).await, ["a"]);
    let labels =
        |n: usize| Patch::Merge(json!({ "metadata": { "labels": { "n": n.to_string() } } }));
    let namespaces: Api<Namespace> = Api::all(client.clone());
    let forget = async {
        // Nothing of what it watches changes while everything before now is forgotten.
        for n in 0.. {
            namespaces
                .patch("default", &PatchParams::default(), &labels(n))
                .await
                .expect("patched");
            let store = world.hub.store();
            store.compact(store.revision()).await.expect("compacted");
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
    };
    let again = async {
        loop {
            match tokio::time::timeout(PATIENCE, events.next()).await.expect("in time") {
                Some(Ok(Event::Init)) => return,
                Some(Ok(_)) => {}
                Some(Err(error)) => assert!(error.to_string().contains("too old"), "{error}"),
                None => panic!("a watcher has no end"),
            }
        }
    };
    tokio::select! {
        () = again => {}
        () = forget => {}
    }
    assert_eq!(first_list(&mut events).await, ["a"]);
}

#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct Failed(String);

async fn note(object: Arc<DynamicObject>, api: Arc<Api<DynamicObject>>) -> Result<Action, Failed> {
    let generation = object.metadata.generation.unwrap_or_default().to_string();
    if object.annotations().get("seen") != Some(&generation) {
        let note = Patch::Merge(json!({ "metadata": { "annotations": { "seen": generation } } }));
        let patched = api.patch(&object.name_any(), &PatchParams::default(), &note).await;
        patched.map_err(|error| Failed(error.to_string()))?;
    }
    Ok(Action::await_change())
}

/// A controller that notes on each workload the generation that it has seen.
#[tokio::test]
async fn kube_controllers_reconcile() {
    let world = World::start().await;
    let client = client(&world);
    let (resource, api) = workloads(&client).await;
    api.create(&PostParams::default(), &object("before")).await.expect("created");
    let retry = |_: Arc<DynamicObject>, _: &Failed, _: Arc<Api<DynamicObject>>| {
        Action::requeue(std::time::Duration::from_millis(50))
    };
    let running = Controller::new_with(api.clone(), watcher::Config::default(), resource)
        .run(note, retry, Arc::new(api.clone()))
        .for_each(|_| async {});
    let running = tokio::spawn(running);
    api.create(&PostParams::default(), &object("after")).await.expect("created");
    for name in ["before", "after"] {
        noted(&api, name, "1").await;
    }
    let change = Patch::Merge(json!({ "spec": { "stopGraceSeconds": 1 } }));
    api.patch("after", &PatchParams::default(), &change).await.expect("patched");
    noted(&api, "after", "2").await;
    running.abort();
}

async fn noted(api: &Api<DynamicObject>, name: &str, generation: &str) {
    let seen = |object: Option<&DynamicObject>| {
        object.is_some_and(|found| found.annotations().get("seen").is_some_and(|s| s == generation))
    };
    let reached = kube::runtime::wait::await_condition(api.clone(), name, seen);
    tokio::time::timeout(PATIENCE, reached).await.expect("in time").expect("noted");
}
