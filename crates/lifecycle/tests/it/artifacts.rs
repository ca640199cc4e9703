//! Files go after the object they belonged to.
use crate::support::{World, eventually_within};
use orrery_hub::ObjectName;
use orrery_hub::artifacts::Artifacts;
use serde_json::json;
use std::time::Duration;

/// proves: HUB-11
#[tokio::test(start_paused = true)]
async fn the_files_of_an_object_that_is_gone_are_collected() {
    let world = World::new().await;
    let name = ObjectName::new("default", "w");
    let object = world.create(json!({"name": "w", "project": "default"})).await;
    let artifacts = Artifacts::new(world.hub.clone());
    let path = "config/app.yaml".parse().expect("a good path");
    artifacts.set(object.kind(), &name, &path, "x: 1".into()).await.expect("set");
    world.accessor("Workload").delete(name.into()).await.expect("deleted");
    let left = || async {
        let everything = world.hub.store().engine().list(Default::default()).await;
        let entries = everything.expect("a list").entries;
        entries.iter().filter(|entry| entry.key.starts_with("artifacts/")).count()
    };
    assert_ne!(left().await, 0);
    eventually_within(Duration::from_secs(3600), || async { left().await == 0 }).await;
}
