//! Server-side apply through the hub, case by case.
use crate::support::{PROJECT, World, json_of};
use orrery_api::Object;
use orrery_hub::ownership::Managers;
use orrery_hub::{Applied, ApplyOptions, Error, Merge, Outcome, Part};
use serde_json::{Value, json};

impl World {
    pub(super) async fn declare(&self, manager: &str, spec: Value) -> Result<Applied, Error> {
        self.apply(self.gizmo("a", spec), ApplyOptions::declared_by(manager)).await
    }

    async fn spec(&self) -> Value {
        json_of(&self.get("a").await)["spec"].clone()
    }
}

fn fields_in_conflict(outcome: Result<Applied, Error>) -> Vec<String> {
    let error = outcome.expect_err("a conflict");
    assert_eq!(error.reason(), "Conflict");
    error.conflicts().iter().map(|c| format!("{} {}", c.manager, c.field)).collect()
}

#[tokio::test]
async fn what_another_manager_holds_is_a_conflict_that_names_it() {
    let world = World::new().await;
    world.declare("other", json!({"image": "x", "args": ["1"]})).await.expect("the first");
    let error = world.declare("me", json!({"image": "y"})).await.expect_err("a conflict");
    let text = "Apply failed with 1 conflict: conflict with \"other\": .spec.image";
    assert_eq!(error.to_string(), text);
    let error = world.declare("me", json!({"image": "y", "args": []})).await;
    assert_eq!(fields_in_conflict(error), ["other .spec.image"], "an empty list declares nothing");
    let error = world.declare("me", json!({"image": "y", "args": ["2"]})).await.expect_err("two");
    let text =
        "Apply failed with 2 conflicts: conflicts with \"other\":\n- .spec.args\n- .spec.image";
    assert_eq!(error.to_string(), text);
    assert_eq!(world.spec().await, json!({"image": "x", "replicas": 1, "args": ["1"]}));
}

/// What kubectl applied on its own side is its own past when it applies on the server's side.
#[tokio::test]
async fn kubectl_changes_sides_without_a_conflict() {
    const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";
    let world = World::new().await;
    let spec = json!({"image": "x", "args": ["1"], "settings": {"a": "1", "b": "2"}});
    let mut first = world.gizmo("a", spec.clone());
    let text = json!({
        "apiVersion": first.kind().api_version(), "kind": first.kind().kind(),
        "metadata": {"name": "a"}, "spec": spec,
    });
    first.set_annotation(LAST_APPLIED, &text.to_string());
    let by = |manager: &str| ApplyOptions {
        merge: Merge::Replace,
        manager: manager.into(),
        ..ApplyOptions::default()
    };
    world.apply(first, by("kubectl-client-side-apply")).await.expect("created");
    let other = world.declare("helm", json!({"image": "y"})).await;
    assert_eq!(fields_in_conflict(other), ["kubectl-client-side-apply .spec.image"]);
    let mut changed = world.get("a").await;
    changed.set_annotation("note", "kept");
    world.apply(changed, by("editor")).await.expect("edited");
    let next = json!({"image": "y", "replicas": 5, "settings": {"b": "2"}});
    world.declare("kubectl", next).await.expect("no conflict with its own past");
    let expect = json!({"image": "y", "replicas": 5, "settings": {"b": "2"}});
    assert_eq!(world.spec().await, expect, "what is not declared any more is gone");
    let found = world.get("a").await;
    assert_eq!(found.annotation("note"), Some("kept"), "what others set stays");
    let managers: Vec<String> =
        Managers::of(&found).entries.iter().map(|entry| entry.manager.name.clone()).collect();
    assert_eq!(managers, ["kubectl", "editor"]);
    let late = world.declare("helm", json!({"image": "z"})).await;
    assert_eq!(fields_in_conflict(late), ["kubectl .spec.image"]);
}

#[tokio::test]
async fn force_takes_the_fields_and_their_manager_no_longer_holds_them() {
    let world = World::new().await;
    world.declare("other", json!({"image": "x", "replicas": 3})).await.expect("the first");
    let force = ApplyOptions { force: true, ..ApplyOptions::declared_by("me") };
    world.apply(world.gizmo("a", json!({"image": "y"})), force).await.expect("forced");
    assert_eq!(world.spec().await, json!({"image": "y", "replicas": 3}));
    let back = world.declare("other", json!({"image": "x", "replicas": 3})).await;
    assert_eq!(fields_in_conflict(back), ["me .spec.image"]);
    world.declare("other", json!({"replicas": 3})).await.expect("it gave the image up");
    assert_eq!(world.spec().await["image"], "y");
}

