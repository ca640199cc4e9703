//! From the system to git.
use crate::support::*;
use orrery_hub::ObjectName;
use orrery_proto::apps::v1::Workload;
use serde_json::{Value, json};

fn by_hand(name: &str, command: &str) -> Value {
    json!({
        "apiVersion": "apps.orrery.dev/v1", "kind": "Workload",
        "metadata": {"name": name, "project": PROJECT},
        "spec": {"process": {"command": command}, "placement": {"nodes": ["n1"]}},
    })
}

/// Both ways, and it looks only once in an hour by itself.
fn both_ways(repository: &Repository, more: Value) -> Value {
    let mut back = json!({"authorName": "Sync", "authorEmail": "sync@example.test"});
    for (key, value) in more.as_object().unwrap() {
        back[key] = value.clone();
    }
    sync("s", &repository.url(), json!({"path": "app", "intervalSeconds": 3600, "writeBack": back}))
}

/// proves: HUB-17
#[tokio::test]
async fn what_changes_here_is_written_back_at_once() {
    let (world, repository) = (world().await, Repository::new());
    let noted =
        format!("# keep me\n{}---\n# the second\n{}", workload("a", "one"), workload("b", "two"));
    let first =
        repository.push(&[("app/two.yaml", Some(&noted)), ("other.yaml", Some("no: thing\n"))]);
    apply(&world.hub, &both_ways(&repository, json!({}))).await;
    synced(&world, "s", &first).await;

    // A change: the other document and all comments before it stay as they are.
    apply(&world.hub, &by_hand("b", "changed")).await;
    let text = eventually("the change is in git", async || {
        repository.show("app/two.yaml").filter(|text| text.contains("changed"))
    })
    .await;
    let kept = format!("# keep me\n{}---\n# the second\n", workload("a", "one"));
    assert!(text.starts_with(&kept), "{text}");
    for word in ["uid", "resourceVersion", "status", "lineage", "managedFields", "project"] {
        assert!(!text.contains(word), "{word}: {text}");
    }
    let author = git(&repository.bare, &["log", "-1", "--format=%an <%ae>%n%s", "main"]);
    assert_eq!(author.trim(), "Sync <sync@example.test>\nWrite Workload b");

    // A new one, and one that goes.
    apply(&world.hub, &by_hand("new", "three")).await;
    delete(&world.hub, "Workload", "a").await;
    eventually("both are in git", async || {
        let new = repository.show("app/workloads/new.yaml")?;
        let two = repository.show("app/two.yaml")?;
        (new.contains("three") && !two.contains("name: a")).then_some(())
    })
    .await;
    assert_eq!(repository.show("other.yaml").as_deref(), Some("no: thing\n"));
    let status = synced(&world, "s", &repository.latest()).await;
    assert_eq!((status.resources, status.failures), (2, 0));
    let new = find(&world.hub, "Workload", "new").await.unwrap();
    assert!(new.lineage().unwrap().contains("app/workloads/new.yaml"));
}

/// A change that came from git does not go back there.
#[tokio::test]
async fn there_are_no_loops() {
    let (world, repository) = (world().await, Repository::new());
    let back = json!({"intervalSeconds": 1, "writeBack": {}});
    apply(&world.hub, &sync("s", &repository.url(), back)).await;
    let mut last = String::new();
    for round in 0..4 {
        last = repository.push(&[("a.yaml", Some(&workload("a", &format!("c{round}"))))]);
        synced(&world, "s", &last).await;
    }
    let a = find(&world.hub, "Workload", "a").await.unwrap();
    let revision = a.meta().generation;
    // Something else changes and is written: by then every look at the first would have shown.
    apply(&world.hub, &by_hand("b", "one")).await;
    eventually("it is in git", async || repository.show("workloads/b.yaml")).await;
    repository.pull();
    let commits = git(&repository.work, &["rev-list", "--count", &format!("{last}..HEAD")]);
    assert_eq!(commits.trim(), "1", "only the change that was made here");
    let a = find(&world.hub, "Workload", "a").await.unwrap();
    assert_eq!(a.meta().generation, revision);
    assert_eq!(repository.show("a.yaml"), Some(workload("a", "c3")));
}

