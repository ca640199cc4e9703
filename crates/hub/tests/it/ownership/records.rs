//! How ownership is written down.
use crate::support::{START, World, json_of};
use orrery_hub::ownership::{DEPTH_MAX, Managers};
use orrery_hub::{ApplyOptions, Merge};
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
    let by = |merge, manager: &str| ApplyOptions {
        merge,
        manager: manager.into(),
        ..ApplyOptions::default()
    };
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

#[tokio::test]
async fn managed_fields_in_a_replaced_object_change_nothing() {
    let world = World::new().await;
    let created = world.declare("me", json!({"image": "x"})).await.expect("created").object;
    let mut forged = created.clone();
    forged.update_meta(|meta| meta.managed_fields.clear());
    let options = ApplyOptions { merge: Merge::Replace, ..ApplyOptions::default() };
    world.apply(forged, options).await.expect("replaced");
    assert_eq!(world.get("a").await, created);
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
