//! Watches: what is there, then every change, none skipped.
use crate::support::{PATIENCE, PROJECT, World, at, fields, labels};
use futures::{FutureExt as _, StreamExt};
use orrery_api::Encoded;
use orrery_hub::{
    ApplyOptions, Concern, Error, ObjectName, Revision, Unreadable, WatchEvent, WatchOptions,
};
use orrery_store::Op;
use parking_lot::Mutex;
use serde_json::json;
use std::sync::Arc;
use std::time::Duration;

fn here() -> WatchOptions {
    WatchOptions { project: Some(PROJECT.into()), ..WatchOptions::default() }
}

impl World {
    async fn put(&self, name: &str, label: &str, image: &str) -> Revision {
        let metadata = json!({"name": name, "project": PROJECT, "labels": {"tier": label}});
        let object = self.read(json!({"metadata": metadata, "spec": {"image": image}}));
        let applied = self.apply(object, ApplyOptions::default()).await.expect("applied");
        applied.object.resource_version().parse().expect("a revision")
    }

    async fn remove(&self, name: &str) {
        self.gizmos().delete(at(name).into()).await.expect("deleted");
    }
}

/// proves: HUB-06
#[tokio::test]
async fn first_what_is_there_then_a_bookmark_then_changes() {
    let world = World::new().await;
    world.put("b", "x", "1").await;
    world.put("a", "x", "1").await;
    let mut watched = world.watch(here()).await;
    assert_eq!([watched.next().await, watched.next().await], ["+a", "+b"]);
    assert_eq!(watched.next().await, "*");
    world.put("a", "x", "2").await;
    world.put("c", "x", "1").await;
    world.remove("b").await;
    let seen = [watched.next().await, watched.next().await, watched.next().await];
    assert_eq!(seen, ["~a", "+c", "-b"]);
}

#[tokio::test]
async fn changes_that_do_not_concern_a_watcher_are_passed_over() {
    let world = World::new().await;
    let front = |object: &Encoded| object.object().unwrap().label("tier") == Some("front");
    let options = WatchOptions { concern: Some(Concern::new(front)), ..here() };
    let mut watched = world.watch(options).await;
    assert_eq!(watched.next().await, "*");
    world.put("a", "back", "1").await;
    assert_eq!([watched.next().await, watched.next().await], ["+a", "*"], "whatever comes is told");
    let passed = world.put("a", "back", "2").await;
    let WatchEvent::Bookmark(reached) = watched.event().await.expect("an event") else {
        panic!("it does not concern the watcher")
    };
    assert_eq!(reached, passed, "how far it has come is told all the same");
    for (label, why) in [("front", "it begins to"), ("back", "it ends to")] {
        world.put("a", label, why).await;
        assert_eq!([watched.next().await, watched.next().await], ["~a", "*"], "{why}");
    }
    world.remove("a").await;
    assert_eq!(watched.next().await, "-a", "whatever goes is told");
}

/// What was in the concern before the watcher came: whether it was told of it at the beginning, or goes on from a revision.
#[tokio::test]
async fn what_ends_to_concern_a_watcher_is_told_however_it_began() {
    let world = World::new().await;
    let front = |object: &Encoded| object.object().unwrap().label("tier") == Some("front");
    let concerned = || WatchOptions { concern: Some(Concern::new(front)), ..here() };
    world.put("a", "front", "1").await;
    let after = world.put("b", "back", "1").await;
    let mut told = world.watch(concerned()).await;
    assert_eq!([told.next().await, told.next().await, told.next().await], ["+a", "+b", "*"]);
    let mut resumed = world.watch(WatchOptions { after: Some(after), ..concerned() }).await;
    world.put("b", "back", "2").await;
    for watched in [&mut told, &mut resumed] {
        assert_eq!(watched.next().await, "*", "it never concerned anybody");
    }
    world.put("a", "back", "2").await;
    for watched in [&mut told, &mut resumed] {
        assert_eq!([watched.next().await, watched.next().await], ["~a", "*"]);
    }
}

