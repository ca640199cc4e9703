//! Create, apply, replace, status: what is stored, and what is refused.
use crate::support::{PROJECT, START, World, at, json_of};
use orrery_hub::{ApplyOptions, Error, Merge, Outcome, Part, Precondition, Revision};
use serde_json::{Value, json};

fn revision(object: &orrery_api::Object) -> Revision {
    object.resource_version().parse().expect("a revision")
}

fn replace() -> ApplyOptions {
    ApplyOptions {
        precondition: Precondition::Present,
        merge: Merge::Replace,
        ..ApplyOptions::default()
    }
}

/// proves: HUB-06
#[tokio::test]
async fn what_is_created_can_be_read() {
    let world = World::new().await;
    let created = world.create(world.gizmo("a", json!({"image": "x"}))).await;
    assert_eq!(world.get("a").await, created);
    assert_eq!((created.generation(), created.project()), (1, PROJECT));
    assert_eq!(created.creation_timestamp().map(|time| time.as_second()), Some(START));
    assert!(!created.uid().is_empty());
    assert_eq!(
        json_of(&created)["spec"],
        json!({"image": "x", "replicas": 1}),
        "defaults are stored"
    );
}

/// proves: HUB-06
#[tokio::test]
async fn preconditions_hold() {
    let world = World::new().await;
    let first = world.create(world.gizmo("a", json!({"image": "x"}))).await;
    let changed = world.gizmo("a", json!({"image": "y"}));
    let refused = |options| {
        let (world, object) = (&world, changed.clone());
        async move { world.apply(object, options).await.expect_err("refused").reason() }
    };
    assert_eq!(refused(ApplyOptions::create()).await, "AlreadyExists");
    let stale = ApplyOptions::replace_at(Revision(revision(&first).0 - 1));
    assert_eq!(refused(stale).await, "Conflict");
    let absent = world.apply(world.gizmo("b", json!({})), replace()).await;
    assert!(matches!(absent, Err(Error::NotFound { .. })), "{absent:?}");
    let pinned_absent = ApplyOptions::replace_at(revision(&first));
    let absent = world.apply(world.gizmo("b", json!({})), pinned_absent).await;
    assert!(matches!(absent, Err(Error::NotFound { .. })), "{absent:?}");
    let second = world.apply(changed.clone(), ApplyOptions::replace_at(revision(&first))).await;
    let second = second.expect("the right revision").object;
    assert!(revision(&first) < revision(&second));
    assert_eq!(refused(ApplyOptions::replace_at(revision(&first))).await, "Conflict");
}

#[tokio::test]
async fn a_revision_in_the_object_pins_it() {
    let world = World::new().await;
    let first = world.create(world.gizmo("a", json!({"image": "x"}))).await;
    let with = |image: &str, version: &str| {
        let mut object = world.gizmo("a", json!({"image": image}));
        object.update_meta(|meta| meta.resource_version = version.to_owned());
        object
    };
    world.apply(with("y", first.resource_version()), replace()).await.expect("it is current");
    let stale = world.apply(with("z", first.resource_version()), replace()).await;
    assert!(matches!(stale, Err(Error::Conflict { .. })), "{stale:?}");
    let odd = world.apply(with("z", "soon"), replace()).await.expect_err("no revision");
    assert_eq!(odd.to_string(), "metadata.resourceVersion \"soon\" is no revision");
}

#[tokio::test]
async fn the_uid_of_another_object_is_a_conflict() {
    let world = World::new().await;
    world.create(world.gizmo("a", json!({}))).await;
    let mut other = world.gizmo("a", json!({"image": "y"}));
    other.update_meta(|meta| meta.uid = "someone-else".into());
    let refused = world.apply(other, ApplyOptions::default()).await;
    assert!(matches!(refused, Err(Error::Conflict { .. })), "{refused:?}");
}

#[tokio::test]
async fn the_generation_counts_changes_of_the_spec_only() {
    let world = World::new().await;
    world.create(world.gizmo("a", json!({"image": "x"}))).await;
    let mut labelled = world.gizmo("a", json!({"image": "x"}));
    labelled.update_meta(|meta| meta.labels.insert("k".into(), "v".into()));
    let labelled = world.apply(labelled, ApplyOptions::default()).await.expect("a label");
    assert_eq!((labelled.object.generation(), labelled.outcome), (1, Outcome::Changed));
    let changed = world.apply(world.gizmo("a", json!({"image": "y"})), ApplyOptions::default());
    assert_eq!(changed.await.expect("an image").object.generation(), 2);
}

