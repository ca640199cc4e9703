//! Objects that are stored as several resources, through the hub.
use crate::support::{PATIENCE, PROJECT};
use futures::StreamExt;
use orrery_api::{DecodeOptions, FieldSelector, LabelSelector, Object};
use orrery_hub::{
    Accessor, ApplyOptions, Error, Hub, ListOptions, ObjectName, Outcome, WatchEvent, WatchOptions,
};
use orrery_proto::core::v1::{Project, ProjectSpec};
use orrery_proto::meta::v1::ObjectMeta;
use serde_json::{Value, json};
use std::sync::Arc;

struct World {
    hub: Hub,
    bundles: Arc<dyn Accessor>,
}

impl World {
    async fn new() -> Self {
        let scheme = Arc::new(orrery_testkit::scheme().expect("the kinds are well defined"));
        let hub = Hub::in_memory(scheme).await.expect("a store").build().expect("a hub");
        for name in ["system", PROJECT] {
            let metadata = Some(ObjectMeta { name: name.into(), ..ObjectMeta::default() });
            let project = Project { metadata, spec: Some(ProjectSpec {}), ..Project::default() };
            hub.resources().expect("projects").create(&project).await.expect("created");
        }
        let kind = hub.scheme().resolve("", "Bundle").expect("it is registered");
        let bundles = hub.accessor(&kind).expect("it is served").clone();
        Self { hub, bundles }
    }

    fn bundle(&self, name: &str, releases: &[&str]) -> Object {
        let releases: Vec<Value> =
            releases.iter().map(|name| json!({"name": name, "contents": [name]})).collect();
        let value = json!({
            "apiVersion": "testkit.orrery.dev/v1", "kind": "Bundle",
            "metadata": {"name": name, "project": PROJECT, "labels": {"first": name}},
            "spec": {"owner": "me", "releases": releases},
        });
        let kind = self.bundles.kind();
        Object::from_json_value(kind, &value, &DecodeOptions::default()).expect("a bundle").object
    }

    async fn apply(&self, name: &str, releases: &[&str]) -> Outcome {
        let applied = self.bundles.apply(self.bundle(name, releases), ApplyOptions::default());
        applied.await.expect("applied").outcome
    }

    /// How many entries the store holds for bundles.
    fn entries(&self) -> usize {
        self.hub.store().snapshot_now().range("objects/testkit/Bundle").count()
    }
}

fn at(name: &str) -> ObjectName {
    ObjectName::new(PROJECT, name)
}

fn releases(object: &Object) -> Vec<String> {
    let value = object.to_json_value(&orrery_api::JsonOptions::default());
    let releases = value["spec"]["releases"].as_array().cloned().unwrap_or_default();
    releases.iter().map(|r| r["name"].as_str().unwrap_or_default().to_owned()).collect()
}

/// proves: HUB-05
#[tokio::test]
async fn an_object_of_several_resources_is_one_for_its_users() {
    let world = World::new().await;
    assert_eq!(world.apply("a", &["one", "two"]).await, Outcome::Created);
    assert_eq!(world.entries(), 3, "a head and two snapshots");
    let found = world.bundles.get(at("a").into()).await.expect("it is there");
    assert_eq!((releases(&found).join(" "), found.project()), ("one two".into(), PROJECT));
    let version = found.resource_version().to_owned();
    assert_eq!(world.apply("a", &["one", "two"]).await, Outcome::Unchanged);
    assert_eq!(world.apply("a", &["two", "three", "four"]).await, Outcome::Changed);
    assert_eq!(world.entries(), 4, "one snapshot has gone, two have come");
    let found = world.bundles.get(at("a").into()).await.expect("it is there");
    assert_eq!(releases(&found).join(" "), "two three four");
    assert_eq!(found.generation(), 2);

    let stale = ApplyOptions::replace_at(version.parse().expect("a revision"));
    let error = world.bundles.apply(world.bundle("a", &["x"]), stale).await.expect_err("stale");
    assert!(matches!(error, Error::Conflict { .. }), "{error}");
    let dry = ApplyOptions { dry_run: true, ..ApplyOptions::default() };
    world.bundles.apply(world.bundle("a", &["x"]), dry).await.expect("it would be taken");
    let found = world.bundles.get(at("a").into()).await.expect("it is there");
    assert_eq!(releases(&found).join(" "), "two three four", "a dry run writes nothing");

    assert!(world.bundles.delete(at("a").into()).await.expect("deleted").gone);
    assert_eq!(world.entries(), 0, "all of it is gone");
    let error = world.bundles.get(at("a").into()).await.expect_err("it is gone");
    assert!(matches!(error, Error::NotFound { .. }), "{error}");
}

#[tokio::test]
async fn lists_come_in_pages_and_by_selector() {
    let world = World::new().await;
    for name in ["a", "ab", "b", "c"] {
        world.apply(name, &["one"]).await;
    }
    let names = |options| async {
        let page = world.bundles.list(options).await.expect("listed");
        let names: Vec<&str> = page.items.iter().map(Object::name).collect();
        (names.join(" "), page.continue_from)
    };
    let project = Some(PROJECT.to_owned());
    let first = ListOptions { project: project.clone(), limit: 3, ..ListOptions::default() };
    let (found, token) = names(first.clone()).await;
    assert_eq!(found, "a ab b");
    world.apply("d", &[]).await;
    let (found, token) = names(ListOptions { continue_from: token, ..first }).await;
    assert_eq!((found.as_str(), token), ("c", None), "true at the revision of the first page");
    let labels = LabelSelector::parse("first in (b, c)").expect("a selector");
    assert_eq!(names(ListOptions { labels, ..ListOptions::default() }).await.0, "b c");
    let fields = FieldSelector::parse("metadata.name=ab", world.bundles.kind());
    let fields = fields.expect("a selector");
    assert_eq!(names(ListOptions { fields, project, ..ListOptions::default() }).await.0, "ab");
}

/// A watcher sees every change once and whole, whatever became of the parts.
#[tokio::test]
async fn a_watch_tells_of_whole_objects() {
    let world = World::new().await;
    world.apply("a", &["one"]).await;
    let mut all = world.bundles.watch(WatchOptions::default()).await.expect("it opens");
    let named = WatchOptions {
        project: Some(PROJECT.into()),
        name: Some("b".into()),
        ..WatchOptions::default()
    };
    let mut named = world.bundles.watch(named).await.expect("it opens");
    world.apply("a", &["one", "two"]).await;
    world.apply("b", &[]).await;
    world.apply("a", &["two"]).await;
    world.bundles.delete(at("a").into()).await.expect("deleted");
    let expect = ["+a one", "bookmark", "~a one two", "+b ", "~a two", "-a two"];
    for expect in expect {
        assert_eq!(told(&mut all).await, expect);
    }
    for expect in ["bookmark", "+b "] {
        assert_eq!(told(&mut named).await, expect);
    }
}

async fn told(events: &mut orrery_hub::WatchStream) -> String {
    let event = tokio::time::timeout(PATIENCE, events.next()).await.expect("it is told in time");
    let shown = |sign: &str, object: &Object| {
        format!("{sign}{} {}", object.name(), releases(object).join(" "))
    };
    match event.expect("it goes on").expect("it goes on") {
        WatchEvent::Added(object) => shown("+", &object),
        WatchEvent::Modified(object) => shown("~", &object),
        WatchEvent::Deleted(object) => shown("-", &object),
        WatchEvent::Bookmark(_) => "bookmark".to_owned(),
    }
}
