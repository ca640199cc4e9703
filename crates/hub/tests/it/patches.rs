//! Merge patches and JSON patches.
use crate::support::{PROJECT, World, at, json_of};
use orrery_api::{JsonOptions, UnknownFields};
use orrery_hub::patch::{OPERATIONS_MAX, Patch, PatchOptions, Patched, patch};
use orrery_hub::{ApplyOptions, Error, ObjectName, Outcome, Part};
use prost::Message as _;
use serde_json::{Value, json};

impl World {
    async fn merge_with(&self, value: Value, options: PatchOptions) -> Result<Patched, Error> {
        let change = Patch::merge(value)?;
        patch(&*self.gizmos(), &at("a"), &change, &options).await
    }

    async fn merge(&self, value: Value) -> Result<Patched, Error> {
        self.merge_with(value, PatchOptions::default()).await
    }

    async fn json(&self, value: Value) -> Result<Patched, Error> {
        let change = Patch::json(value)?;
        patch(&*self.gizmos(), &at("a"), &change, &PatchOptions::default()).await
    }

    async fn start(spec: Value) -> Self {
        let world = Self::new().await;
        world.create(world.gizmo("a", spec)).await;
        world
    }
}

fn spec(patched: Patched) -> Value {
    json_of(&patched.applied.object)["spec"].clone()
}

#[tokio::test]
async fn a_merge_patch_replaces_adds_and_takes_away() {
    let before = json!({"image": "x", "settings": {"a": "1", "b": "2"}, "args": ["p", "q"]});
    let world = World::start(before).await;
    let change = json!({
        "metadata": {"annotations": {}, "labels": {"k": "v"}},
        "spec": {"image": null, "settings": {"a": null, "c": "3"}, "args": ["r"], "replicas": 7},
    });
    let patched = world.merge(change).await.expect("it fits");
    assert_eq!(patched.applied.object.label("k"), Some("v"));
    assert_eq!(json_of(&patched.applied.object)["metadata"].get("annotations"), None);
    let expected = json!({"replicas": 7, "settings": {"b": "2", "c": "3"}, "args": ["r"]});
    assert_eq!(spec(patched), expected);
    assert_eq!(world.get("a").await.generation(), 2);
    let nothing = world.merge(json!({"spec": {"replicas": 7}})).await.expect("nothing to do");
    assert_eq!(nothing.applied.outcome, Outcome::Unchanged);
    let defaulted = world.merge(json!({"spec": {"replicas": null}})).await.expect("it fits");
    assert_eq!(spec(defaulted)["replicas"], 1, "what is taken away gets its default again");
}

#[tokio::test]
async fn a_json_patch_does_all_or_nothing() {
    let world = World::start(json!({"image": "x", "args": ["p"]})).await;
    let done = world.json(json!([
        {"op": "test", "path": "/spec/image", "value": "x"},
        {"op": "add", "path": "/spec/args/-", "value": "q"},
        {"op": "copy", "from": "/spec/args/1", "path": "/spec/args/0"},
        {"op": "move", "from": "/spec/image", "path": "/spec/fixed"},
        {"op": "replace", "path": "/spec/replicas", "value": 3},
        {"op": "remove", "path": "/spec/args/1"},
    ]));
    let expected = json!({"replicas": 3, "args": ["q", "q"], "fixed": "x"});
    assert_eq!(spec(done.await.expect("it fits")), expected);
    let refused = world.json(json!([
        {"op": "replace", "path": "/spec/replicas", "value": 4},
        {"op": "test", "path": "/spec/replicas", "value": 5},
    ]));
    let refused = refused.await.expect_err("the test fails");
    assert_eq!(refused.reason(), "Invalid");
    let text = "Gizmo \"a\" is invalid: spec.replicas: operation 1 of the patch (test) failed: value \
                did not match";
    assert_eq!(refused.to_string(), text);
    assert_eq!(json_of(&world.get("a").await)["spec"]["replicas"], 3);
}

