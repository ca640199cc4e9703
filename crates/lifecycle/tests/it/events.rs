//! Old news goes.
use crate::support::{World, eventually};
use orrery_hub::events::{Happening, Recorder, Severity};
use orrery_hub::{ListOptions, Resources};
use orrery_proto::core::v1::{Event, ObjectReference};

async fn reasons(events: &Resources<Event>) -> Vec<String> {
    let told = events.list(ListOptions::default()).await.expect("a list");
    told.iter().map(|event| event.spec.as_ref().expect("a spec").reason().to_owned()).collect()
}

#[tokio::test(start_paused = true)]
async fn an_event_goes_an_hour_after_it_last_happened() {
    let world = World::new().await;
    let recorder = Recorder::new(&world.hub, "test").expect("a recorder");
    let tell = |reason| {
        let kind = Some("Workload".to_owned());
        let (name, project) = (Some("w".to_owned()), Some("default".to_owned()));
        let regarding = ObjectReference { kind, name, project, ..ObjectReference::default() };
        recorder.record(Happening {
            regarding,
            severity: Severity::Normal,
            reason,
            message: String::new(),
        })
    };
    tell("Old").await;
    world.clock.advance(3599);
    tell("New").await;
    world.clock.advance(2);
    let events: Resources<Event> = world.hub.resources().expect("events");
    eventually(|| async { reasons(&events).await == ["New"] }).await;
}
