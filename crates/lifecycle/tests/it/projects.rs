//! The life of projects.
use crate::support::{World, eventually};
use orrery_hub::{ApplyOptions, DeleteOptions, Error, ObjectName, Resources};
use orrery_lifecycle::{CONTENTS_FINALIZER, DEFAULT_PROJECT};
use orrery_proto::apps::v1::Workload;
use orrery_proto::core::v1::Project;
use serde_json::json;

fn project(name: &str) -> ObjectName {
    ObjectName::new("", name)
}

async fn phase(world: &World, name: &str) -> (String, i64) {
    let projects: Resources<Project> = world.hub.resources().expect("projects");
    let found = projects.find(&project(name)).await.expect("no error");
    let status = found.and_then(|project| project.status).unwrap_or_default();
    (status.phase, status.remaining_resources)
}

#[tokio::test]
async fn every_installation_has_its_projects_and_they_are_active() {
    let world = World::new().await;
    for name in ["system", DEFAULT_PROJECT] {
        eventually(|| async { phase(&world, name).await == ("Active".to_owned(), 0) }).await;
    }
    orrery_lifecycle::ensure_projects(&world.hub).await.expect("again is as good");
}

#[tokio::test]
async fn a_project_takes_its_contents_along_and_goes_after_them() {
    let world = World::new().await;
    world.create_project("p").await;
    let free = ObjectName::new("p", "free");
    let held = ObjectName::new("p", "held");
    world.create(json!({"name": "free", "project": "p"})).await;
    world.create(json!({"name": "held", "project": "p", "finalizers": ["x/hold"]})).await;
    let deleted = world.accessor("Project").delete(project("p").into()).await.expect("asked");
    assert!(!deleted.gone && deleted.object.finalizers() == [CONTENTS_FINALIZER]);
    world.gone("Workload", &free).await;
    eventually(|| async { phase(&world, "p").await == ("Terminating".to_owned(), 1) }).await;
    assert!(world.exists("Project", &project("p")).await, "something is left in it");
    let workloads: Resources<Workload> = world.hub.resources().expect("workloads");
    let release = |meta: &mut orrery_api::ObjectMeta| meta.finalizers.clear();
    workloads.update_meta(&held, release).await.expect("released");
    world.gone("Project", &project("p")).await;
    world.create_project("p").await;
    assert!(!world.exists("Workload", &held).await && !world.exists("Workload", &free).await);
}

#[tokio::test]
async fn an_empty_project_goes_and_others_stay() {
    let world = World::new().await;
    world.create_project("p").await;
    world.create(json!({"name": "w", "project": DEFAULT_PROJECT})).await;
    world.accessor("Project").delete(project("p").into()).await.expect("asked");
    world.gone("Project", &project("p")).await;
    assert!(world.exists("Workload", &ObjectName::new(DEFAULT_PROJECT, "w")).await);
}

#[tokio::test]
async fn the_system_project_stays() {
    let world = World::new().await;
    let projects = world.accessor("Project");
    for dry_run in [true, false] {
        let options = DeleteOptions { dry_run, ..project("system").into() };
        let refused = projects.delete(options).await;
        assert!(matches!(refused, Err(Error::Forbidden(_))), "{refused:?}");
    }
    let mut system = projects.get(project("system").into()).await.expect("it is there");
    system.update_meta(|meta| {
        meta.finalizers.clear();
        meta.labels.insert("k".into(), "v".into());
    });
    let options = ApplyOptions { merge: orrery_hub::Merge::Replace, ..ApplyOptions::default() };
    projects.apply(system, options).await.expect("it may change");
    assert!(world.exists("Project", &project("system")).await);
}