#[tokio::test]
async fn what_is_no_longer_declared_goes_unless_someone_else_claims_it() {
    let world = World::new().await;
    let all = json!({
        "image": "x", "replicas": 3, "settings": {"a": "1", "b": "2"}, "zones": ["p", "q"],
        "ports": [{"name": "http", "number": 80}, {"name": "grpc"}], "steam": {"pressure": 5},
        "nested": {"inner": {"text": "deep"}},
    });
    world.declare("me", all).await.expect("everything");
    let shared = json!({"settings": {"b": "2"}, "zones": ["q"], "ports": [{"name": "http"}]});
    world.declare("other", shared).await.expect("equal values are shared");
    world.declare("me", json!({"image": "x"})).await.expect("less");
    let left = json!({
        "image": "x", "replicas": 1, "settings": {"b": "2"}, "zones": ["q"],
        "ports": [{"name": "http", "protocol": "tcp"}],
    });
    assert_eq!(world.spec().await, left);
    world.declare("other", json!({})).await.expect("nothing");
    assert_eq!(world.spec().await, json!({"image": "x", "replicas": 1}));
}

/// Whoever changed one field of an item did not declare the item: it goes as a whole, not down to that field.
#[tokio::test]
async fn an_item_goes_with_what_others_changed_in_it() {
    let world = World::new().await;
    let ports = json!([{"name": "http", "number": 80}, {"name": "grpc", "number": 90}]);
    world.declare("me", json!({"ports": ports})).await.expect("two ports");
    let changed = json!({"ports": [
        {"name": "http", "number": 80, "protocol": "udp"}, {"name": "grpc", "number": 90},
        {"name": "more", "number": 70},
    ]});
    let by_hand =
        ApplyOptions { merge: Merge::Replace, manager: "editor".into(), ..ApplyOptions::default() };
    world.apply(world.gizmo("a", changed), by_hand).await.expect("changed");
    let less = json!({"ports": [{"name": "grpc", "number": 90}]});
    world.declare("me", less).await.expect("one port less");
    let left: Vec<Value> = world.spec().await["ports"].as_array().expect("ports").clone();
    let names: Vec<&Value> = left.iter().map(|port| &port["name"]).collect();
    assert_eq!(names, ["grpc", "more"], "what the editor made stays");
}

#[tokio::test]
async fn items_of_lists_and_maps_have_managers_of_their_own() {
    let world = World::new().await;
    let mine =
        json!({"ports": [{"name": "http", "number": 80}], "zones": ["p"], "settings": {"a": "1"}});
    let yours =
        json!({"ports": [{"name": "grpc", "number": 90}], "zones": ["q"], "settings": {"b": "2"}});
    world.declare("me", mine).await.expect("mine");
    world.declare("you", yours).await.expect("yours");
    let ports = world.spec().await["ports"].clone();
    assert_eq!(ports[0]["number"], 80);
    assert_eq!(ports[1]["number"], 90);
    let clash = json!({"ports": [{"name": "http", "number": 81}], "settings": {"a": "9"}});
    let clash = world.declare("you", clash).await;
    let expected = ["me .spec.ports[name=\"http\"].number", "me .spec.settings.a"];
    assert_eq!(fields_in_conflict(clash), expected);
}

#[tokio::test]
async fn a_list_without_identity_and_opaque_data_are_one_value() {
    let world = World::new().await;
    world.declare("me", json!({"args": ["a"], "opaque": {"x": 1}})).await.expect("mine");
    let both = world.declare("you", json!({"args": ["b"], "opaque": {"y": 2}})).await;
    assert_eq!(fields_in_conflict(both), ["me .spec.args", "me .spec.opaque"]);
}

#[tokio::test]
async fn another_branch_of_a_choice_takes_the_first_away() {
    let world = World::new().await;
    world.declare("me", json!({"steam": {"pressure": 5}})).await.expect("steam");
    let other = world.declare("you", json!({"diesel": {"cylinders": 6}})).await;
    assert_eq!(fields_in_conflict(other), ["me .spec.steam.pressure"]);
    world.declare("me", json!({"diesel": {"cylinders": 4}})).await.expect("its own choice");
    assert_eq!(world.spec().await, json!({"replicas": 1, "diesel": {"cylinders": 4}}));
}

#[tokio::test]
async fn whoever_updates_takes_what_it_changes() {
    let world = World::new().await;
    world.declare("me", json!({"image": "x", "replicas": 3})).await.expect("declared");
    let update = |manager: &str| ApplyOptions {
        merge: Merge::Replace,
        manager: manager.into(),
        ..ApplyOptions::default()
    };
    let edited = world.gizmo("a", json!({"image": "edited", "replicas": 3}));
    world.apply(edited, update("editor")).await.expect("edited");
    let again = world.declare("me", json!({"image": "x", "replicas": 3})).await;
    assert_eq!(fields_in_conflict(again), ["editor .spec.image"]);
    world.declare("me", json!({"image": "edited", "replicas": 3})).await.expect("it agrees");
    let unnamed = world.gizmo("a", json!({"image": "server", "replicas": 3}));
    world.apply(unnamed, update("")).await.expect("a part of the server");
    world.declare("me", json!({"image": "x", "replicas": 3})).await.expect("nobody holds it");
    assert_eq!(world.spec().await["image"], "x");
}

