//! Several writes in one commit: all of them, or none.
use crate::support::{World, at, json_of};
use orrery_hub::{ApplyOptions, Batch, DeleteOptions, Error, ListOptions, Outcome, Revision};
use serde_json::json;

fn revision(object: &orrery_api::Object) -> Revision {
    object.resource_version().parse().expect("a revision")
}

fn replace_in(batch: &Batch, at: Revision) -> ApplyOptions {
    ApplyOptions { batch: Some(batch.clone()), ..ApplyOptions::replace_at(at) }
}

/// A batch that changes `a`, leaves `b` as it is, creates `c` and deletes `d`.
async fn prepare(world: &World) -> Batch {
    let batch = Batch::new();
    let [a, b, d] = ["a", "b", "d"].map(|name| world.gizmo(name, json!({"image": name})));
    let (a, b) = (world.create(a).await, world.create(b).await);
    world.create(d).await;
    let changed = world.gizmo("a", json!({"image": "new"}));
    let applied = world.apply(changed, replace_in(&batch, revision(&a))).await.expect("prepared");
    assert_eq!(applied.outcome, Outcome::Changed);
    let same = world.apply(b.clone(), replace_in(&batch, revision(&b))).await.expect("prepared");
    assert_eq!(same.outcome, Outcome::Unchanged);
    let create = ApplyOptions { batch: Some(batch.clone()), ..ApplyOptions::create() };
    world.apply(world.gizmo("c", json!({"image": "c"})), create).await.expect("prepared");
    let delete = DeleteOptions { batch: Some(batch.clone()), ..at("d").into() };
    world.gizmos().delete(delete).await.expect("prepared");
    batch
}

#[tokio::test]
async fn all_of_a_batch_is_written_at_one_revision() {
    let world = World::new().await;
    let batch = prepare(&world).await;
    assert_eq!(
        world.names(ListOptions::default()).await,
        ["a", "b", "d"],
        "nothing is written yet"
    );
    let committed = world.hub.commit(batch).await.expect("nobody was faster");
    assert_eq!(world.names(ListOptions::default()).await, ["a", "b", "c"]);
    let (a, c) = (world.get("a").await, world.get("c").await);
    assert_eq!(json_of(&a)["spec"]["image"], "new");
    assert_eq!((revision(&a), revision(&c)), (committed, committed));
    assert!(revision(&world.get("b").await) < committed, "what did not change is not written");
}

#[tokio::test]
async fn nothing_of_a_batch_is_written_when_any_of_it_changed() {
    for changed in ["a", "b", "c", "d"] {
        let world = World::new().await;
        let batch = prepare(&world).await;
        let other = world.gizmo(changed, json!({"image": "other"}));
        world.apply(other, ApplyOptions::default()).await.expect("someone is faster");
        let refused = world.hub.commit(batch).await.expect_err(changed);
        assert!(matches!(refused, Error::Conflict { .. }), "{changed}: {refused}");
        assert_ne!(json_of(&world.get("a").await)["spec"]["image"], "new", "{changed}");
        assert!(world.names(ListOptions::default()).await.contains(&"d".to_owned()));
    }
}