/// proves: HUB-13
#[tokio::test]
async fn a_status_write_touches_only_the_status_and_others_never_do() {
    let world = World::new().await;
    let before = world.create(world.gizmo("a", json!({"image": "x"}))).await;
    let status = world.read(json!({
        "metadata": {"name": "a", "project": PROJECT, "labels": {"sneaked": "in"}},
        "spec": {"image": "sneaked"}, "status": {"state": "Running"},
    }));
    let written = world.apply(status, ApplyOptions::status()).await.expect("a status").object;
    assert_eq!(json_of(&written)["status"], json!({"state": "Running", "running": 0}));
    assert!(written.same_spec(&before) && written.labels().is_empty());
    assert_eq!(written.generation(), 1);
    let main = world.read(json!({
        "metadata": {"name": "a", "project": PROJECT}, "spec": {"image": "y"},
        "status": {"state": "Forged"},
    }));
    let main = world.apply(main, ApplyOptions::default()).await.expect("a spec").object;
    assert_eq!(json_of(&main)["status"]["state"], "Running");
}

#[tokio::test]
async fn a_new_object_begins_with_a_status_only_where_a_part_of_the_server_says_so() {
    let world = World::new().await;
    let made = |name: &str| {
        world.read(json!({
            "metadata": {"name": name, "project": PROJECT}, "spec": {"image": "x"},
            "status": {"state": "Pending"},
        }))
    };
    let plain = world.apply(made("a"), ApplyOptions::create()).await.expect("an object").object;
    assert_eq!(json_of(&plain).get("status"), None);
    let with_status = ApplyOptions { with_status: true, ..ApplyOptions::create() };
    let told = world.apply(made("b"), with_status).await.expect("an object").object;
    assert_eq!(json_of(&told)["status"]["state"], "Pending");
}

#[tokio::test]
async fn a_status_belongs_to_something_that_is_there() {
    let world = World::new().await;
    let status = json!({"metadata": {"name": "a", "project": PROJECT}, "status": {"state": "x"}});
    let anyhow = ApplyOptions { part: Part::Status, ..ApplyOptions::default() };
    let refused = world.apply(world.read(status.clone()), anyhow.clone()).await;
    assert!(matches!(refused, Err(Error::NotFound { .. })), "{refused:?}");
    let creating = ApplyOptions { precondition: Precondition::Absent, ..anyhow.clone() };
    let refused = world.apply(world.read(status), creating).await.expect_err("refused");
    assert_eq!(refused.reason(), "BadRequest");
    let rack = world.read(json!({"kind": "Rack", "metadata": {"name": "r"}}));
    world.apply(rack.clone(), ApplyOptions::create()).await.expect("a rack");
    let refused = world.apply(rack, anyhow).await.expect_err("it has none");
    assert_eq!(refused.to_string(), "Rack has no status");
}

#[tokio::test]
async fn what_is_not_valid_is_not_stored() {
    let world = World::new().await;
    let violations = |error: Error| -> Vec<String> {
        error.violations().iter().map(|violation| violation.path.clone()).collect()
    };
    let refused = world.apply(world.gizmo("a", json!({"replicas": 101})), ApplyOptions::create());
    assert_eq!(violations(refused.await.expect_err("too many")), ["spec.replicas"]);
    let nameless = world.read(json!({"spec": {"replicas": 101}}));
    let refused = world.apply(nameless, ApplyOptions::create()).await.expect_err("all at once");
    assert_eq!(violations(refused), ["metadata.name", "spec.replicas", "metadata.project"]);
    world.create(world.gizmo("b", json!({"fixed": "1"}))).await;
    let refused = world.apply(world.gizmo("b", json!({"fixed": "2"})), ApplyOptions::default());
    assert_eq!(violations(refused.await.expect_err("immutable")), ["spec.fixed"]);
    let missing = world.gizmos().get(at("a").into()).await;
    assert!(matches!(missing, Err(Error::NotFound { .. })), "{missing:?}");
}

