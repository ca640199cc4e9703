//! Artifacts: files beside resources, in git and in the system.
use crate::support::*;
use bytes::Bytes;
use orrery_hub::ObjectName;
use orrery_hub::artifacts::Artifacts;
use serde_json::json;

fn with_file(name: &str) -> String {
    format!(
        "{}  files:\n    - path: etc/app.yaml\n      artifact:\n        path: conf/app.yaml\n",
        workload(name, "one")
    )
}

/// proves: HUB-11
#[tokio::test]
async fn artifacts_are_files_beside_the_resource() {
    let (world, repository) = (world().await, Repository::new());
    let first = repository.push(&[
        ("app/a.yaml", Some(&with_file("a"))),
        // It is no resource, although it looks like a file of some.
        ("app/conf/app.yaml", Some("color: blue\n")),
    ]);
    let both = json!({"path": "app", "writeBack": {}});
    apply(&world.hub, &sync("s", &repository.url(), both)).await;
    let status = synced(&world, "s", &first).await;
    assert_eq!((status.resources, status.failures), (1, 0));
    let artifacts = Artifacts::new(world.hub.clone());
    let kind = world.hub.scheme().resolve("", "Workload").unwrap();
    let (name, path) = (ObjectName::new(PROJECT, "a"), "conf/app.yaml".parse().unwrap());
    let content = async || artifacts.get(&kind, &name, &path).await.map(|it| it.1).ok();
    assert_eq!(content().await, Some(Bytes::from_static(b"color: blue\n")));

    // Only the file changes in git.
    let next = repository.push(&[("app/conf/app.yaml", Some("color: red\n"))]);
    synced(&world, "s", &next).await;
    assert_eq!(content().await, Some(Bytes::from_static(b"color: red\n")));

    // Only the file changes here.
    artifacts.set(&kind, &name, &path, Bytes::from_static(b"color: green\n")).await.unwrap();
    eventually("the file is in git", async || {
        repository.show("app/conf/app.yaml").filter(|text| text == "color: green\n")
    })
    .await;
    synced(&world, "s", &repository.latest()).await;

    // The resource goes, and its file with it.
    delete(&world.hub, "Workload", "a").await;
    eventually("both are gone", async || {
        let gone = repository.show("app/a.yaml").is_none();
        (gone && repository.show("app/conf/app.yaml").is_none()).then_some(())
    })
    .await;
}

/// Files that are named again and again are read again and again: all of them together have a limit.
#[tokio::test]
async fn more_than_fits_into_memory_is_refused() {
    let (world, repository) = (world().await, Repository::new());
    let large = "0".repeat(44 << 20);
    let (a, b, c) = (with_file("a"), with_file("b"), with_file("c"));
    repository.push(&[
        ("a.yaml", Some(&a)),
        ("b.yaml", Some(&b)),
        ("c.yaml", Some(&c)),
        ("conf/app.yaml", Some(&large)),
    ]);
    apply(&world.hub, &sync("s", &repository.url(), json!({}))).await;
    let status = until(&world, "s", |it| it.state == "Failing").await;
    let ready = status.conditions.iter().find(|it| it.r#type == "Ready").unwrap();
    assert_eq!(ready.reason, "TooLarge", "{ready:?}");
    assert!(find(&world.hub, "Workload", "a").await.is_none());
}
