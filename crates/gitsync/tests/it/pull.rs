//! From git to the system.
use crate::support::*;
use orrery_hub::ObjectName;
use orrery_proto::apps::v1::Workload;
use serde_json::json;

/// proves: HUB-17
#[tokio::test]
async fn what_is_in_git_is_applied_and_what_left_it_is_deleted() {
    let (world, repository) = (world().await, Repository::new());
    apply(&world.hub, &json!({
        "apiVersion": "apps.orrery.dev/v1", "kind": "Workload",
        "metadata": {"name": "by-hand", "project": PROJECT}, "spec": {"process": {"command": "x"}, "placement": {"nodes": ["n1"]}},
    }))
    .await;
    let two = format!("{}---\n{}", workload("a", "one"), workload("b", "two"));
    let first = repository.push(&[("app/two.yaml", Some(&two))]);
    apply(&world.hub, &sync("s", &repository.url(), json!({"path": "app"}))).await;
    let status = synced(&world, "s", &first).await;
    assert_eq!((status.resources, status.failures), (2, 0));
    let a = find(&world.hub, "Workload", "a").await.unwrap();
    let lineage = orrery_gitsync::Lineage::read(a.lineage().unwrap()).unwrap();
    assert_eq!((lineage.file.as_str(), lineage.origin.sync.as_str()), ("app/two.yaml", "s"));
    assert_eq!(json_of(&a)["spec"]["process"]["command"], json!("one"));

    let next = repository.push(&[("app/two.yaml", Some(&workload("a", "three")))]);
    let status = synced(&world, "s", &next).await;
    assert_eq!(status.resources, 1);
    let a = find(&world.hub, "Workload", "a").await.unwrap();
    assert_eq!(json_of(&a)["spec"]["process"]["command"], json!("three"));
    world.until_gone::<Workload>(&ObjectName::new(PROJECT, "b")).await;
    assert!(find(&world.hub, "Workload", "by-hand").await.is_some(), "it never was in git");
}

#[tokio::test]
async fn whoever_changes_it_here_finds_it_as_git_says() {
    let (world, repository) = (world().await, Repository::new());
    let commit = repository.push(&[("w.yaml", Some(&workload("a", "one")))]);
    apply(&world.hub, &sync("s", &repository.url(), json!({}))).await;
    synced(&world, "s", &commit).await;
    apply(
        &world.hub,
        &json!({
            "apiVersion": "apps.orrery.dev/v1", "kind": "Workload",
            "metadata": {"name": "a", "project": PROJECT, "labels": {"mine": "yes"}},
            "spec": {"process": {"command": "other"}, "placement": {"nodes": ["n1"]}},
        }),
    )
    .await;
    let a = eventually("git is right", async || {
        let a = find(&world.hub, "Workload", "a").await?;
        (json_of(&a)["spec"]["process"]["command"] == json!("one")).then_some(a)
    })
    .await;
    // What git says nothing of stays.
    assert_eq!(a.label("mine"), Some("yes"));
    assert_eq!(repository.latest(), commit, "and git is not written");
}

