//! Repositories that mean no good, or are not there, and servers that go in the midst of it.
use crate::support::*;
use orrery_testkit::world::{World, WorldOptions};
use serde_json::json;
use std::os::unix::fs::PermissionsExt as _;

#[tokio::test]
async fn a_repository_that_is_gone_changes_nothing() {
    let (world, repository) = (world().await, Repository::new());
    let first = repository.push(&[("a.yaml", Some(&workload("a", "one")))]);
    apply(&world.hub, &sync("s", &repository.url(), json!({}))).await;
    synced(&world, "s", &first).await;
    let aside = repository.bare.with_extension("aside");
    std::fs::rename(&repository.bare, &aside).unwrap();
    let status = until(&world, "s", |it| it.state == "Failing").await;
    let fetched = status.conditions.iter().find(|it| it.r#type == "Fetched").unwrap();
    assert_eq!((fetched.status.as_str(), fetched.reason.as_str()), ("False", "FetchFailed"));
    assert!(find(&world.hub, "Workload", "a").await.is_some());
    std::fs::rename(&aside, &repository.bare).unwrap();
    synced(&world, "s", &first).await;
    // The branch goes, and the folder.
    git(&repository.bare, &["update-ref", "-d", "refs/heads/main"]);
    until(&world, "s", |it| it.state == "Failing").await;
    assert!(find(&world.hub, "Workload", "a").await.is_some());
}

#[tokio::test]
async fn a_folder_that_vanishes_does_not_take_everything_along() {
    let (world, repository) = (world().await, Repository::new());
    let first = repository.push(&[("app/a.yaml", Some(&workload("a", "one")))]);
    apply(&world.hub, &sync("s", &repository.url(), json!({"path": "app"}))).await;
    synced(&world, "s", &first).await;
    repository.push(&[("app/a.yaml", None)]);
    let status = until(&world, "s", |it| it.state == "Failing").await;
    let ready = status.conditions.iter().find(|it| it.r#type == "Ready").unwrap();
    assert!(ready.message.contains("no folder \"app\""), "{ready:?}");
    assert!(find(&world.hub, "Workload", "a").await.is_some());
}

/// Links are not followed, hooks and filters do not run, other repositories are not fetched.
#[tokio::test]
async fn a_hostile_repository_is_harmless() {
    let (world, repository) = (world().await, Repository::new());
    let held = tempfile::tempdir().unwrap();
    let outside = held.path().join("outside.yaml");
    std::fs::write(&outside, workload("outside", "one")).unwrap();
    let proof = held.path().join("ran");
    let script = format!("#!/bin/sh\ntouch {}\n", proof.display());
    let hook = repository.work.join("hooks/post-checkout");
    repository.change(&[
        ("good.yaml", Some(&workload("good", "one"))),
        ("hooks/post-checkout", Some(&script)),
        (".gitattributes", Some("* filter=evil\n")),
        (".gitmodules", Some("[submodule \"x\"]\n\tpath = x\n\turl = ext::sh -c touch% x\n")),
    ]);
    std::fs::set_permissions(&hook, std::fs::Permissions::from_mode(0o755)).unwrap();
    std::os::unix::fs::symlink(&outside, repository.work.join("link.yaml")).unwrap();
    std::os::unix::fs::symlink("/etc", repository.work.join("etc")).unwrap();
    repository.commit();
    let head = repository.head();
    git(&repository.work, &["update-index", "--add", "--cacheinfo", &format!("160000,{head},x")]);
    git(&repository.work, &["commit", "--quiet", "--message", "a submodule"]);
    git(&repository.work, &["push", "--quiet", "origin", "HEAD:main"]);
    apply(&world.hub, &sync("s", &repository.url(), json!({}))).await;
    let status = until(&world, "s", |it| it.commit == repository.head()).await;
    assert_eq!(status.failures, 1, "{status:?}");
    assert_eq!(status.problems[0].file, "link.yaml");
    assert!(status.problems[0].message.contains("is a link"), "{status:?}");
    assert!(find(&world.hub, "Workload", "good").await.is_some());
    assert!(find(&world.hub, "Workload", "outside").await.is_none());
    assert!(!proof.exists(), "nothing of the repository ran");
}

#[tokio::test]
async fn a_server_that_is_started_again_goes_on() {
    let (folder, repository) = (tempfile::tempdir().unwrap(), Repository::new());
    let options = || WorldOptions {
        folder: Some(folder.path().join("store")),
        operations: operations(),
        ..<_>::default()
    };
    let many: Vec<(String, String)> = (0..60)
        .map(|number| (format!("w{number}.yaml"), workload(&format!("w{number}"), "one")))
        .collect();
    let files: Vec<(&str, Option<&str>)> =
        many.iter().map(|(path, text)| (path.as_str(), Some(text.as_str()))).collect();
    let first = repository.push(&files);
    let world = world_with(options()).await;
    apply(&world.hub, &sync("s", &repository.url(), json!({"writeBack": {}}))).await;
    eventually("it has begun", async || find(&world.hub, "Workload", "w0").await).await;
    world.stop().await;
    // Nobody is there while git changes.
    let next = repository.push(&[("w1.yaml", None)]);
    let world = World::start_with(options()).await;
    let status = synced(&world, "s", &next).await;
    assert_eq!(status.resources, 59);
    eventually("it is gone", async || {
        find(&world.hub, "Workload", "w1").await.is_none().then_some(())
    })
    .await;
    assert_eq!(repository.latest(), next, "nothing was written back: {first}");
    // The copy is gone with the first server; what is deleted here is still known to be.
    delete(&world.hub, "Workload", "w2").await;
    eventually("its file is gone", async || repository.show("w2.yaml").is_none().then_some(()))
        .await;
    world.stop().await;
}

#[tokio::test]
async fn repositories_of_the_machine_are_taken_only_where_that_is_allowed() {
    let (world, repository) = (World::start().await, Repository::new());
    world.project(PROJECT).await;
    apply(&world.hub, &sync("s", &repository.url(), json!({}))).await;
    let status = until(&world, "s", |it| it.state == "Failing").await;
    let ready = status.conditions.iter().find(|it| it.r#type == "Ready").unwrap();
    assert!(ready.message.contains("--git-allow-local"), "{ready:?}");
}

#[tokio::test]
async fn what_cannot_be_a_sync_is_refused() {
    let world = world().await;
    let cases = [
        (json!({"repository": "git@host:path"}), "spec.repository"),
        (json!({"repository": "https://u:p@host/a"}), "spec.repository"),
        (json!({"repository": "https://host/a", "branch": "--x"}), "spec.branch"),
        (json!({"repository": "https://host/a", "path": "../x"}), "spec.path"),
        (json!({"repository": "https://host/a", "intervalSeconds": 0}), "spec.intervalSeconds"),
    ];
    for (spec, field) in cases {
        let wanted = sync("s", "", spec.clone());
        let object = read(&world.hub, &wanted);
        let accessor = world.hub.accessor(object.kind()).unwrap().clone();
        let error = accessor.apply(object, Default::default()).await.unwrap_err();
        assert!(error.to_string().contains(field), "{spec}: {error}");
    }
}