/// A watcher that asked for it is told of what cannot be read, and of all the rest.
#[tokio::test]
async fn what_cannot_be_read_is_passed_over_where_somebody_hears_of_it() {
    let world = World::new().await;
    world.put("a", "x", "1").await;
    world.put("b", "x", "1").await;
    let store = world.hub.store();
    let stored = async || {
        let snapshot = store.snapshot().await.expect("a snapshot");
        let mut gizmos = snapshot.range("objects/fixture/Gizmo/");
        let entry = gizmos.next().expect("a is there");
        (entry.key.clone(), entry.value.clone(), entry.modified)
    };
    let (key, good, at) = stored().await;
    // The end of a group that never began.
    let bad = [&[0x0c], &good[..]].concat();
    store.commit(vec![Op::update(key.clone(), bad.clone(), at)]).await.expect("nobody else does");

    let mut plain = world.watch(here()).await;
    let error = plain.event().await.expect_err("it cannot be read").to_string();
    assert!(error.contains(&*key), "it says which one: {error}");

    let heard = Arc::new(Mutex::new(Vec::new()));
    let unreadable = Unreadable::new({
        let heard = heard.clone();
        move |key, unread| heard.lock().push((key.to_owned(), unread.map(|it| it.value.to_vec())))
    });
    let heard = || std::mem::take(&mut *heard.lock());
    let concern = Some(Concern::new(|object| object.object().is_err()));
    let options = WatchOptions { unreadable: Some(unreadable), concern, ..here() };
    let mut watched = world.watch(options).await;
    assert_eq!([watched.next().await, watched.next().await], ["+b", "*"]);
    assert_eq!(heard(), [(key.to_string(), Some(bad.clone()))]);
    let (_, _, at) = stored().await;
    store.commit(vec![Op::update(key.clone(), good, at)]).await.expect("nobody else does");
    assert_eq!(watched.next().await, "~a");
    assert_eq!(heard(), [], "not before whoever watches has seen to what it is now");
    assert_eq!(watched.next().await, "*");
    assert!(watched.event().now_or_never().is_none(), "it comes for more");
    assert_eq!(heard(), [(key.to_string(), None)], "it can be read again");
    let (_, _, at) = stored().await;
    store.commit(vec![Op::update(key.clone(), bad.clone(), at)]).await.expect("nobody else does");
    let (_, _, at) = stored().await;
    store.commit(vec![Op::delete(key.clone(), at)]).await.expect("nobody else does");
    // Whether it is gone or another one is, nobody can say to whom it was shown.
    while watched.event().await.is_ok() {}
    assert_eq!(heard().last(), Some(&(key.to_string(), None)), "it is gone");
}

#[tokio::test]
async fn selectors_turn_changes_into_coming_and_going() {
    let world = World::new().await;
    let options = WatchOptions { labels: labels("tier=front"), ..here() };
    let mut watched = world.watch(options).await;
    assert_eq!(watched.next().await, "*");
    world.put("a", "back", "1").await;
    world.put("a", "front", "2").await;
    world.put("a", "front", "3").await;
    let left = world.put("a", "back", "4").await;
    world.remove("a").await;
    world.put("b", "front", "1").await;
    assert_eq!([watched.next().await, watched.next().await], ["+a", "~a"]);
    let WatchEvent::Deleted(object) = watched.event().await.expect("an event") else {
        panic!("it left the selection")
    };
    assert_eq!(object.label("tier"), Some("front"), "as it was when it still fitted");
    assert_eq!(object.resource_version(), left.to_string());
    assert_eq!(watched.next().await, "+b", "a deletion outside of the selection is not told");
}

#[tokio::test]
async fn fields_and_names_select_too() {
    let world = World::new().await;
    let kind = world.kind("Gizmo");
    let by_field = WatchOptions { fields: fields("spec.image=x", &kind), ..here() };
    let mut by_field = world.watch(by_field).await;
    let mut by_name = world.watch(WatchOptions { name: Some("b".into()), ..here() }).await;
    let anywhere = WatchOptions { name: Some("b".into()), ..WatchOptions::default() };
    let mut anywhere = world.watch(anywhere).await;
    world.put("bb", "x", "x").await;
    world.put("b", "x", "y").await;
    world.put("b", "x", "x").await;
    let seen = [by_field.next().await, by_field.next().await, by_field.next().await];
    assert_eq!(seen, ["*", "+bb", "+b"]);
    for watched in [&mut by_name, &mut anywhere] {
        let seen = [watched.next().await, watched.next().await, watched.next().await];
        assert_eq!(seen, ["*", "+b", "~b"]);
    }
}