#[tokio::test]
async fn what_cannot_be_done_is_told_clearly() {
    let world = World::start(json!({"image": "x"})).await;
    let reason = |outcome: Result<Patched, Error>| outcome.expect_err("refused").reason();
    assert_eq!(reason(world.merge(json!([1])).await), "BadRequest");
    assert_eq!(reason(world.json(json!({"spec": {}})).await), "BadRequest");
    assert_eq!(reason(world.json(json!([{"op": "rub", "path": "/"}])).await), "BadRequest");
    let absent = json!([{"op": "remove", "path": "/spec/args"}]);
    assert_eq!(reason(world.json(absent).await), "Invalid");
    let many = vec![json!({"op": "test", "path": "/kind", "value": "Gizmo"}); OPERATIONS_MAX + 1];
    assert_eq!(reason(world.json(json!(many)).await), "RequestEntityTooLarge");
    assert_eq!(reason(world.merge(json!({"spec": {"replicas": "two"}})).await), "Invalid");
    assert_eq!(reason(world.merge(json!({"spec": {"replicas": 101}})).await), "Invalid");
    assert_eq!(reason(world.merge(json!({"metadata": {"name": "b"}})).await), "Invalid");
    assert_eq!(reason(world.merge(json!({"metadata": {"project": "b"}})).await), "Invalid");
    assert_eq!(reason(world.merge(json!({"kind": "Rack"})).await), "Invalid");
    let change = Patch::merge(json!({})).expect("a patch");
    let missing = patch(&*world.gizmos(), &at("none"), &change, &PatchOptions::default()).await;
    assert_eq!(reason(missing), "NotFound");
    let nowhere = ObjectName::new("nowhere", "a");
    let missing = patch(&*world.gizmos(), &nowhere, &change, &PatchOptions::default()).await;
    assert_eq!(reason(missing), "NotFound");
}

#[tokio::test]
async fn copies_of_copies_do_not_fill_the_memory() {
    let world = World::start(json!({"args": ["0123456789abcdef"]})).await;
    let copy = json!({"op": "copy", "from": "/spec/args", "path": "/spec/args/0"});
    let refused = world.json(json!(vec![copy; 64])).await.expect_err("it would double each time");
    assert_eq!(refused.reason(), "RequestEntityTooLarge");
}

#[tokio::test]
async fn unknown_fields_are_refused_or_left_out_as_asked() {
    let world = World::start(json!({"image": "x"})).await;
    let change = json!({"spec": {"replicaz": 2, "replicas": 2}});
    let refused = world.merge(change.clone()).await.expect_err("strict");
    assert_eq!(refused.reason(), "BadRequest");
    let text = refused.to_string();
    assert!(text.starts_with("strict decoding error: unknown field \"spec.replicaz\""), "{text}");
    let lenient = PatchOptions { unknown_fields: UnknownFields::Drop, ..PatchOptions::default() };
    let patched = world.merge_with(change, lenient).await.expect("lenient");
    assert_eq!(patched.warnings.len(), 1);
    assert_eq!(spec(patched)["replicas"], 2);
}

#[tokio::test]
async fn a_patch_may_name_the_revision_it_is_for() {
    let world = World::start(json!({"image": "x"})).await;
    let version = world.get("a").await.resource_version().to_owned();
    let change = |version: &str, image: &str| json!({"metadata": {"resourceVersion": version}, "spec": {"image": image}});
    world.merge(change(&version, "y")).await.expect("it is current");
    let stale = world.merge(change(&version, "z")).await.expect_err("it is not any more");
    assert!(matches!(stale, Error::Conflict { .. }), "{stale}");
    world.merge(change("", "w")).await.expect("no revision is any revision");
}

