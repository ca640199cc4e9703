//! How ownership is written down.
use crate::support::{START, World, json_of};
use orrery_api::Object;
use orrery_hub::ownership::{DEPTH_MAX, Managers};
use orrery_hub::{ApplyOptions, Merge, Outcome};
use orrery_proto::meta::v1::ManagedFieldsEntry;
use serde_json::{Value, json};

/// proves: HUB-04
#[tokio::test]
async fn clients_see_the_managers_in_the_form_they_know() {
    let world = World::new().await;
    let spec = json!({
        "image": "x", "settings": {"a.b/c": "1"}, "zones": ["p"],
        "ports": [{"name": "http", "number": 80}], "steam": {},
    });
    let created = world.declare("me", spec).await.expect("created").object;
    let expected = json!([{
        "manager": "me", "operation": "Apply", "apiVersion": "fixture.orrery.dev/v1",
        "time": "2023-11-14T22:13:20Z", "fieldsType": "FieldsV1",
        "fieldsV1": {"f:spec": {
            "f:image": {}, "f:settings": {"f:a.b/c": {}}, "f:zones": {"v:\"p\"": {}},
            "f:ports": {"k:{\"name\":\"http\"}": {".": {}, "f:name": {}, "f:number": {}}},
            "f:steam": {},
        }},
    }]);
    assert_eq!(START, 1_700_000_000);
    assert_eq!(json_of(&created)["metadata"]["managedFields"], expected);
}

#[tokio::test]
async fn an_update_records_what_it_changed_and_when() {
    let world = World::new().await;
    world
        .apply(world.gizmo("a", json!({"image": "x"})), by(Merge::Replace, "creator"))
        .await
        .expect("created");
    world.clock.advance(60);
    let changed = world.gizmo("a", json!({"image": "y"}));
    let changed = world.apply(changed, by(Merge::Replace, "editor")).await.expect("edited");
    let entries = json_of(&changed.object)["metadata"]["managedFields"].clone();
    let short = |entry: &Value| {
        let field = |name: &str| entry[name].as_str().unwrap_or_default().to_owned();
        (field("manager"), field("time"), entry["fieldsV1"]["f:spec"].clone())
    };
    let expected = [
        ("creator".into(), "2023-11-14T22:13:20Z".into(), json!({"f:replicas": {}})),
        ("editor".into(), "2023-11-14T22:14:20Z".into(), json!({"f:image": {}})),
    ];
    let found: Vec<_> = entries.as_array().expect("a list").iter().map(short).collect();
    assert_eq!(found, expected);
}

/// Whoever replaces an object and does not know of managers leaves them as they are; so does whoever
/// names them in a way that cannot be read.
#[tokio::test]
async fn managers_stay_where_nothing_is_said_of_them() {
    let world = World::new().await;
    let created = world.declare("me", json!({"image": "x"})).await.expect("created").object;
    let unreadable = |entry: &ManagedFieldsEntry| {
        [
            ManagedFieldsEntry { operation: "Guess".into(), ..entry.clone() },
            ManagedFieldsEntry { fields_type: "FieldsV0".into(), ..entry.clone() },
            ManagedFieldsEntry { manager: "x".repeat(129), ..entry.clone() },
            ManagedFieldsEntry { fields_v1: vec![0xff].into(), ..entry.clone() },
        ]
    };
    let entry = created.meta().managed_fields[0].clone();
    let said = unreadable(&entry).map(|entry| vec![entry]);
    for said in said.into_iter().chain([Vec::new(), vec![ManagedFieldsEntry::default(); 2]]) {
        for manager in ["", "editor"] {
            let mut given = created.clone();
            given.update_meta(|meta| meta.managed_fields.clone_from(&said));
            world.apply(given, by(Merge::Replace, manager)).await.expect("replaced");
            assert_eq!(world.get("a").await, created, "{said:?}");
        }
    }
}

#[tokio::test]
async fn whoever_updates_may_say_who_holds_which_field() {
    let world = World::new().await;
    let created = world.declare("me", json!({"image": "x"})).await.expect("created").object;
    // One empty entry: nobody does, but for what is changed at once.
    let mut given = created.clone();
    given.update_meta(|meta| meta.managed_fields = vec![ManagedFieldsEntry::default()]);
    let reset = world.apply(given, by(Merge::Replace, "editor")).await.expect("reset");
    assert_eq!((reset.outcome, reset.object.is_managed()), (Outcome::Changed, false));
    assert_eq!(reset.object.generation(), created.generation());
    let mut changed = world.gizmo("a", json!({"image": "y"}));
    changed.update_meta(|meta| meta.managed_fields = vec![ManagedFieldsEntry::default()]);
    let changed = world.apply(changed, by(Merge::Replace, "editor")).await.expect("changed").object;
    let shown = |object: &Object| -> Vec<String> {
        let managers = Managers::of(object).entries;
        managers
            .iter()
            .map(|entry| format!("{} {}", entry.manager.name, entry.fields.paths().join(" ")))
            .collect()
    };
    assert_eq!(shown(&changed), ["editor .spec.image"]);
    // As kubectl does it when it changes sides: the same fields under another name.
    let mut renamed = changed.clone();
    renamed.update_meta(|meta| meta.managed_fields[0].manager = "other".into());
    let renamed = world.apply(renamed, by(Merge::Replace, "editor")).await.expect("renamed").object;
    assert_eq!(shown(&renamed), ["other .spec.image"]);
    // A part of an object has no say in it.
    let mut part = renamed.clone();
    part.update_meta(|meta| meta.managed_fields = vec![ManagedFieldsEntry::default()]);
    let options = ApplyOptions { manager: "editor".into(), ..ApplyOptions::status() };
    world.apply(part, options).await.expect("nothing to do");
    assert_eq!(shown(&world.get("a").await), ["other .spec.image"]);
}

fn by(merge: Merge, manager: &str) -> ApplyOptions {
    ApplyOptions { merge, manager: manager.into(), ..ApplyOptions::default() }
}

#[tokio::test]
async fn many_one_time_tools_do_not_fill_an_object() {
    let world = World::new().await;
    for index in 0..30 {
        world.clock.advance(1);
        let mut settings = json!({});
        for done in 0..=index {
            settings[format!("k{done}")] = json!("1");
        }
        let manager = format!("tool-{index}");
        let options = ApplyOptions { merge: Merge::Replace, manager, ..ApplyOptions::default() };
        let object = world.gizmo("a", json!({"settings": settings}));
        world.apply(object, options).await.expect("written");
    }
    let managers = Managers::of(&world.get("a").await);
    let names: Vec<&str> = managers.entries.iter().map(|e| e.manager.name.as_str()).collect();
    assert_eq!(names.len(), 10);
    assert!(names.contains(&"ancient-changes") && names.contains(&"tool-29"), "{names:?}");
    let owned: usize = managers.entries.iter().map(|entry| entry.fields.paths().len()).sum();
    assert_eq!(owned, 31, "no field lost its owner");
}

#[tokio::test]
async fn what_lies_deep_is_one_value_and_can_be_read_again() {
    let world = World::new().await;
    let mut nested = json!({"text": "bottom"});
    for _ in 0..60 {
        nested = json!({"inner": nested});
    }
    let applied = world.declare("me", json!({"nested": nested})).await.expect("stored");
    let again = world.get("a").await;
    assert_eq!(again, applied.object);
    let paths = Managers::of(&again).entries[0].fields.paths();
    let depth = |path: &String| path.matches('.').count();
    assert_eq!(paths.iter().map(depth).collect::<Vec<_>>(), [DEPTH_MAX]);
}
