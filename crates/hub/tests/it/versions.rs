//! What objects were under the earlier names of their versions.
use crate::support::{PROJECT, World};
use orrery_api::{Encoded, Object};
use orrery_hub::{
    Accessor, ApplyOptions, Error, GetOptions, ObjectName, Part, VERSIONS_KEPT_MAX, Version,
};
use serde_json::{Value, json};
use std::sync::Arc;

impl World {
    fn workloads(&self) -> Arc<dyn Accessor> {
        self.accessor("Workload")
    }

    fn workload(&self, name: &str, version: &str, command: &str) -> Object {
        let mut spec = json!({"process": {"command": command}, "placement": {"nodes": ["local"]}});
        if !version.is_empty() {
            spec["version"] = json!(version);
        }
        let metadata = json!({"name": name, "project": PROJECT, "labels": {"at": command}});
        self.read(json!({"kind": "Workload", "metadata": metadata, "spec": spec}))
    }

    async fn release(&self, name: &str, version: &str, command: &str) -> Object {
        let workload = self.workload(name, version, command);
        let applied = self.workloads().apply(workload, ApplyOptions::default()).await;
        applied.expect("it can be written").object
    }

    async fn versions(&self, name: &str) -> Vec<Version> {
        let found = self.workloads().versions(ObjectName::new(PROJECT, name)).await;
        found.expect("its versions")
    }

    async fn version_names(&self, name: &str) -> Vec<String> {
        self.versions(name).await.into_iter().map(|version| version.name).collect()
    }

    async fn at_version(&self, name: &str, version: &str) -> Result<Object, Error> {
        let name = ObjectName::new(PROJECT, name);
        self.workloads().get(GetOptions { version: Some(version.into()), ..name.into() }).await
    }

    async fn stored_versions(&self) -> usize {
        let snapshot = self.hub.store().snapshot().await.expect("a snapshot");
        snapshot.range("objects/apps/Workload.versions/").count()
    }
}

fn command(object: &Object) -> Value {
    object.to_json_value(&Default::default())["spec"]["process"]["command"].clone()
}

/// proves: HUB-12
#[tokio::test]
async fn what_an_object_was_is_kept_when_its_version_changes() {
    let world = World::new().await;
    world.release("web", "1.0", "first").await;
    let second = world.release("web", "1.0", "second").await;
    world.clock.advance(60);
    world.release("web", "1.1", "third").await;
    let versions = world.versions("web").await;
    let [now, before] = versions.as_slice() else { panic!("{versions:?}") };
    assert_eq!((now.name.as_str(), now.generation, &now.until), ("1.1", 3, &None));
    assert_eq!((before.name.as_str(), before.generation), ("1.0", second.generation()));
    assert_eq!(before.until.as_deref(), Some("2023-11-14T22:14:20Z"));
    let kept = world.at_version("web", "1.0").await.expect("it is kept");
    assert_eq!((command(&kept), kept.uid()), (json!("second"), second.uid()));
    assert_eq!((kept.project(), kept.label("at")), (PROJECT, Some("second")));
    assert_eq!(kept.resource_version(), "");
    assert!(kept.annotations().is_empty() && kept.status().is_none());
    let current = world.at_version("web", "1.1").await.expect("it is there");
    assert_eq!(command(&current), json!("third"));
    let error = world.at_version("web", "0.9").await.expect_err("there is none");
    let expect = r#"version of workloads.apps.orrery.dev "web" "0.9" not found in project "demo""#;
    assert_eq!(error.to_string(), expect);
}

/// proves: HUB-12
#[tokio::test]
async fn what_is_kept_can_be_declared_again() {
    let world = World::new().await;
    world.release("web", "1.0", "good").await;
    world.release("web", "1.1", "bad").await;
    let kept = world.at_version("web", "1.0").await.expect("it is kept");
    let options = ApplyOptions::declared_by("somebody");
    world.workloads().apply(kept, options).await.expect("it can be applied as it is");
    let name = ObjectName::new(PROJECT, "web");
    let live = world.workloads().get(name.into()).await.expect("it is there");
    assert_eq!((command(&live), live.version()), (json!("good"), "1.0"));
    assert_eq!(world.version_names("web").await, ["1.0", "1.1"]);
    assert_eq!(world.stored_versions().await, 1, "what it is at is not kept beside it");
}

#[tokio::test]
async fn bytes_and_patches_keep_versions_too() {
    let world = World::new().await;
    let write = async |version: &str| {
        let given: Encoded = world.workload("web", version, version).into();
        let applied = world.workloads().apply_encoded(given, ApplyOptions::default()).await;
        applied.expect("it can be written");
    };
    write("a").await;
    write("b").await;
    write("b").await;
    write("c").await;
    assert_eq!(world.version_names("web").await, ["c", "b", "a"]);
    // One without a name has no version; what was before is kept.
    world.release("web", "", "none").await;
    assert_eq!(world.version_names("web").await, ["c", "b", "a"]);
    assert!(world.versions("web").await.iter().all(|version| version.until.is_some()));
}

#[tokio::test]
async fn what_is_not_written_keeps_nothing() {
    let world = World::new().await;
    world.release("web", "1.0", "one").await;
    let next = world.workload("web", "1.1", "two");
    let dry = ApplyOptions { dry_run: true, ..ApplyOptions::default() };
    world.workloads().apply(next.clone(), dry).await.expect("it would be written");
    let late = ApplyOptions::replace_at(orrery_hub::Revision(1));
    world.workloads().apply(next, late).await.expect_err("somebody was faster");
    let mut status = world.workload("web", "1.1", "two");
    status.default();
    let options = ApplyOptions { part: Part::Status, ..ApplyOptions::status() };
    world.workloads().apply(status, options).await.expect("a status");
    assert_eq!(world.version_names("web").await, ["1.0"]);
    assert_eq!(world.stored_versions().await, 0);
}

/// proves: HUB-12
#[tokio::test]
async fn only_so_many_are_kept_and_all_go_with_the_object() {
    let world = World::new().await;
    for number in 0..VERSIONS_KEPT_MAX + 3 {
        world.release("web", &format!("v{number}"), "x").await;
    }
    let names = world.version_names("web").await;
    assert_eq!(names.len(), VERSIONS_KEPT_MAX + 1);
    assert_eq!((names[0].as_str(), names[1].as_str()), ("v22", "v21"));
    assert_eq!(names.last().map(String::as_str), Some("v2"));
    world.release("webber", "other", "x").await;
    world.release("webber", "another", "x").await;
    let name = ObjectName::new(PROJECT, "web");
    world.workloads().delete(name.clone().into()).await.expect("it goes");
    assert_eq!(world.stored_versions().await, 1, "those of another stay");
    assert!(matches!(world.workloads().versions(name).await, Err(Error::NotFound { .. })));
    world.release("web", "new", "x").await;
    assert_eq!(world.version_names("web").await, ["new"], "nothing is inherited");
}

#[tokio::test]
async fn kinds_without_versions_say_so() {
    let world = World::new().await;
    world.create(world.gizmo("a", json!({}))).await;
    let name = || ObjectName::new(PROJECT, "a");
    let listed = world.gizmos().versions(name()).await.expect_err("refused").to_string();
    assert_eq!(listed, "no versions are kept of gizmos");
    let options = GetOptions { version: Some("1".into()), ..name().into() };
    let got = world.gizmos().get(options).await.expect_err("refused").to_string();
    assert_eq!(got, "no versions are kept of gizmos");
}
