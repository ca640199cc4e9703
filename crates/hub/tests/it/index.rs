//! What is found by an index is what looking at everything would have found.
use crate::support::{PROJECT, World, at, fields, labels};
use orrery_api::{FieldSelector, LabelSelector, Object};
use orrery_hub::{ApplyOptions, ListOptions, WatchOptions};
use proptest::prelude::*;
use serde_json::json;
use std::collections::BTreeSet;

/// One change of one of a few objects.
#[derive(Clone, Debug)]
enum Change {
    Put { name: u8, app: Option<u8>, tier: Option<u8> },
    State { name: u8, state: u8 },
    Delete { name: u8 },
}

fn change() -> impl Strategy<Value = Change> {
    let name = 0..6u8;
    prop_oneof![
        4 => (name.clone(), prop::option::of(0..3u8), prop::option::of(0..2u8))
            .prop_map(|(name, app, tier)| Change::Put { name, app, tier }),
        2 => (name.clone(), 0..3u8).prop_map(|(name, state)| Change::State { name, state }),
        1 => name.prop_map(|name| Change::Delete { name }),
    ]
}

const LABELS: [&str; 8] =
    ["", "app=v0", "app in (v0, v2)", "app=v1,tier=v0", "tier!=v0", "app", "!app,tier=v1", "app="];
const FIELDS: [&str; 6] = [
    "",
    "status.state=s1",
    "status.state!=s1",
    "status.state=",
    "metadata.name=n3",
    "metadata.project=demo",
];

async fn make(world: &World, change: Change) {
    match change {
        Change::Put { name, app, tier } => {
            let value = |value: Option<u8>| value.map(|value| format!("v{value}"));
            let pairs = [("app", value(app)), ("tier", value(tier))];
            let labels: serde_json::Map<_, _> = pairs
                .into_iter()
                .filter_map(|(key, value)| Some((key.to_owned(), json!(value?))))
                .collect();
            let metadata =
                json!({"name": format!("n{name}"), "project": PROJECT, "labels": labels});
            let object = world.read(json!({"metadata": metadata, "spec": {}}));
            world.apply(object, ApplyOptions::default()).await.expect("applied");
        }
        Change::State { name, state } => {
            let metadata = json!({"name": format!("n{name}"), "project": PROJECT});
            let status = json!({"state": format!("s{state}")});
            let object = world.read(json!({"metadata": metadata, "status": status}));
            // It may not be there.
            let _ = world.apply(object, ApplyOptions::status()).await;
        }
        Change::Delete { name } => {
            let _ = world.gizmos().delete(at(&format!("n{name}")).into()).await;
        }
    }
}

/// Every object, looked at one by one.
async fn scanned(
    world: &World,
    labels: &LabelSelector,
    fields: &FieldSelector,
    about_project: bool,
) -> Vec<String> {
    let all = world.gizmos().list(ListOptions::default()).await.expect("listed").items;
    let fits =
        |object: &&Object| labels.matches(object) && (about_project || fields.matches(object));
    all.iter().filter(fits).map(|object| object.name().to_owned()).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 6, ..ProptestConfig::default() })]

    #[test]
    fn an_index_finds_what_a_scan_finds(changes in prop::collection::vec(change(), 1..24)) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        runtime.expect("a runtime").block_on(compare(changes));
    }
}

async fn compare(changes: Vec<Change>) {
    let world = World::new().await;
    for change in changes {
        make(&world, change).await;
    }
    let kind = world.kind("Gizmo");
    for label_text in LABELS {
        for field_text in FIELDS {
            let (labels, fields) = (labels(label_text), fields(field_text, &kind));
            // The stored view knows projects by id; every object here is in the one that is asked for.
            let about_project = field_text.starts_with("metadata.project");
            let expected = scanned(&world, &labels, &fields, about_project).await;
            let options = ListOptions {
                labels: labels.clone(),
                fields: fields.clone(),
                ..ListOptions::default()
            };
            let selectors = format!("{label_text:?} {field_text:?}");
            assert_eq!(world.names(options.clone()).await, expected, "{selectors}");
            assert_eq!(paged(&world, options).await, expected, "{selectors} in pages");
            let watched =
                initial(&world, WatchOptions { labels, fields, ..WatchOptions::default() });
            assert_eq!(watched.await, expected, "{selectors} as a watch begins");
        }
    }
}

/// The same in pages of one, with changes in between that must not show.
async fn paged(world: &World, options: ListOptions) -> Vec<String> {
    let mut found = Vec::new();
    let mut continue_from = None;
    let before = world.gizmos().list(ListOptions::default()).await.expect("listed").items;
    loop {
        let options = ListOptions { limit: 1, continue_from, ..options.clone() };
        let page = world.gizmos().list(options).await.expect("listed");
        found.extend(page.items.iter().map(|object| object.name().to_owned()));
        if page.continue_from.is_none() {
            return found;
        }
        continue_from = page.continue_from;
        for object in &before {
            let noise = json!({
                "metadata": {"name": object.name(), "project": PROJECT, "labels": object.labels(),
                    "annotations": {"page": found.len().to_string()}},
                "spec": {},
            });
            world.apply(world.read(noise), ApplyOptions::default()).await.expect("applied");
        }
    }
}

async fn initial(world: &World, options: WatchOptions) -> Vec<String> {
    let mut watched = world.watch(options).await;
    let mut found = BTreeSet::new();
    loop {
        match watched.next().await.split_at(1) {
            ("*", _) => return found.into_iter().collect(),
            (_, name) => drop(found.insert(name.to_owned())),
        }
    }
}
