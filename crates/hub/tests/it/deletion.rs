//! Objects go, at once or when their last finalizer does.
use crate::support::{GIZMO, PROJECT, START, World, at};
use orrery_hub::{ApplyOptions, DeleteOptions, Error, Merge, Outcome, Propagation, Revision};
use serde_json::json;

impl World {
    async fn held(&self, finalizers: &[&str]) -> orrery_api::Object {
        let metadata = json!({"name": "a", "project": PROJECT, "finalizers": finalizers});
        self.create(self.read(json!({"metadata": metadata}))).await
    }

    async fn delete(&self, options: DeleteOptions) -> Result<orrery_hub::Deleted, Error> {
        self.gizmos().delete(options).await
    }

    async fn is_gone(&self) -> bool {
        matches!(self.gizmos().get(at("a").into()).await, Err(Error::NotFound { .. }))
    }
}

fn with_finalizers(world: &World, finalizers: &[&str]) -> orrery_api::Object {
    let metadata = json!({"name": "a", "project": PROJECT, "finalizers": finalizers});
    world.read(json!({"metadata": metadata}))
}

#[tokio::test]
async fn without_finalizers_it_goes_at_once() {
    let world = World::new().await;
    let created = world.held(&[]).await;
    let deleted = world.delete(at("a").into()).await.expect("deleted");
    assert!(deleted.gone && deleted.object.uid() == created.uid());
    assert!(world.is_gone().await);
    let again = world.delete(at("a").into()).await;
    assert!(matches!(again, Err(Error::NotFound { .. })), "{again:?}");
}

#[tokio::test]
async fn with_finalizers_it_waits_until_the_last_is_taken_away() {
    let world = World::new().await;
    world.held(&["x/one", "x/two"]).await;
    world.clock.advance(5);
    let deleted = world.delete(at("a").into()).await.expect("marked");
    assert!(!deleted.gone);
    let marked = deleted.object.deletion_timestamp().expect("a time").as_second();
    assert_eq!((marked, deleted.object.generation()), (START + 5, 2));
    world.clock.advance(5);
    let again = world.delete(at("a").into()).await.expect("asked again");
    assert_eq!(again.object, deleted.object, "nothing was written again");
    let options = ApplyOptions { merge: Merge::Replace, ..ApplyOptions::default() };
    let one = world.apply(with_finalizers(&world, &["x/two"]), options.clone()).await;
    assert_eq!(one.expect("one is left").outcome, Outcome::Changed);
    let dry = ApplyOptions { dry_run: true, ..options.clone() };
    let none = world.apply(with_finalizers(&world, &[]), dry).await.expect("a dry run");
    assert_eq!(none.outcome, Outcome::Gone);
    assert!(!world.is_gone().await);
    let none = world.apply(with_finalizers(&world, &[]), options).await.expect("the last");
    assert_eq!(none.outcome, Outcome::Gone);
    assert!(world.is_gone().await);
}

#[tokio::test]
async fn while_it_goes_nothing_new_holds_or_replaces_it() {
    let world = World::new().await;
    world.held(&["x/one"]).await;
    world.delete(at("a").into()).await.expect("marked");
    let created = world.apply(world.gizmo("a", json!({})), ApplyOptions::create()).await;
    let error = created.expect_err("it is still there");
    assert!(matches!(error, Error::BeingDeleted { .. }) && error.reason() == "AlreadyExists");
    let late = world.apply(with_finalizers(&world, &["x/one", "x/late"]), ApplyOptions::default());
    let late = late.await.expect_err("too late");
    assert_eq!(late.violations()[0].path, "metadata.finalizers");
    let spec = world.apply(world.gizmo("a", json!({"image": "y"})), ApplyOptions::default());
    assert_eq!(spec.await.expect("it may still change").outcome, Outcome::Changed);
}

