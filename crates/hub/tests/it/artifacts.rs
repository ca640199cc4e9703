//! Files that belong to objects.
use crate::support::{PROJECT, World, at};
use orrery_hub::artifacts::{
    ArtifactPath, Artifacts, CHUNK_BYTES, Collected, FILE_BYTES_MAX, FILES_MAX,
};
use orrery_hub::{Error, ObjectName};
use serde_json::json;
use std::sync::Arc;

struct Files {
    world: World,
    artifacts: Artifacts,
}

impl Files {
    async fn new() -> Self {
        let world = World::new().await;
        world.create(world.gizmo("a", json!({}))).await;
        world.create(world.gizmo("b", json!({}))).await;
        let artifacts = Artifacts::new(world.hub.clone());
        Self { world, artifacts }
    }

    async fn set(&self, name: &str, path: &str, content: impl Into<Vec<u8>>) {
        let (kind, content) = (self.world.kind("Gizmo"), content.into());
        let set = self.artifacts.set(&kind, &at(name), &file(path), content.into()).await;
        set.expect("it can be set");
    }

    async fn get(&self, name: &str, path: &str) -> Result<Vec<u8>, Error> {
        let kind = self.world.kind("Gizmo");
        let got = self.artifacts.get(&kind, &at(name), &file(path)).await;
        got.map(|(_, content)| content.to_vec())
    }

    async fn list(&self, name: &str) -> Vec<(String, u64)> {
        let listed = self.artifacts.list(&self.world.kind("Gizmo"), &at(name)).await;
        let files = listed.expect("a list").into_iter();
        files.map(|file| (file.path.to_string(), file.size_bytes)).collect()
    }

    async fn stored(&self, prefix: &str) -> usize {
        let request = orrery_store::ListRequest::prefix(prefix);
        let engine = self.world.hub.store().engine();
        engine.list(request).await.expect("a list").entries.len()
    }

    async fn collect(&self) -> (usize, usize) {
        let Collected { files, chunks } = self.artifacts.collect().await.expect("collected");
        (files, chunks)
    }
}

fn file(path: &str) -> ArtifactPath {
    path.parse().expect("a good path")
}

/// Bytes that differ from chunk to chunk.
fn content(seed: u8, size: usize) -> Vec<u8> {
    (0..size).map(|index| (index / 7919) as u8 ^ seed).collect()
}

/// proves: HUB-11
#[tokio::test]
async fn what_is_set_is_got_and_listed() {
    let files = Files::new().await;
    let big = content(1, 3 * CHUNK_BYTES + 17);
    files.set("a", "docs/readme.md", "hello").await;
    files.set("a", "big", big.clone()).await;
    files.set("a", "empty", "").await;
    files.set("b", "docs/readme.md", "other").await;
    assert_eq!(files.get("a", "docs/readme.md").await.expect("it is there"), b"hello");
    assert_eq!(files.get("b", "docs/readme.md").await.expect("it is there"), b"other");
    assert_eq!(files.get("a", "big").await.expect("it is there"), big);
    assert_eq!(files.get("a", "empty").await.expect("it is there"), b"");
    let expected =
        [("big".into(), big.len() as u64), ("docs/readme.md".into(), 5), ("empty".into(), 0)];
    assert_eq!(files.list("a").await, expected);
    files.set("a", "docs/readme.md", "changed").await;
    assert_eq!(files.get("a", "docs/readme.md").await.expect("it is there"), b"changed");
}

#[tokio::test]
async fn what_is_not_there_is_told_so() {
    let files = Files::new().await;
    let missing = files.get("a", "none").await.expect_err("no such file");
    let text = "artifact of gizmos.fixture.orrery.dev \"a\" \"none\" not found in project \"demo\"";
    assert_eq!(missing.to_string(), text);
    assert!(matches!(files.get("x", "none").await, Err(Error::NotFound { .. })));
    let kind = files.world.kind("Gizmo");
    let nowhere = ObjectName::new("nowhere", "a");
    let refused = files.artifacts.set(&kind, &nowhere, &file("f"), "x".into()).await;
    assert!(matches!(refused, Err(Error::ProjectNotFound { .. })));
    let removed = files.artifacts.remove(&kind, &at("a"), &file("none")).await;
    assert!(matches!(removed, Err(Error::NotFound { .. })));
}