/// proves: HUB-17
#[tokio::test]
async fn one_bad_file_does_not_stop_the_others_and_nothing_is_deleted_meanwhile() {
    let (world, repository) = (world().await, Repository::new());
    let first = repository
        .push(&[("a.yaml", Some(&workload("a", "one"))), ("b.yaml", Some(&workload("b", "one")))]);
    apply(&world.hub, &sync("s", &repository.url(), json!({}))).await;
    synced(&world, "s", &first).await;
    let typo = workload("c", "one").replace("process:", "proces:");
    let bad = repository.push(&[
        ("a.yaml", None),
        ("b.yaml", Some(&workload("b", "two"))),
        ("c/typo.yaml", Some(&typo)),
        ("not-yaml.yaml", Some("a: [1,\n")),
    ]);
    let status = until(&world, "s", |it| it.commit == bad && it.failures == 2).await;
    assert_eq!((status.state.as_str(), status.synced_commit.as_str()), ("Failing", first.as_str()));
    let told: Vec<&str> = status.problems.iter().map(|it| it.message.as_str()).collect();
    assert!(
        told[0].starts_with("c/typo.yaml:6:3: ") && told[0].contains("spec.proces"),
        "{told:?}"
    );
    assert!(told[1].starts_with("not-yaml.yaml:"), "{told:?}");
    let ready = status.conditions.iter().find(|it| it.r#type == "Ready").unwrap();
    assert_eq!((ready.status.as_str(), ready.reason.as_str()), ("False", "Problems"));
    let b = find(&world.hub, "Workload", "b").await.unwrap();
    assert_eq!(json_of(&b)["spec"]["process"]["command"], json!("two"), "the others go on");
    assert!(find(&world.hub, "Workload", "a").await.is_some(), "it may be in a file that is bad");

    let good = repository.push(&[("c/typo.yaml", None), ("not-yaml.yaml", None)]);
    synced(&world, "s", &good).await;
    world.until_gone::<Workload>(&ObjectName::new(PROJECT, "a")).await;
}

#[tokio::test]
async fn what_cannot_be_declared_is_told_with_its_place() {
    let (world, repository) = (world().await, Repository::new());
    let elsewhere = workload("x", "one").replace("name: x", "name: x\n  project: other");
    let node = "apiVersion: core.orrery.dev/v1\nkind: Project\nmetadata:\n  name: more\nspec: {}\n";
    let invalid = workload("bad name", "one");
    let commit = repository.push(&[
        ("1.yaml", Some(&elsewhere)),
        ("2.yaml", Some(node)),
        ("3.yaml", Some(&workload("twice", "one"))),
        ("4.yaml", Some(&workload("twice", "two"))),
        ("5.yaml", Some(&invalid)),
        (".github/workflow.yaml", Some("on: push\n")),
        ("notes.txt", Some("nothing")),
    ]);
    apply(&world.hub, &sync("s", &repository.url(), json!({}))).await;
    let status = until(&world, "s", |it| it.commit == commit).await;
    let told: Vec<(&str, &str)> =
        status.problems.iter().map(|it| (it.file.as_str(), it.message.as_str())).collect();
    assert_eq!(status.failures, 4, "{told:?}");
    let said = |at: usize, file: &str, words: &str| {
        assert!(told[at].0 == file && told[at].1.contains(words), "{:?}", told[at]);
    };
    said(0, "1.yaml", "1.yaml:5:3: is \"other\", and this sync is for the project \"demo\"");
    said(1, "2.yaml", "a Project belongs to no project");
    said(2, "3.yaml", "is declared more than once: 3.yaml:1, 4.yaml:1");
    said(3, "5.yaml", "metadata.name");
    assert!(find(&world.hub, "Workload", "twice").await.is_none());
}

#[tokio::test]
async fn a_branch_that_was_pushed_by_force_counts() {
    let (world, repository) = (world().await, Repository::new());
    let first = repository.push(&[("a.yaml", Some(&workload("a", "one")))]);
    apply(&world.hub, &sync("s", &repository.url(), json!({}))).await;
    synced(&world, "s", &first).await;
    git(&repository.work, &["checkout", "--quiet", "--orphan", "fresh"]);
    repository.change(&[("a.yaml", None), ("b.yaml", Some(&workload("b", "one")))]);
    repository.commit();
    git(&repository.work, &["push", "--quiet", "--force", "origin", "HEAD:main"]);
    let status = synced(&world, "s", &repository.head()).await;
    assert_eq!(status.resources, 1);
    assert!(find(&world.hub, "Workload", "b").await.is_some());
    world.until_gone::<Workload>(&ObjectName::new(PROJECT, "a")).await;
}

#[tokio::test]
async fn two_syncs_of_one_repository_keep_to_their_own() {
    let (world, repository) = (world().await, Repository::new());
    let commit = repository.push(&[
        ("one/a.yaml", Some(&workload("a", "one"))),
        ("one/README.md", Some("the folder stays")),
        ("two/b.yaml", Some(&workload("b", "one"))),
    ]);
    for (name, path) in [("one", "one"), ("two", "two")] {
        apply(&world.hub, &sync(name, &repository.url(), json!({"path": path}))).await;
        synced(&world, name, &commit).await;
    }
    // The second says the same as the first.
    let both = repository.push(&[("two/a.yaml", Some(&workload("a", "two")))]);
    let status = until(&world, "two", |it| it.commit == both && it.failures == 1).await;
    assert!(status.problems[0].message.contains("the sync \"one\" keeps this"), "{status:?}");
    synced(&world, "one", &both).await;
    let a = find(&world.hub, "Workload", "a").await.unwrap();
    assert_eq!(json_of(&a)["spec"]["process"]["command"], json!("one"));
    // One of them loses a file, and the other keeps its own.
    let next = repository.push(&[("one/a.yaml", None), ("two/a.yaml", None)]);
    synced(&world, "one", &next).await;
    synced(&world, "two", &next).await;
    world.until_gone::<Workload>(&ObjectName::new(PROJECT, "a")).await;
    assert!(find(&world.hub, "Workload", "b").await.is_some());
}

#[tokio::test]
async fn a_sync_that_is_suspended_does_nothing_and_one_that_goes_leaves_everything() {
    let (world, repository) = (world().await, Repository::new());
    let first = repository.push(&[("a.yaml", Some(&workload("a", "one")))]);
    let mut wanted = sync("s", &repository.url(), json!({}));
    apply(&world.hub, &wanted).await;
    synced(&world, "s", &first).await;
    wanted["spec"]["suspend"] = json!(true);
    apply(&world.hub, &wanted).await;
    until(&world, "s", |it| it.state == "Suspended").await;
    let next = repository.push(&[("b.yaml", Some(&workload("b", "one")))]);
    wanted["spec"]["suspend"] = json!(false);
    apply(&world.hub, &wanted).await;
    let status = synced(&world, "s", &next).await;
    assert_eq!((status.resources, status.observed_generation), (2, 3));
    delete(&world.hub, "GitSync", "s").await;
    assert!(find(&world.hub, "Workload", "a").await.is_some());
}
