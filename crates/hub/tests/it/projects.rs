//! Names outside, ids inside.
use crate::support::{PROJECT, World, at};
use orrery_hub::{
    Accessor, ApplyOptions, DeleteOptions, Error, ListOptions, ObjectName, Resources, WatchOptions,
};
use orrery_proto::core::v1::Project;
use serde_json::json;
use std::sync::Arc;

fn projects(world: &World) -> Arc<dyn Accessor> {
    world.accessor("Project")
}

async fn drop_project(world: &World, name: &str) {
    projects(world).delete(ObjectName::new("", name).into()).await.expect("deleted");
}

/// Lets a project wait for a finalizer, so that it can be seen going.
async fn hold(world: &World, name: &str) {
    let resources: Resources<Project> = world.hub.resources().expect("projects");
    let hold = |meta: &mut orrery_api::ObjectMeta| meta.finalizers = vec!["x/hold".into()];
    resources.update_meta(&ObjectName::new("", name), hold).await.expect("held");
}

/// proves: HUB-08
#[tokio::test]
async fn the_store_holds_ids_and_the_caller_sees_names() {
    let world = World::new().await;
    let id = world.create_project("named").await.metadata.expect("metadata").uid;
    let object = world.read(json!({"metadata": {"name": "a", "project": "named"}}));
    let applied = world.apply(object, ApplyOptions::create()).await.expect("created").object;
    assert_eq!(applied.project(), "named");
    let snapshot = world.hub.store().snapshot().await.expect("a snapshot");
    let key = format!("objects/fixture/Gizmo/{id}/a");
    let entry = snapshot.get(&key).expect("it lies under the id");
    let stored = orrery_api::Object::decode(&world.kind("Gizmo"), &entry.value).expect("an object");
    assert_eq!((stored.project(), stored.resource_version()), (id.as_str(), ""));
    let mut watched = world.watch(WatchOptions::default()).await;
    let orrery_hub::WatchEvent::Added(seen) = watched.event().await.expect("an event") else {
        panic!("it is there")
    };
    assert_eq!(seen.project(), "named");
}

/// proves: HUB-08
#[tokio::test]
async fn a_project_that_is_created_again_inherits_nothing() {
    let world = World::new().await;
    world.create(world.gizmo("a", json!({}))).await;
    drop_project(&world, PROJECT).await;
    let gone = world.gizmos().get(at("a").into()).await;
    assert!(matches!(gone, Err(Error::ProjectNotFound { .. })), "{gone:?}");
    world.create_project(PROJECT).await;
    let fresh = world.gizmos().get(at("a").into()).await;
    assert!(matches!(fresh, Err(Error::NotFound { .. })), "{fresh:?}");
    let options = ListOptions { project: Some(PROJECT.into()), ..ListOptions::default() };
    assert!(world.names(options).await.is_empty());
}

/// proves: HUB-08
#[tokio::test]
async fn an_unknown_project_is_a_clear_error() {
    let world = World::new().await;
    let object = world.read(json!({"metadata": {"name": "a", "project": "nowhere"}}));
    let text = "project \"nowhere\" not found; create it first";
    for options in [ApplyOptions::create(), ApplyOptions::default(), ApplyOptions::status()] {
        let error = world.apply(object.clone(), options).await.expect_err("unknown");
        assert_eq!((error.to_string().as_str(), error.reason()), (text, "NotFound"));
    }
    let name = ObjectName::new("nowhere", "a");
    let listed = ListOptions { project: Some("nowhere".into()), ..ListOptions::default() };
    let watched = WatchOptions { project: Some("nowhere".into()), ..WatchOptions::default() };
    let errors = [
        world.gizmos().get(name.clone().into()).await.expect_err("unknown"),
        world.gizmos().delete(name.into()).await.expect_err("unknown"),
        world.gizmos().list(listed).await.expect_err("unknown"),
        world.gizmos().watch(watched).await.err().expect("unknown"),
    ];
    for error in errors {
        assert_eq!(error.to_string(), text);
    }
}

#[tokio::test]
async fn nothing_new_begins_in_a_project_that_goes() {
    let world = World::new().await;
    world.create(world.gizmo("a", json!({}))).await;
    hold(&world, PROJECT).await;
    drop_project(&world, PROJECT).await;
    for dry_run in [true, false] {
        let options = ApplyOptions { dry_run, ..ApplyOptions::create() };
        let refused = world.apply(world.gizmo("b", json!({})), options).await;
        assert!(matches!(refused, Err(Error::ProjectTerminating { .. })), "{refused:?}");
    }
    let changed = world.apply(world.gizmo("a", json!({"image": "y"})), ApplyOptions::default());
    changed.await.expect("what is there may still change");
    world.gizmos().delete(at("a").into()).await.expect("and go");
}

#[tokio::test]
async fn a_name_is_not_confused_by_a_server_that_remembers_it() {
    let world = World::new().await;
    let other = World::on(world.hub.store().clone(), |builder| builder);
    world.create(world.gizmo("a", json!({}))).await;
    assert_eq!(other.get("a").await.project(), PROJECT);
    drop_project(&world, PROJECT).await;
    world.create_project(PROJECT).await;
    let seen = other.gizmos().get(at("a").into()).await;
    assert!(matches!(seen, Err(Error::NotFound { .. })), "{seen:?}");
}

/// However the two interleave, what was created was created before the project began to go.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn creation_and_the_end_of_a_project_have_one_order() {
    let world = Arc::new(World::new().await);
    for round in 0..40 {
        let project = format!("p{round}");
        world.create_project(&project).await;
        hold(&world, &project).await;
        let mut creations = tokio::task::JoinSet::new();
        for index in 0..4 {
            let (world, project) = (world.clone(), project.clone());
            creations.spawn(async move {
                let metadata = json!({"name": format!("g{index}"), "project": project});
                let object = world.read(json!({"metadata": metadata}));
                world.apply(object, ApplyOptions::create()).await
            });
        }
        let options = DeleteOptions::from(ObjectName::new("", project.as_str()));
        let marked = projects(&world).delete(options).await.expect("marked").object;
        let marked: u64 = marked.resource_version().parse().expect("a revision");
        while let Some(created) = creations.join_next().await {
            match created.expect("no panic") {
                Ok(applied) => {
                    let at: u64 = applied.object.resource_version().parse().expect("a revision");
                    assert!(at < marked, "created at {at} after the end began at {marked}");
                }
                Err(error) => {
                    assert!(matches!(error, Error::ProjectTerminating { .. }), "{error}");
                }
            }
        }
    }
}

#[tokio::test]
async fn kinds_without_a_project_have_none() {
    let world = World::new().await;
    let rack = world.read(json!({"kind": "Rack", "metadata": {"name": "r"}}));
    let created = world.apply(rack, ApplyOptions::create()).await.expect("created").object;
    assert_eq!(created.project(), "");
    let racks = world.accessor("Rack");
    assert_eq!(racks.get(ObjectName::new("", "r").into()).await.expect("it is there"), created);
    let missing = racks.get(ObjectName::new("", "s").into()).await.expect_err("absent");
    assert_eq!(missing.to_string(), "racks.fixture.orrery.dev \"s\" not found");
}