#[tokio::test]
async fn the_same_content_is_stored_once_and_away_when_nothing_has_it() {
    let files = Files::new().await;
    files.set("a", "one", "same").await;
    files.set("a", "two", "same").await;
    files.set("b", "three", "same").await;
    files.set("b", "four", "its own").await;
    assert_eq!(files.stored("artifacts/chunks/").await, 2);
    assert_eq!(files.collect().await, (0, 0), "everything is needed");
    files.artifacts.remove(&files.world.kind("Gizmo"), &at("a"), &file("one")).await.expect("gone");
    files.set("b", "four", "another").await;
    assert_eq!(files.collect().await, (0, 1), "only the old content of one file");
    files.world.gizmos().delete(at("b").into()).await.expect("deleted");
    assert_eq!(files.collect().await, (2, 1));
    assert_eq!(files.get("a", "two").await.expect("it is still needed"), b"same");
    files.world.gizmos().delete(at("a").into()).await.expect("deleted");
    assert_eq!(files.collect().await, (1, 1));
    assert_eq!(files.stored("artifacts/").await, 0, "nothing is left behind");
}

#[tokio::test]
async fn a_new_object_of_an_old_name_has_none_of_its_files() {
    let files = Files::new().await;
    files.set("a", "one", "old").await;
    files.world.gizmos().delete(at("a").into()).await.expect("deleted");
    files.world.create(files.world.gizmo("a", json!({}))).await;
    assert_eq!(files.list("a").await, []);
    files.set("a", "one", "new").await;
    assert_eq!(files.collect().await, (1, 1));
    assert_eq!(files.get("a", "one").await.expect("it is there"), b"new");
}

#[tokio::test]
async fn a_file_has_a_largest_size() {
    let files = Files::new().await;
    let kind = files.world.kind("Gizmo");
    let large = vec![0; FILE_BYTES_MAX + 1];
    let refused = files.artifacts.set(&kind, &at("a"), &file("f"), large.into()).await;
    assert_eq!(refused.expect_err("too large").reason(), "RequestEntityTooLarge");
    files.set("a", "full", content(3, FILE_BYTES_MAX)).await;
    assert_eq!(files.list("a").await, [("full".into(), FILE_BYTES_MAX as u64)]);
}

#[tokio::test]
async fn an_object_has_so_many_files() {
    let files = Files::new().await;
    let kind = files.world.kind("Gizmo");
    for index in 0..FILES_MAX {
        files.set("a", &format!("f{index}"), "x").await;
    }
    let refused = files.artifacts.set(&kind, &at("a"), &file("more"), "x".into()).await;
    assert_eq!(refused.expect_err("too many").reason(), "RequestEntityTooLarge");
    files.set("a", "f0", "it can still change").await;
}

#[tokio::test]
async fn watches_on_objects_see_nothing_of_it() {
    let files = Files::new().await;
    let before = files.world.get("a").await;
    files.set("a", "one", "x").await;
    assert_eq!(files.world.get("a").await, before);
    let snapshot = files.world.hub.store().snapshot().await.expect("a snapshot");
    assert!(snapshot.range("objects/").all(|entry| !entry.key.contains("artifacts")));
    assert_eq!(
        files
            .world
            .names(orrery_hub::ListOptions { project: Some(PROJECT.into()), ..Default::default() })
            .await,
        ["a", "b"]
    );
}

/// Writers and collectors at once: what was set can always be read.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn collection_never_takes_what_is_needed() {
    let files = Arc::new(Files::new().await);
    let mut tasks = tokio::task::JoinSet::new();
    for writer in 0..4 {
        let files = files.clone();
        tasks.spawn(async move {
            let path = format!("w{writer}");
            for round in 0..40u8 {
                // Few contents, so that one writer's old content is another's new one.
                let content = vec![round % 3; 10];
                files.set("a", &path, content.clone()).await;
                assert_eq!(files.get("a", &path).await.expect("just set"), content);
            }
        });
    }
    for _ in 0..2 {
        let files = files.clone();
        tasks.spawn(async move {
            for _ in 0..60 {
                files.collect().await;
                tokio::task::yield_now().await;
            }
        });
    }
    tasks.join_all().await;
    for writer in 0..4 {
        assert_eq!(files.get("a", &format!("w{writer}")).await.expect("it is there"), [0; 10]);
    }
}
