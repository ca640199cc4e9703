//! Lists: in pages, true at one revision, selected.
use crate::support::{PROJECT, World, at, fields, labels};
use orrery_hub::{ApplyOptions, Error, ListOptions};
use serde_json::json;

async fn world_of(names: &[&str]) -> World {
    let world = World::new().await;
    for name in names {
        world.create(world.gizmo(name, json!({"image": name}))).await;
    }
    world
}

fn all() -> ListOptions {
    ListOptions { project: Some(PROJECT.into()), ..ListOptions::default() }
}

/// proves: HUB-06
#[tokio::test]
async fn pages_are_parts_of_one_moment() {
    let world = world_of(&["a", "b", "c", "d", "e"]).await;
    let page = |token: Option<String>| {
        let (gizmos, options) =
            (world.gizmos(), ListOptions { limit: 2, continue_from: token, ..all() });
        async move { gizmos.list(options).await.expect("a page") }
    };
    let first = page(None).await;
    world.gizmos().delete(at("d").into()).await.expect("deleted");
    world.create(world.gizmo("cc", json!({}))).await;
    let second = page(first.continue_from.clone()).await;
    let third = page(second.continue_from.clone()).await;
    let names: Vec<String> = [&first, &second, &third]
        .iter()
        .flat_map(|page| page.items.iter().map(|item| item.name().to_owned()))
        .collect();
    assert_eq!(names, ["a", "b", "c", "d", "e"], "the list is true at its first revision");
    assert!(first.revision == third.revision && third.continue_from.is_none());
    assert_eq!(world.names(all()).await, ["a", "b", "c", "cc", "e"]);
}

#[tokio::test]
async fn a_page_that_takes_all_has_no_next() {
    let world = world_of(&["a", "b"]).await;
    let page = world.gizmos().list(ListOptions { limit: 2, ..all() }).await.expect("a page");
    assert_eq!((page.items.len(), page.continue_from), (2, None));
}

#[tokio::test]
async fn a_token_that_is_too_old_or_foreign_is_told_so() {
    let world = world_of(&["a", "b", "c"]).await;
    let options = || ListOptions { limit: 1, ..all() };
    let first = world.gizmos().list(options()).await.expect("a page");
    let token = first.continue_from.expect("there is more");
    let with = |token: &str| ListOptions { continue_from: Some(token.into()), ..options() };
    world.create_project("other").await;
    let foreign = ListOptions { project: Some("other".into()), ..with(&token) };
    let error = world.gizmos().list(foreign).await.expect_err("of another list");
    assert_eq!(error.reason(), "BadRequest");
    let error = world.gizmos().list(with("junk")).await.expect_err("no token");
    assert_eq!(error.reason(), "BadRequest");
    let now = world.hub.store().revision();
    world.hub.store().compact(now).await.expect("compacted");
    let error = world.gizmos().list(with(&token)).await.expect_err("too old");
    assert!(matches!(error, Error::Expired { .. }) && error.reason() == "Expired", "{error}");
}

#[tokio::test]
async fn lists_select_by_labels_and_fields() {
    let world = world_of(&["a", "b"]).await;
    let mut labelled = world.gizmo("c", json!({"image": "a"}));
    labelled.update_meta(|meta| meta.labels.insert("tier".into(), "front".into()));
    world.create(labelled).await;
    let kind = world.kind("Gizmo");
    let by_label = |text| ListOptions { labels: labels(text), ..all() };
    let by_field = |text| ListOptions { fields: fields(text, &kind), ..all() };
    assert_eq!(world.names(by_label("tier=front")).await, ["c"]);
    assert_eq!(world.names(by_label("tier!=front")).await, ["a", "b"]);
    assert_eq!(world.names(by_field("spec.image=a")).await, ["a", "c"]);
    assert_eq!(world.names(by_field("metadata.name=b")).await, ["b"]);
    assert_eq!(world.names(by_field("metadata.project=demo,spec.image!=a")).await, ["b"]);
    assert_eq!(world.names(by_field("metadata.namespace=nowhere")).await, [""; 0]);
    assert_eq!(world.names(by_field("metadata.namespace!=demo")).await, [""; 0]);
    let paged = ListOptions { limit: 1, ..by_field("spec.image=a") };
    let page = world.gizmos().list(paged).await.expect("a page");
    assert!(page.items[0].name() == "a" && page.continue_from.is_some());
}

#[tokio::test]
async fn without_a_project_all_are_listed() {
    let world = world_of(&["b"]).await;
    world.create_project("other").await;
    let object = world.read(json!({"metadata": {"name": "a", "project": "other"}}));
    world.apply(object, ApplyOptions::create()).await.expect("created");
    let page = world.gizmos().list(ListOptions::default()).await.expect("a list");
    let mut found: Vec<(&str, &str)> =
        page.items.iter().map(|item| (item.project(), item.name())).collect();
    found.sort_unstable();
    assert_eq!(found, [("demo", "b"), ("other", "a")]);
}