#[tokio::test]
async fn each_part_is_patched_for_itself() {
    let world = World::start(json!({"image": "x"})).await;
    let both = json!({"spec": {"image": "y"}, "status": {"state": "Running"}});
    let status = PatchOptions { part: Part::Status, ..PatchOptions::default() };
    let patched = world.merge_with(both.clone(), status).await.expect("a status");
    let object = json_of(&patched.applied.object);
    assert_eq!(
        (&object["spec"]["image"], &object["status"]["state"]),
        (&json!("x"), &json!("Running"))
    );
    let other = json!({"spec": {"image": "y"}, "status": {"state": "Broken"}});
    let object = json_of(&world.merge(other).await.expect("a spec").applied.object);
    assert_eq!(
        (&object["spec"]["image"], &object["status"]["state"]),
        (&json!("y"), &json!("Running"))
    );
}

#[tokio::test]
async fn clients_of_the_other_dialect_patch_a_namespace() {
    let world = World::start(json!({"image": "x"})).await;
    let options = PatchOptions { json: JsonOptions::rest(), ..PatchOptions::default() };
    let change = Patch::json(json!([
        {"op": "test", "path": "/metadata/namespace", "value": PROJECT},
        {"op": "replace", "path": "/spec/image", "value": "y"},
    ]));
    let change = change.expect("a patch");
    let patched = patch(&*world.gizmos(), &at("a"), &change, &options).await.expect("it fits");
    assert_eq!(spec(patched)["image"], "y");
}