#[tokio::test]
async fn a_watch_goes_on_from_a_revision() {
    let world = World::new().await;
    let first = world.put("a", "x", "1").await;
    world.put("b", "x", "1").await;
    world.remove("a").await;
    let mut watched = world.watch(WatchOptions { after: Some(first), ..here() }).await;
    assert_eq!([watched.next().await, watched.next().await], ["+b", "-a"]);
}

/// Who goes on from a revision before the end of a project would never hear of what was in it: it begins anew.
#[tokio::test]
async fn a_watch_does_not_go_on_beyond_the_end_of_its_project() {
    let world = World::new().await;
    let before = world.hub.store().revision();
    let after = world.put("a", "x", "1").await;
    let projects = world.accessor("Project");
    let selected = |kind: &str| {
        let fields = fields(&format!("metadata.project={PROJECT}"), &world.kind(kind));
        WatchOptions { fields, ..WatchOptions::default() }
    };
    projects.delete(ObjectName::new("", PROJECT).into()).await.expect("deleted");
    let deleted = world.hub.store().revision();
    for again in [false, true] {
        if again {
            world.create_project(PROJECT).await;
        }
        for kind in ["Gizmo", "Secret"] {
            for after in [before, after] {
                for options in [here(), selected(kind)] {
                    let options =
                        WatchOptions { after: Some(after), include_shared: true, ..options };
                    let error = world.accessor(kind).watch(options).await.err();
                    assert!(matches!(error, Some(Error::Expired { .. })), "{kind}: {error:?}");
                }
            }
        }
    }
    let mut watched = world.watch(WatchOptions { after: Some(deleted), ..here() }).await;
    world.put("b", "x", "1").await;
    assert_eq!(watched.next().await, "+b", "who knows of the end goes on");
}

#[tokio::test]
async fn a_watch_goes_on_from_before_its_project_came() {
    let world = World::new().await;
    let after = Some(world.hub.store().revision());
    let late = WatchOptions { project: Some("late".into()), after, ..WatchOptions::default() };
    let absent = world.gizmos().watch(late.clone()).await.err();
    assert!(matches!(absent, Some(Error::ProjectNotFound { .. })), "{absent:?}");
    world.create_project("late").await;
    world.create(world.read(json!({"metadata": {"name": "a", "project": "late"}}))).await;
    assert_eq!(world.watch(late).await.next().await, "+a");
}

#[tokio::test]
async fn history_that_is_gone_is_told_as_such() {
    let world = World::new().await;
    let first = world.put("a", "x", "1").await;
    let last = world.put("b", "x", "1").await;
    world.hub.store().compact(last).await.expect("compacted");
    let old = WatchOptions { after: Some(first), ..here() };
    let error = match world.gizmos().watch(old).await {
        Err(error) => error,
        Ok(stream) => {
            let mut stream = stream;
            let next = futures::StreamExt::next(&mut stream).await.expect("an answer");
            next.expect_err("the history is gone")
        }
    };
    assert!(matches!(error, Error::Expired { .. }), "{error}");
}

#[tokio::test(start_paused = true)]
async fn an_idle_watch_is_told_how_far_the_store_has_come() {
    let world = World::new().await;
    let interval = Some(Duration::from_secs(1));
    let mut watched = world.watch(WatchOptions { bookmark_interval: interval, ..here() }).await;
    assert_eq!(watched.next().await, "*");
    world.create_project("elsewhere").await;
    let now = world.hub.store().revision();
    let WatchEvent::Bookmark(revision) = watched.event().await.expect("an event") else {
        panic!("nothing else happened here")
    };
    assert_eq!(revision, now);
}

/// What several watchers are told of one change is the same bytes, made once.
#[tokio::test]
async fn watchers_share_the_bytes_of_a_change() {
    let world = World::new().await;
    let mut watchers = Vec::new();
    for _ in 0..3 {
        let options = WatchOptions::default();
        watchers.push(world.gizmos().watch_encoded(options).await.expect("a watch"));
    }
    world.create(world.gizmo("a", json!({"image": "one"}))).await;
    let mut told = Vec::new();
    for watcher in &mut watchers {
        loop {
            let event = tokio::time::timeout(PATIENCE, watcher.next()).await.expect("in time");
            if let WatchEvent::Added(found) = event.expect("it goes on").expect("no error") {
                told.push(found);
                break;
            }
        }
    }
    let first = told[0].bytes().as_ptr();
    assert!(told.iter().all(|found| found.bytes().as_ptr() == first), "each has its own");
    assert_eq!(told[0].object().expect("a gizmo"), &world.get("a").await);
}
