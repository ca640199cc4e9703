//! What resources say of their own sync.
use crate::support::*;
use orrery_testkit::world::World;
use serde_json::{Value, json};

/// The condition of a workload, once it is as asked for.
async fn said(world: &World, name: &str, reason: &str) -> Value {
    eventually(&format!("{name} says {reason}"), async || {
        let object = json_of(&find(&world.hub, "Workload", name).await?);
        let conditions = object["status"]["conditions"].as_array()?.iter();
        let mut synced = conditions.filter(|it| it["type"] == "Synced");
        synced.find(|it| it["reason"] == reason).cloned()
    })
    .await
}

/// proves: HUB-13
#[tokio::test]
async fn a_resource_says_what_it_came_from_and_why_it_is_not_newer() {
    let (world, repository) = (world().await, Repository::new());
    let first = repository
        .push(&[("a.yaml", Some(&workload("a", "one"))), ("b.yaml", Some(&workload("b", "one")))]);
    apply(&world.hub, &sync("s", &repository.url(), json!({"prune": false}))).await;
    let synced = said(&world, "a", "Applied").await;
    assert_eq!(synced["status"], "True");
    assert_eq!(synced["message"], format!("a.yaml of commit {}", &first[..10]));

    let typo = workload("a", "two").replace("process:", "proces:");
    let bad = repository.push(&[("a.yaml", Some(&typo)), ("b.yaml", Some(&workload("b", "two")))]);
    let refused = said(&world, "a", "Refused").await;
    assert_eq!(refused["status"], "False");
    let why = refused["message"].as_str().unwrap();
    assert!(why.starts_with("a.yaml:6:3: ") && why.contains("spec.proces"), "{why}");
    let message = format!("b.yaml of commit {}", &bad[..10]);
    eventually("b is newer", async || {
        (said(&world, "b", "Applied").await["message"] == message).then_some(())
    })
    .await;

    let good = repository.push(&[("a.yaml", Some(&workload("a", "two")))]);
    let synced = said(&world, "a", "Applied").await;
    assert_eq!(synced["message"], format!("a.yaml of commit {}", &good[..10]));
    assert_eq!(said(&world, "b", "Applied").await["message"], message, "nothing new for it");

    repository.push(&[("a.yaml", None)]);
    let left = said(&world, "a", "LeftGit").await;
    assert_eq!(left["status"], "False");
    assert_eq!(left["message"], "a.yaml does not hold it any more");
}

/// What is wrong with another resource of the file is not said of the one that left it.
#[tokio::test]
async fn whoever_left_a_file_does_not_speak_of_others_in_it() {
    let (world, repository) = (world().await, Repository::new());
    let two = format!("{}---\n{}", workload("a", "one"), workload("b", "one"));
    repository.push(&[("two.yaml", Some(&two))]);
    apply(&world.hub, &sync("s", &repository.url(), json!({"prune": false}))).await;
    said(&world, "a", "Applied").await;
    // It can be read, and is refused by the rules of its kind.
    let refused = workload("b", "one").replace("spec:", "spec:\n  stopGraceSeconds: -1");
    repository.push(&[("two.yaml", Some(&refused))]);
    said(&world, "b", "Refused").await;
    assert_eq!(said(&world, "a", "LeftGit").await["message"], "two.yaml does not hold it any more");
}

/// proves: HUB-13
#[tokio::test]
async fn what_is_written_back_says_so_and_others_conditions_stay() {
    let (world, repository) = (world().await, Repository::new());
    let first = repository.push(&[("w.yaml", Some(&workload("a", "one")))]);
    let back = json!({"writeBack": {"kinds": ["Workload"]}});
    apply(&world.hub, &sync("s", &repository.url(), back)).await;
    said(&world, "a", "Applied").await;
    let mut changed = json_of(&find(&world.hub, "Workload", "a").await.unwrap());
    changed["spec"]["process"]["command"] = json!("by-hand");
    apply(&world.hub, &changed).await;
    let written = said(&world, "a", "WrittenBack").await;
    let latest = repository.latest();
    assert_ne!(latest, first);
    assert_eq!(written["message"], format!("w.yaml of commit {}", &latest[..10]));
    eventually("the controller of workloads has its say beside it", async || {
        let a = find(&world.hub, "Workload", "a").await?.conditions()?;
        let types: Vec<&str> = a.iter().map(|condition| condition.r#type.as_str()).collect();
        (types.contains(&"Synced") && types.contains(&"Ready")).then_some(())
    })
    .await;
}