#[tokio::test]
async fn only_the_object_that_is_meant_is_deleted() {
    let world = World::new().await;
    let created = world.held(&[]).await;
    let other = DeleteOptions { uid: Some("other".into()), ..at("a").into() };
    assert_eq!(world.delete(other).await.expect_err("another").reason(), "Conflict");
    let stale = DeleteOptions { revision: Some(Revision(1)), ..at("a").into() };
    assert_eq!(world.delete(stale).await.expect_err("stale").reason(), "Conflict");
    let dry = DeleteOptions { dry_run: true, ..at("a").into() };
    assert!(world.delete(dry).await.expect("a dry run").gone);
    assert!(!world.is_gone().await);
    let exact = DeleteOptions {
        uid: Some(created.uid().into()),
        revision: created.resource_version().parse().ok(),
        ..at("a").into()
    };
    assert!(world.delete(exact).await.expect("this one").gone);
}

#[tokio::test]
async fn a_new_object_of_the_same_name_is_another() {
    let world = World::new().await;
    let first = world.held(&[]).await;
    world.delete(at("a").into()).await.expect("deleted");
    let second = world.held(&[]).await;
    assert_ne!(first.uid(), second.uid());
    let options = DeleteOptions { uid: Some(first.uid().into()), ..at("a").into() };
    assert_eq!(world.delete(options).await.expect_err("the first is gone").reason(), "Conflict");
}

#[tokio::test]
async fn the_wish_for_what_it_owns_is_a_finalizer() {
    let world = World::new().await;
    let wish = |propagation| DeleteOptions { propagation: Some(propagation), ..at("a").into() };
    world.held(&["x/one"]).await;
    let deleted = world.delete(wish(Propagation::Foreground)).await.expect("marked");
    assert_eq!(deleted.object.finalizers(), ["x/one", "foregroundDeletion"]);
    let deleted = world.delete(wish(Propagation::Orphan)).await.expect("another wish");
    assert_eq!(deleted.object.finalizers(), ["x/one", "orphan"]);
    let declared = world.apply(with_finalizers(&world, &["x/one"]), ApplyOptions::default()).await;
    let declared = declared.expect("a controller names its own").object;
    assert_eq!(declared.finalizers(), ["x/one", "orphan"], "the wish is not its to take back");
    let deleted = world.delete(at("a").into()).await.expect("no wish");
    assert_eq!(deleted.object.finalizers(), ["x/one", "orphan"]);
    let deleted = world.delete(wish(Propagation::Background)).await.expect("the last wish");
    assert_eq!(deleted.object.finalizers(), ["x/one"]);
}

/// What a kind waits for is not lost by a write that does not name it, whichever way it is written; and
/// once it is asked to go, it can be let go.
#[tokio::test]
async fn what_holds_every_object_of_a_kind_stays_until_it_is_deleted() {
    let world = World::with(|builder| builder.held_by(GIZMO, "x/held")).await;
    assert_eq!(world.held(&["x/own"]).await.finalizers(), ["x/own", "x/held"]);
    let replace = ApplyOptions { merge: Merge::Replace, ..ApplyOptions::default() };
    let managed = ApplyOptions { manager: "me".into(), ..replace.clone() };
    let applied = ApplyOptions { merge: Merge::Apply, ..managed.clone() };
    for options in [replace.clone(), managed, applied, ApplyOptions::default()] {
        let written = world.apply(with_finalizers(&world, &["x/other"]), options).await;
        let written = written.expect("written").object;
        let mut names = written.finalizers();
        names.sort_unstable();
        assert_eq!(names, ["x/held", "x/other"]);
        let emptied = world.apply(with_finalizers(&world, &[]), replace.clone()).await;
        assert_eq!(emptied.expect("emptied").object.finalizers(), ["x/held"]);
    }
    assert!(!world.delete(at("a").into()).await.expect("marked").gone);
    let none = world.apply(with_finalizers(&world, &[]), replace).await.expect("let go");
    assert_eq!(none.outcome, Outcome::Gone);
}
