//! A sync gives nobody what they do not have.
use crate::support::*;
use orrery_proto::core::v1 as core;
use orrery_proto::meta::v1::ObjectMeta;
use serde_json::json;

fn role(name: &str, verbs: &[&str], resources: &[&str]) -> core::Role {
    let owned = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect();
    let rule = core::AccessRule {
        verbs: owned(verbs),
        groups: vec!["*".to_owned()],
        resources: owned(resources),
        names: vec![],
    };
    let metadata = ObjectMeta { name: name.into(), project: PROJECT.into(), ..<_>::default() };
    core::Role {
        metadata: Some(metadata),
        spec: Some(core::RoleSpec { rules: vec![rule] }),
        ..<_>::default()
    }
}

/// proves: HUB-17
#[tokio::test]
async fn a_sync_does_what_its_role_lets_it() {
    let (world, repository) = (world().await, Repository::new());
    let all = ["get", "create", "patch", "delete"];
    world.hub.resources().unwrap().create(&role("some", &all, &["workloads"])).await.unwrap();
    let more = "apiVersion: core.orrery.dev/v1\nkind: Role\nmetadata:\n  name: more\nspec:\n  rules:\n  - verbs: [\"*\"]\n    resources: [\"*\"]\n";
    let commit = repository.push(&[
        ("a.yaml", Some(&workload("a", "one"))),
        ("b.yaml", Some(&secret("b", "one"))),
        ("c.yaml", Some(more)),
    ]);
    apply(&world.hub, &sync("s", &repository.url(), json!({"role": "some"}))).await;
    let status = until(&world, "s", |it| it.commit == commit && it.failures == 2).await;
    let told: Vec<&str> = status.problems.iter().map(|it| it.message.as_str()).collect();
    assert!(
        told[0].contains("the role \"some\" of the sync does not let it create secrets"),
        "{told:?}"
    );
    assert!(told[1].contains("does not let it create roles"), "{told:?}");
    assert!(find(&world.hub, "Workload", "a").await.is_some());
    assert!(find(&world.hub, "Secret", "b").await.is_none());

    // Who may write roles gives no more by them than the sync has itself.
    let writer = role("writer", &["get", "create", "patch"], &["workloads", "secrets", "roles"]);
    world.hub.resources().unwrap().create(&writer).await.unwrap();
    apply(&world.hub, &sync("s", &repository.url(), json!({"role": "writer"}))).await;
    let status = until(&world, "s", |it| it.commit == commit && it.failures == 1).await;
    let told = &status.problems[0].message;
    assert!(told.contains("cannot give what they do not have"), "{told}");
    assert!(find(&world.hub, "Secret", "b").await.is_some());
    assert!(find(&world.hub, "Role", "more").await.is_none());
}
