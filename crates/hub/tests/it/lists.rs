//! Lists: in pages, true at one revision, selected.
use crate::support::{PROJECT, World, at, fields, labels};
use orrery_hub::{ApplyOptions, Error, ListOptions, ObjectName, Page};
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
    assert_eq!(error.reason(), "Expired", "{error}");
    let Error::Expired { resume: Some(resume), .. } = error else { panic!("it can go on") };
    // What was changed meanwhile is seen as it is now, and the list is of one moment again.
    world.gizmos().delete(at("b").into()).await.expect("deleted");
    world.create(world.gizmo("bb", json!({}))).await;
    let second = world.gizmos().list(with(&resume)).await.expect("a page");
    assert_eq!((second.items[0].name(), second.remaining), ("bb", None));
    assert_eq!(second.revision, world.hub.store().revision());
    world.gizmos().delete(at("c").into()).await.expect("deleted");
    let token = second.continue_from.expect("there is more");
    let third = world.gizmos().list(with(&token)).await.expect("a page");
    assert_eq!((third.items[0].name(), third.revision), ("c", second.revision));
}

/// Gizmos in several projects: the ids of projects are in no order.
async fn in_projects(projects: &[&str]) -> World {
    let world = World::new().await;
    for project in projects {
        world.create_project(project).await;
        for name in ["b", "a", "c"] {
            world.create(in_project(&world, project, name)).await;
        }
    }
    world
}

fn in_project(world: &World, project: &str, name: &str) -> orrery_api::Object {
    world.read(json!({"metadata": {"name": name, "project": project}}))
}

fn places(page: &Page) -> Vec<String> {
    page.items.iter().map(|item| format!("{}/{}", item.project(), item.name())).collect()
}

async fn next(world: &World, options: ListOptions) -> Page {
    world.gizmos().list(options).await.expect("a page")
}

/// All parts of a list, and what each says is left. Before each part but the first, `meanwhile` is
/// done to the world.
async fn in_parts(
    world: &World,
    options: ListOptions,
    mut meanwhile: impl AsyncFnMut(&World, usize),
) -> (Vec<String>, Vec<Option<u64>>) {
    let (mut found, mut left) = (Vec::new(), Vec::new());
    let mut page = next(world, options.clone()).await;
    let revision = page.revision;
    loop {
        assert!(page.revision == revision && page.items.len() <= options.limit);
        found.extend(places(&page));
        left.push(page.remaining);
        let Some(token) = page.continue_from else { return (found, left) };
        meanwhile(world, left.len()).await;
        let options = ListOptions { continue_from: Some(token), ..options.clone() };
        page = next(world, options).await;
    }
}

#[tokio::test]
async fn parts_of_all_projects_follow_the_names_of_projects() {
    let projects = ["p4", "p1", "p3", "p0", "p2"];
    let world = in_projects(&projects).await;
    let whole = places(&next(&world, ListOptions::default()).await);
    let mut expect: Vec<String> =
        projects.iter().flat_map(|p| ["a", "b", "c"].map(|name| format!("{p}/{name}"))).collect();
    expect.sort_unstable();
    assert_eq!(whole, expect);
    for limit in 1..=16 {
        let options = ListOptions { limit, ..ListOptions::default() };
        let (found, left) = in_parts(&world, options, async |_, _| {}).await;
        assert_eq!(found, expect, "in parts of {limit}");
        let count = |page: usize| 15_u64.checked_sub(u64::try_from(limit * page).unwrap());
        let counts = (1..=left.len()).map(|page| count(page).filter(|left| 0 < *left));
        assert_eq!(left, counts.collect::<Vec<_>>(), "in parts of {limit}");
    }
}