#[tokio::test]
async fn the_status_has_managers_of_its_own() {
    let world = World::new().await;
    world.declare("me", json!({"image": "x"})).await.expect("declared");
    let status = |state: &str, r#type: &str| {
        let condition = json!({"type": r#type, "status": "True"});
        world.read(json!({
            "metadata": {"name": "a", "project": PROJECT, "labels": {"not": "this"}},
            "spec": {"image": "nor this"},
            "status": {"state": state, "conditions": [condition]},
        }))
    };
    let by = |manager| ApplyOptions { part: Part::Status, ..ApplyOptions::declared_by(manager) };
    world.apply(status("Running", "Ready"), by("one")).await.expect("a status");
    world.apply(status("Running", "Healthy"), by("two")).await.expect("another condition");
    let clash = world.apply(status("Broken", "Healthy"), by("two")).await.expect_err("disputed");
    let owner = clash.conflicts()[0].owner();
    assert_eq!(owner, "\"one\" with subresource \"status\"");
    let object = world.get("a").await;
    assert_eq!(json_of(&object)["status"]["conditions"].as_array().map(Vec::len), Some(2));
    assert!(object.labels().is_empty() && object.generation() == 1);
    world.declare("me", json!({})).await.expect("the main part");
    assert_eq!(json_of(&world.get("a").await)["status"]["state"], "Running");
}

#[tokio::test]
async fn the_same_again_is_not_written() {
    let world = World::new().await;
    let spec = json!({"image": "x", "zones": ["a", "b"]});
    let first = world.declare("me", spec.clone()).await.expect("created").object;
    world.clock.advance(60);
    let again = world.declare("me", spec).await.expect("again");
    assert_eq!(again.outcome, Outcome::Unchanged);
    assert_eq!(world.get("a").await, first);
    let shared = world.declare("you", json!({"image": "x"})).await.expect("shared");
    assert_eq!(shared.outcome, Outcome::Changed, "there is another owner now");
    assert_eq!(shared.object.generation(), 1);
}

#[tokio::test]
async fn fragments_are_merged_before_they_are_judged() {
    let world = World::new().await;
    world.declare("me", json!({"fixed": "1", "replicas": 3})).await.expect("created");
    let mut label = world.read(json!({"metadata": {"name": "a", "project": PROJECT}}));
    label.update_meta(|meta| meta.labels.insert("k".into(), "v".into()));
    let labelled = world.apply(label, ApplyOptions::declared_by("labeller")).await;
    assert_eq!(labelled.expect("no spec needed").object.label("k"), Some("v"));
    let invalid = world.declare("you", json!({"nested": {"text": "x"}, "fixed": "2"})).await;
    assert_eq!(fields_in_conflict(invalid), ["me .spec.fixed"]);
    let force = ApplyOptions { force: true, ..ApplyOptions::declared_by("you") };
    let invalid = world.apply(world.gizmo("a", json!({"fixed": "2"})), force).await;
    assert_eq!(invalid.expect_err("immutable all the same").reason(), "Invalid");
}

#[tokio::test]
async fn an_apply_says_who_it_is_and_not_whose_fields_are() {
    let world = World::new().await;
    let refused = world.declare("", json!({})).await.expect_err("by nobody");
    let Error::Invalid { kind, violations, .. } = refused else { panic!("{refused}") };
    assert_eq!((kind.as_str(), violations[0].path.as_str()), ("PatchOptions", "fieldManager"));
    let long = world.declare(&"m".repeat(129), json!({})).await.expect_err("too long");
    assert_eq!(long.violations()[0].path, "fieldManager");
    let created: Object = world.declare("me", json!({"image": "x"})).await.expect("created").object;
    let mut forged = world.gizmo("a", json!({"image": "y"}));
    forged.update_meta(|meta| meta.managed_fields = created.meta().managed_fields);
    let refused = world.apply(forged, ApplyOptions::declared_by("you")).await;
    assert_eq!(refused.expect_err("forged").reason(), "BadRequest");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn managers_at_the_same_moment_all_get_their_fields() {
    let world = std::sync::Arc::new(World::new().await);
    let mut managers = tokio::task::JoinSet::new();
    for index in 0..8 {
        let world = world.clone();
        managers.spawn(async move {
            let (name, key) = (format!("m{index}"), format!("k{index}"));
            world.declare(&name, json!({"settings": {key: "1"}})).await
        });
    }
    for outcome in managers.join_all().await {
        outcome.expect("tried again until it fits");
    }
    assert_eq!(world.spec().await["settings"].as_object().map(|map| map.len()), Some(8));
    assert_eq!(world.get("a").await.meta().managed_fields.len(), 8);
}