#[tokio::test]
async fn what_does_not_change_is_not_written() {
    let world = World::new().await;
    let spec = json!({"image": "x", "zones": ["a", "b"]});
    let first = world.create(world.gizmo("a", spec)).await;
    let same = world.gizmo("a", json!({"zones": ["b", "a"], "image": "x", "replicas": 1}));
    let applied = world.apply(same, ApplyOptions::default()).await.expect("applied");
    assert_eq!(applied.outcome, Outcome::Unchanged);
    assert_eq!(world.get("a").await.resource_version(), first.resource_version());
    let status = world.read(json!({"metadata": {"name": "a", "project": PROJECT}}));
    let applied = world.apply(status, ApplyOptions::status()).await.expect("nothing to write");
    assert_eq!(applied.outcome, Outcome::Unchanged);
}

#[tokio::test]
async fn a_dry_run_tells_what_would_be_and_stores_nothing() {
    let world = World::new().await;
    let dry = |options: ApplyOptions| ApplyOptions { dry_run: true, ..options };
    let object = world.gizmo("a", json!({"image": "x"}));
    let applied = world.apply(object.clone(), dry(ApplyOptions::create())).await.expect("fine");
    assert_eq!(applied.outcome, Outcome::Created);
    assert_eq!(json_of(&applied.object)["spec"]["replicas"], 1);
    assert!(matches!(world.gizmos().get(at("a").into()).await, Err(Error::NotFound { .. })));
    let first = world.create(object).await;
    let changed = world.gizmo("a", json!({"image": "y"}));
    let applied = world.apply(changed, dry(ApplyOptions::default())).await.expect("fine");
    assert_eq!(applied.outcome, Outcome::Changed);
    assert_eq!(applied.object.resource_version(), first.resource_version());
    assert_eq!(applied.object.generation(), 2);
    let bad = world.apply(world.gizmo("a", json!({"replicas": -1})), dry(ApplyOptions::default()));
    assert_eq!(bad.await.expect_err("checked all the same").reason(), "Invalid");
    assert_eq!(world.get("a").await, first);
}

/// proves: HUB-04
#[tokio::test]
async fn what_the_server_owns_cannot_be_forged() {
    let world = World::new().await;
    let forged = json!({
        "name": "a", "project": PROJECT, "uid": "mine", "generation": 70,
        "creationTimestamp": "2001-01-01T00:00:00Z", "deletionTimestamp": "2001-01-01T00:00:00Z",
    });
    let created = world.create(world.read(json!({"metadata": forged}))).await;
    let owned = |value: &Value| {
        let names = ["uid", "generation", "creationTimestamp", "deletionTimestamp"];
        names.map(|name| value["metadata"][name].clone())
    };
    assert_ne!(created.uid(), "mine");
    assert_eq!(created.generation(), 1);
    assert!(created.deletion_timestamp().is_none());
    let mut again = world.read(json!({"metadata": forged, "spec": {"image": "y"}}));
    again.update_meta(|meta| meta.uid.clear());
    let replaced = world.apply(again, replace()).await.expect("the rest is fine").object;
    let mut expected = owned(&json_of(&created));
    expected[1] = json!(2);
    assert_eq!(owned(&json_of(&replaced)), expected);
}

#[tokio::test]
async fn declared_objects_keep_finalizers_and_owners_that_others_put_there() {
    let world = World::new().await;
    let owner = json!({"apiVersion": "x/v1", "kind": "X", "name": "x", "uid": "u"});
    let metadata = json!({
        "name": "a", "project": PROJECT, "finalizers": ["x/hold"], "ownerReferences": [owner],
    });
    world.create(world.read(json!({"metadata": metadata}))).await;
    let declared = world.apply(world.gizmo("a", json!({"image": "y"})), ApplyOptions::default());
    let declared = declared.await.expect("applied").object;
    assert_eq!(declared.finalizers(), ["x/hold"]);
    assert_eq!(declared.meta().owner_references.len(), 1);
    let replaced = world.apply(world.gizmo("a", json!({"image": "y"})), replace()).await;
    let replaced = replaced.expect("replaced").object;
    assert!(replaced.finalizers().is_empty() && replaced.meta().owner_references.is_empty());
}