#[tokio::test]
async fn parts_of_all_projects_are_of_one_moment() {
    let world = in_projects(&["p2", "p1", "p3"]).await;
    let expect = places(&next(&world, ListOptions::default()).await);
    let options = ListOptions { limit: 2, ..ListOptions::default() };
    let (found, _) = in_parts(&world, options, async |world, part| {
        // Before, at and after the place where the list has come to.
        world.create(in_project(world, "p1", &format!("new-{part}"))).await;
        world.create_project(&format!("p1-{part}")).await;
        world.create(in_project(world, &format!("p1-{part}"), "a")).await;
        let doomed = ObjectName::new("p3", ["a", "b", "c"][part % 3]);
        let _ = world.gizmos().delete(doomed.into()).await;
    })
    .await;
    assert_eq!(found, expect);
}

#[tokio::test]
async fn parts_of_all_projects_are_selected() {
    let world = in_projects(&["p2", "p1", "p3"]).await;
    for (project, name) in [("p3", "x"), ("p1", "y"), ("p1", "x"), ("p2", "z")] {
        let mut gizmo = in_project(&world, project, name);
        gizmo.update_meta(|meta| meta.labels.insert("tier".into(), "front".into()));
        world.create(gizmo).await;
    }
    let (kind, limit) = (world.kind("Gizmo"), 1);
    let by_label = ListOptions { labels: labels("tier=front"), limit, ..ListOptions::default() };
    let (found, left) = in_parts(&world, by_label, async |_, _| {}).await;
    assert_eq!((found.join(" ").as_str(), left), ("p1/x p1/y p2/z p3/x", vec![None; 4]));
    let by_two = labels("tier in (front, back),tier!=back");
    let by_two = ListOptions { labels: by_two, limit: 3, ..ListOptions::default() };
    assert_eq!(in_parts(&world, by_two, async |_, _| {}).await.0.len(), 4);
    let by_name = fields("metadata.name=x", &kind);
    let by_name = ListOptions { fields: by_name, limit, ..ListOptions::default() };
    assert_eq!(in_parts(&world, by_name, async |_, _| {}).await.0, ["p1/x", "p3/x"]);
}

/// Nothing is lost because its project is: it stands at the end.
#[tokio::test]
async fn what_is_left_of_a_project_is_listed_too() {
    let world = in_projects(&["p1", "p3", "p2"]).await;
    for name in ["p1", "p3"] {
        let key = format!("objects/core/Project/system/{name}");
        let entry = world.hub.store().get(&key).await.expect("a store").expect("a project");
        let gone = orrery_store::Op::delete(key, entry.modified);
        world.hub.store().commit(vec![gone]).await.expect("deleted");
    }
    for limit in [1, 2, 4] {
        let options = ListOptions { limit, ..ListOptions::default() };
        let (found, _) = in_parts(&world, options, async |_, _| {}).await;
        assert_eq!(found[..3], ["p2/a", "p2/b", "p2/c"], "in parts of {limit}");
        let mut strays = found[3..].to_vec();
        strays.sort_unstable();
        assert_eq!(strays, ["p1/a", "p1/b", "p1/c", "p3/a", "p3/b", "p3/c"], "in parts of {limit}");
    }
}

/// A token says which list it is of.
#[tokio::test]
async fn a_token_of_all_projects_is_not_one_of_a_project() {
    let world = in_projects(&["p1", "p2"]).await;
    let everywhere = || ListOptions { limit: 1, ..ListOptions::default() };
    let in_one = || ListOptions { project: Some("p1".into()), ..everywhere() };
    let token = next(&world, everywhere()).await.continue_from;
    let error = world.gizmos().list(ListOptions { continue_from: token, ..in_one() }).await;
    assert_eq!(error.expect_err("another list").reason(), "BadRequest");
    let token = next(&world, in_one()).await.continue_from;
    let options = ListOptions { continue_from: token.clone(), ..everywhere() };
    let error = world.gizmos().list(options).await.expect_err("another list");
    assert_eq!(error.reason(), "BadRequest");
    let options = ListOptions { continue_from: token, ..everywhere() };
    let error = world.accessor("Project").list(options).await.expect_err("of another kind");
    assert_eq!(error.reason(), "BadRequest");
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
    let found: Vec<(&str, &str)> =
        page.items.iter().map(|item| (item.project(), item.name())).collect();
    assert_eq!(found, [("demo", "b"), ("other", "a")]);
}
