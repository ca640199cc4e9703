//! Many writers of one object: none is lost, none is done twice.
use crate::support::{PROJECT, World, at};
use orrery_hub::{ApplyOptions, Error, ObjectName, Outcome, Resources};
use orrery_proto::apps::v1::Workload;
use orrery_proto::core::v1::Project;
use serde_json::json;
use std::sync::Arc;
use tokio::task::JoinSet;

const WRITERS: usize = 8;
const ROUNDS: usize = 10;

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn every_change_of_metadata_survives() {
    let world = Arc::new(World::new().await);
    let name = ObjectName::new("", PROJECT);
    let mut writers = JoinSet::new();
    for writer in 0..WRITERS {
        let (world, name) = (world.clone(), name.clone());
        writers.spawn(async move {
            let projects: Resources<Project> = world.hub.resources().expect("projects");
            for round in 0..ROUNDS {
                let key = format!("w{writer}-{round}");
                let note = |meta: &mut orrery_api::ObjectMeta| {
                    meta.annotations.insert(key.clone(), String::new());
                };
                projects.update_meta(&name, note).await.expect("written in the end");
            }
        });
    }
    writers.join_all().await;
    let project = world.accessor("Project").get(name.into()).await.expect("it is there");
    assert_eq!(project.annotations().len(), WRITERS * ROUNDS);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn spec_and_status_do_not_disturb_each_other() {
    let world = Arc::new(World::new().await);
    world.create(world.gizmo("a", json!({"replicas": 0}))).await;
    let mut writers = JoinSet::new();
    for writer in 0..2 {
        let world = world.clone();
        writers.spawn(async move {
            for round in 1..=50 {
                let metadata = json!({"name": "a", "project": PROJECT});
                let (object, options) = if writer == 0 {
                    let spec = json!({"replicas": round});
                    (json!({"metadata": metadata, "spec": spec}), ApplyOptions::default())
                } else {
                    let status = json!({"running": round});
                    (json!({"metadata": metadata, "status": status}), ApplyOptions::status())
                };
                world.apply(world.read(object), options).await.expect("tried again until it fits");
            }
        });
    }
    writers.join_all().await;
    let last = crate::support::json_of(&world.get("a").await);
    assert_eq!((&last["spec"]["replicas"], &last["status"]["running"]), (&json!(50), &json!(50)));
    assert_eq!(last["metadata"]["generation"], 51, "one generation for each change of the spec");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn one_creation_wins_and_one_revision_is_replaced_once() {
    let world = Arc::new(World::new().await);
    let race = |options: Option<ApplyOptions>| {
        let world = world.clone();
        async move {
            let mut writers = JoinSet::new();
            for writer in 0..WRITERS {
                let (world, options) = (world.clone(), options.clone());
                writers.spawn(async move {
                    let object = world.gizmo("a", json!({"image": format!("w{writer}")}));
                    world.apply(object, options.unwrap_or_else(ApplyOptions::create)).await
                });
            }
            writers.join_all().await
        }
    };
    let created = race(None).await;
    assert_eq!(created.iter().filter(|outcome| outcome.is_ok()).count(), 1);
    assert!(created.iter().flatten().all(|applied| applied.outcome == Outcome::Created));
    let revision = world.get("a").await.resource_version().parse().expect("a revision");
    let replaced = race(Some(ApplyOptions::replace_at(revision))).await;
    let changed = |outcome: &&Result<orrery_hub::Applied, Error>| matches!(outcome, Ok(applied) if applied.outcome == Outcome::Changed);
    // The one that wrote what was there already may be told so, if it came first.
    assert!(replaced.iter().filter(changed).count() <= 1);
    assert!(replaced.iter().filter_map(|o| o.as_ref().err()).all(|e| e.reason() == "Conflict"));
}

#[tokio::test]
async fn typed_resources_keep_what_they_do_not_know() {
    let world = World::new().await;
    let workloads: Resources<Workload> = world.hub.resources().expect("workloads");
    assert!(workloads.find(&at("none")).await.expect("no error").is_none());
    let nowhere = ObjectName::new("nowhere", "none");
    assert!(workloads.find(&nowhere).await.expect("no error").is_none());
    workloads.delete(&at("none")).await.expect("gone already is as good");
}

/// Whoever acted alone is told so once its lease has ended, at once and not as a conflict that may
/// be tried again.
#[tokio::test]
async fn a_fence_that_fell_is_an_error_of_its_own() {
    let world = World::new().await;
    let ttl = std::time::Duration::from_secs(60);
    let lease = world.hub.acquire("leader", "one", ttl).await.expect("it answers").expect("free");
    let fenced = world.hub.fenced(&lease);
    let kind = world.accessor("Gizmo").kind().clone();
    let accessor = fenced.accessor(&kind).expect("gizmos are served").clone();
    let gizmo = |image: &str| world.gizmo("a", json!({"image": image}));
    accessor.apply(gizmo("one"), ApplyOptions::default()).await.expect("the lease is held");
    world.hub.resign(lease).await.expect("it answers");
    let before = world.get("a").await;
    let written = accessor.apply(gizmo("two"), ApplyOptions::default()).await;
    let deleted = accessor.delete(at("a").into()).await;
    for error in [written.expect_err("it has ended"), deleted.expect_err("it has ended")] {
        assert!(matches!(&error, Error::Fenced { lease } if lease == "leader"), "{error:?}");
        assert!(!error.retryable());
    }
    assert_eq!(world.get("a").await, before, "nothing was written");
}