#[tokio::test]
async fn a_patch_takes_the_fields_it_changes_and_a_dry_run_none() {
    let world = World::new().await;
    let declared = world.gizmo("a", json!({"image": "x"}));
    world.apply(declared, ApplyOptions::declared_by("me")).await.expect("declared");
    let by = |dry_run| PatchOptions { manager: "you".into(), dry_run, ..PatchOptions::default() };
    let change = json!({"spec": {"image": "y"}});
    world.merge_with(change.clone(), by(true)).await.expect("a dry run");
    assert_eq!(json_of(&world.get("a").await)["spec"]["image"], "x");
    world.merge_with(change, by(false)).await.expect("patched");
    let again = world.gizmo("a", json!({"image": "x"}));
    let error = world.apply(again, ApplyOptions::declared_by("me")).await.expect_err("taken");
    assert_eq!(error.conflicts()[0].manager, "you");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn patches_at_the_same_moment_all_count() {
    let world = std::sync::Arc::new(World::start(json!({})).await);
    let mut writers = tokio::task::JoinSet::new();
    for index in 0..8 {
        let world = world.clone();
        let key = format!("k{index}");
        writers.spawn(async move { world.merge(json!({"spec": {"settings": {key: "1"}}})).await });
    }
    for outcome in writers.join_all().await {
        outcome.expect("patched again until it fits");
    }
    let settings = json_of(&world.get("a").await)["spec"]["settings"].clone();
    assert_eq!(settings.as_object().map(|map| map.len()), Some(8));
}

/// What a newer server wrote and this one does not know is kept, at every level.
#[tokio::test]
async fn a_patch_keeps_what_it_does_not_understand() {
    let world = World::new().await;
    let ports = json!([{"name": "http", "number": 80}]);
    let object = world.gizmo("a", json!({"nested": {"text": "x"}, "ports": ports}));
    let mut object = object;
    // Field 500 with the number 7.
    let unknown = [0xa0, 0x1f, 0x07];
    object.edit_message(|message| {
        let spec = message.get_field_by_name_mut("spec").and_then(|v| v.as_message_mut());
        let spec = spec.expect("a spec");
        spec.merge(unknown.as_slice()).expect("a field");
        let nested = spec.get_field_by_name_mut("nested").and_then(|v| v.as_message_mut());
        nested.expect("a message").merge(unknown.as_slice()).expect("a field");
        let ports = spec.get_field_by_name_mut("ports").and_then(|v| v.as_list_mut());
        let port = ports.and_then(|ports| ports[0].as_message_mut()).expect("a port");
        port.merge(unknown.as_slice()).expect("a field");
    });
    world.create(object).await;
    let count = |object: &orrery_api::Object| {
        object.encode().windows(3).filter(|window| *window == unknown).count()
    };
    assert_eq!(count(&world.get("a").await), 3);
    world.merge(json!({"spec": {"image": "y", "nested": {"number": 1}}})).await.expect("patched");
    assert_eq!(count(&world.get("a").await), 3);
    let declared = world.gizmo("a", json!({"nested": {"inner": {}}}));
    world.apply(declared, ApplyOptions::declared_by("me")).await.expect("declared");
    assert_eq!(count(&world.get("a").await), 3);
}

/// Items without a key are known by being as they were, and by their place between those.
#[tokio::test]
async fn a_patch_keeps_what_it_does_not_understand_in_lists_without_keys() {
    let world = World::new().await;
    let rule = |verb: &str| json!({"resources": ["secrets"], "verbs": [verb]});
    let rules = [rule("get"), rule("list"), rule("watch")];
    let metadata = json!({"name": "a", "project": PROJECT});
    let mut role =
        world.read(json!({"kind": "Role", "metadata": metadata, "spec": {"rules": rules}}));
    role.edit_message(|message| {
        let spec = message.get_field_by_name_mut("spec").and_then(|v| v.as_message_mut());
        let rules = spec.and_then(|spec| spec.get_field_by_name_mut("rules")?.as_list_mut());
        for (index, rule) in rules.expect("rules").iter_mut().enumerate() {
            // Field 500 with a number for each.
            let unknown = [0xa0, 0x1f, u8::try_from(index).expect("few")];
            rule.as_message_mut().expect("a rule").merge(unknown.as_slice()).expect("a field");
        }
    });
    let roles = world.accessor("Role");
    let created = roles.apply(role, ApplyOptions::create()).await.expect("created").object;
    let kept = |object: &orrery_api::Object| -> Vec<u8> {
        let bytes = object.encode();
        bytes.windows(3).filter(|window| window[..2] == [0xa0, 0x1f]).map(|w| w[2]).collect()
    };
    assert_eq!(kept(&created), [0, 1, 2]);
    let cases = [
        (json!([{"op": "add", "path": "/metadata/labels", "value": {"x": "y"}}]), vec![0, 1, 2]),
        (json!([{"op": "add", "path": "/spec/rules/-", "value": rule("create")}]), vec![0, 1, 2]),
        (json!([{"op": "add", "path": "/spec/rules/0", "value": rule("patch")}]), vec![0, 1, 2]),
        (
            json!([{"op": "replace", "path": "/spec/rules/2/verbs", "value": ["delete"]}]),
            vec![0, 1, 2],
        ),
        (json!([{"op": "remove", "path": "/spec/rules/1"}]), vec![1, 2]),
        (
            json!([
                {"op": "replace", "path": "/spec/rules/1/verbs", "value": ["update"]},
                {"op": "add", "path": "/spec/rules/-", "value": rule("create")},
            ]),
            vec![1, 2],
        ),
        (json!([{"op": "move", "from": "/spec/rules/2", "path": "/spec/rules/0"}]), vec![2, 1]),
        // Which of the two was changed and which one went, nobody can tell.
        (
            json!([
                {"op": "replace", "path": "/spec/rules/2/verbs", "value": ["list"]},
                {"op": "remove", "path": "/spec/rules/1"},
            ]),
            vec![2],
        ),
        (json!([{"op": "replace", "path": "/spec/rules", "value": [rule("get")]}]), vec![]),
    ];
    for (change, expect) in cases {
        let text = change.to_string();
        let change = Patch::json(change).expect("a patch");
        let patched = patch(&*roles, &at("a"), &change, &PatchOptions::default()).await;
        assert_eq!(kept(&patched.expect("patched").applied.object), expect, "{text}");
    }
}