/// Whoever changes something again while it is being written does not lose the second change.
#[tokio::test]
async fn changes_in_quick_succession_are_all_written() {
    let (world, repository) = (world().await, Repository::new());
    let first = repository.push(&[("app/a.yaml", Some(&workload("a", "one")))]);
    apply(&world.hub, &both_ways(&repository, json!({}))).await;
    synced(&world, "s", &first).await;
    // On and on, until some of them have been written in between.
    let written = || -> usize {
        let count = git(&repository.bare, &["rev-list", "--count", &format!("{first}..main")]);
        count.trim().parse().unwrap()
    };
    let mut last = String::new();
    for number in 0..10_000 {
        last = format!("c{number}.");
        apply(&world.hub, &by_hand("a", &last)).await;
        if 2 < written() {
            break;
        }
    }
    eventually("the last one is in git", async || {
        repository.show("app/a.yaml").filter(|text| text.contains(&last))
    })
    .await;
    synced(&world, "s", &repository.latest()).await;
    let a = find(&world.hub, "Workload", "a").await.unwrap();
    assert_eq!(json_of(&a)["spec"]["process"]["command"], json!(last));
}

#[tokio::test]
async fn an_empty_repository_is_begun() {
    let (world, repository) = (world().await, Repository::empty());
    apply(&world.hub, &by_hand("a", "one")).await;
    let pull_only = sync("pull", &repository.url(), json!({}));
    apply(&world.hub, &pull_only).await;
    let status = until(&world, "pull", |it| it.state == "Failing").await;
    let fetched = status.conditions.iter().find(|it| it.r#type == "Fetched").unwrap();
    assert!(fetched.message.contains("no branch \"main\""), "{fetched:?}");
    delete(&world.hub, "GitSync", "pull").await;
    apply(&world.hub, &both_ways(&repository, json!({}))).await;
    eventually("it is in git", async || {
        let branches = git(&repository.bare, &["branch", "--list", "main"]);
        (!branches.is_empty()).then(|| repository.show("app/workloads/a.yaml")).flatten()
    })
    .await;
}

/// proves: HUB-17
#[tokio::test]
async fn both_sides_change_at_once_and_git_counts() {
    let (world, repository) = (world().await, Repository::new());
    let first = repository.push(&[
        ("app/a.yaml", Some(&workload("a", "one"))),
        ("app/b.yaml", Some(&workload("b", "one"))),
    ]);
    let mut wanted = both_ways(&repository, json!({}));
    apply(&world.hub, &wanted).await;
    synced(&world, "s", &first).await;
    wanted["spec"]["suspend"] = json!(true);
    apply(&world.hub, &wanted).await;
    until(&world, "s", |it| it.state == "Suspended").await;
    repository.push(&[("app/a.yaml", Some(&workload("a", "theirs")))]);
    apply(&world.hub, &by_hand("a", "ours")).await;
    apply(&world.hub, &by_hand("b", "ours")).await;
    wanted["spec"]["suspend"] = json!(false);
    apply(&world.hub, &wanted).await;
    eventually("the other change is in git", async || {
        repository.show("app/b.yaml").filter(|text| text.contains("ours"))
    })
    .await;
    synced(&world, "s", &repository.latest()).await;
    let a = find(&world.hub, "Workload", "a").await.unwrap();
    assert_eq!(json_of(&a)["spec"]["process"]["command"], json!("theirs"));
    assert_eq!(repository.show("app/a.yaml"), Some(workload("a", "theirs")));
}

/// Somebody pushes between our fetch and our push: a hook of the repository does, once.
#[tokio::test]
async fn a_push_that_was_overtaken_is_made_anew() {
    use std::os::unix::fs::PermissionsExt as _;
    let (world, repository) = (world().await, Repository::new());
    let first = repository.push(&[("app/a.yaml", Some(&workload("a", "one")))]);
    apply(&world.hub, &both_ways(&repository, json!({}))).await;
    synced(&world, "s", &first).await;
    repository.change(&[("app/theirs.yaml", Some(&workload("theirs", "one")))]);
    repository.commit();
    git(&repository.work, &["push", "--quiet", "origin", "HEAD:refs/heads/aside"]);
    let hook = repository.bare.join("hooks/pre-receive");
    std::fs::create_dir_all(hook.parent().unwrap()).unwrap();
    let script = "#!/bin/sh\nunset GIT_QUARANTINE_PATH\n[ -e overtaken ] && exit 0\ntouch overtaken\nexec git update-ref refs/heads/main refs/heads/aside\n";
    std::fs::write(&hook, script).unwrap();
    std::fs::set_permissions(&hook, std::fs::Permissions::from_mode(0o755)).unwrap();
    apply(&world.hub, &by_hand("a", "ours")).await;
    eventually("both are in git", async || {
        let ours = repository.show("app/a.yaml")?.contains("ours");
        (ours && repository.show("app/theirs.yaml").is_some()).then_some(())
    })
    .await;
    assert!(repository.bare.join("overtaken").exists(), "the first push was overtaken");
    synced(&world, "s", &repository.latest()).await;
    assert!(find(&world.hub, "Workload", "theirs").await.is_some());
}

#[tokio::test]
async fn secrets_are_left_out_unless_told_otherwise() {
    let (world, repository) = (world().await, Repository::new());
    let hidden = json!({
        "apiVersion": "core.orrery.dev/v1", "kind": "Secret",
        "metadata": {"name": "hidden", "project": PROJECT}, "spec": {"stringData": {"k": "v"}},
    });
    apply(&world.hub, &hidden).await;
    apply(&world.hub, &both_ways(&repository, json!({"kinds": ["Secret"]}))).await;
    let status = until(&world, "s", |it| it.state == "Failing").await;
    let ready = status.conditions.iter().find(|it| it.r#type == "Ready").unwrap();
    assert!(ready.message.contains("Secret (it is not written back)"), "{ready:?}");
    apply(&world.hub, &both_ways(&repository, json!({"kinds": ["Workload"]}))).await;
    apply(&world.hub, &by_hand("a", "one")).await;
    eventually("it is in git", async || repository.show("app/workloads/a.yaml")).await;
    assert_eq!(repository.show("app/secrets/hidden.yaml"), None);
    let told = both_ways(&repository, json!({"kinds": ["secrets"], "includeSecrets": true}));
    apply(&world.hub, &told).await;
    let text =
        eventually("it is in git", async || repository.show("app/secrets/hidden.yaml")).await;
    assert!(text.contains("k: dg=="), "{text}");
}

#[tokio::test]
async fn what_belongs_to_others_is_not_written() {
    let (world, repository) = (world().await, Repository::new());
    let owner = apply(&world.hub, &by_hand("owner", "one")).await;
    let mut owned = by_hand("owned", "one");
    owned["metadata"]["ownerReferences"] = json!([{
        "apiVersion": "apps.orrery.dev/v1", "kind": "Workload", "name": "owner", "uid": owner.uid(),
    }]);
    apply(&world.hub, &owned).await;
    apply(&world.hub, &both_ways(&repository, json!({}))).await;
    eventually("it is in git", async || repository.show("app/workloads/owner.yaml")).await;
    synced(&world, "s", &repository.latest()).await;
    assert_eq!(repository.show("app/workloads/owned.yaml"), None);
    world.until::<Workload>(&ObjectName::new(PROJECT, "owned"), |_| true).await;
}

/// Git has what is in the project, and that as it is now: no earlier versions, and nothing that others share.
///
/// proves: HUB-09, HUB-12
#[tokio::test]
async fn only_the_latest_version_and_what_is_its_own_is_written() {
    let (world, repository) = (world().await, Repository::new());
    world.project("vault").await;
    let shared = json!({
        "apiVersion": "core.orrery.dev/v1", "kind": "Secret",
        "metadata": {"name": "theirs", "project": "vault"},
        "spec": {"stringData": {"k": "v"}, "sharing": {"enabled": true, "projects": [{"name": "*"}]}},
    });
    apply(&world.hub, &shared).await;
    let versioned = |version: &str| {
        let mut workload = by_hand("web", version);
        workload["spec"]["version"] = json!(version);
        workload
    };
    apply(&world.hub, &versioned("first")).await;
    apply(&world.hub, &versioned("second")).await;
    let kinds = json!({"kinds": ["Workload", "Secret"], "includeSecrets": true});
    apply(&world.hub, &both_ways(&repository, kinds)).await;
    let written = |word: &'static str| {
        let repository = &repository;
        eventually("it is in git", async move || {
            repository.show("app/workloads/web.yaml").filter(|text| text.contains(word))
        })
    };
    written("second").await;
    apply(&world.hub, &versioned("third")).await;
    let text = written("version: third").await;
    assert!(!text.contains("second") && !text.contains("first"), "{text}");
    let files = git(&repository.bare, &["ls-tree", "-r", "--name-only", "main"]);
    let ours: Vec<&str> = files.lines().filter(|path| path.starts_with("app/")).collect();
    assert_eq!(ours, ["app/workloads/web.yaml"]);
}
