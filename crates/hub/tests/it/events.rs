//! Events are counted, not repeated.
use crate::support::{PROJECT, START, World};
use orrery_hub::ListOptions;
use orrery_hub::events::{Happening, Recorder, Severity};
use orrery_proto::core::v1::{Event, ObjectReference};
use std::sync::Arc;

fn happening(project: &str, reason: &'static str, message: &str) -> Happening {
    let regarding = ObjectReference {
        kind: Some("Gizmo".into()),
        name: Some("a".into()),
        project: Some(project.into()),
        uid: Some("u".into()),
        ..ObjectReference::default()
    };
    Happening { regarding, severity: Severity::Warning, reason, message: message.into() }
}

async fn told(world: &World) -> Vec<Event> {
    let events = world.hub.resources::<Event>().expect("events");
    events.list(ListOptions::default()).await.expect("a list")
}

#[tokio::test]
async fn the_same_again_is_counted() {
    let world = World::new().await;
    let recorder = Recorder::new(&world.hub, "test").expect("a recorder");
    recorder.record(happening(PROJECT, "Broken", "first")).await;
    world.clock.advance(10);
    recorder.record(happening(PROJECT, "Broken", "second")).await;
    recorder.record(happening(PROJECT, "Mended", "third")).await;
    let mut told = told(&world).await;
    told.sort_by_key(|event| event.spec.as_ref().map(|spec| spec.reason().to_owned()));
    let [broken, mended] = told.as_slice() else { panic!("two causes, two events") };
    let broken = broken.spec.as_ref().expect("a spec");
    assert_eq!((broken.count(), broken.message(), broken.r#type()), (2, "second", "Warning"));
    let seconds = |time: &Option<prost_types::Timestamp>| time.as_ref().map(|time| time.seconds);
    assert_eq!(seconds(&broken.first_timestamp), Some(START));
    assert_eq!(seconds(&broken.last_timestamp), Some(START + 10));
    assert_eq!(mended.spec.as_ref().expect("a spec").count(), 1);
}

#[tokio::test]
async fn messages_are_cut_between_characters_and_projects_found() {
    let world = World::new().await;
    let recorder = Recorder::new(&world.hub, "test").expect("a recorder");
    recorder.record(happening("", "Long", &"ä".repeat(600))).await;
    recorder.record(happening("nowhere", "Late", "its project is gone")).await;
    let told = told(&world).await;
    let [event] = told.as_slice() else { panic!("one project is unknown, so one event") };
    assert_eq!(event.metadata.as_ref().expect("metadata").project, "system");
    assert_eq!(event.spec.as_ref().expect("a spec").message().len(), 1024);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn tellers_at_the_same_moment_all_count() {
    let world = World::new().await;
    let recorder = Arc::new(Recorder::new(&world.hub, "test").expect("a recorder"));
    let mut tellers = tokio::task::JoinSet::new();
    for _ in 0..20 {
        let recorder = recorder.clone();
        tellers.spawn(async move { recorder.record(happening(PROJECT, "Busy", "x")).await });
    }
    tellers.join_all().await;
    let told = told(&world).await;
    assert_eq!(
        told.iter().map(|e| e.spec.as_ref().expect("a spec").count()).collect::<Vec<_>>(),
        [20]
    );
}
