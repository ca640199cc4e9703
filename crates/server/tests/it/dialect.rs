//! Finer points of the dialect, in which tools notice every difference.
use crate::support::{APPLY, WORKLOADS, World, workload};
use axum::body::Body;
use axum::http::Method;
use serde_json::json;

#[tokio::test]
async fn an_apply_that_says_nothing_takes_nothing_back() {
    let world = World::start().await;
    let path = format!("{WORKLOADS}/a?fieldManager=me");
    world.patch(&path, APPLY, &workload("a")).await.expect(201);
    let before = world.get(&format!("{WORKLOADS}/a")).await.expect(200);
    for body in ["{}", "kind: Workload\n", r#"{"apiVersion":"","kind":"Workload"}"#] {
        let refused = world.send_as(Method::PATCH, &path, APPLY, body).await.expect(400);
        assert!(
            refused["message"].as_str().unwrap().contains("'apiVersion' is missing"),
            "{refused}"
        );
    }
    assert_eq!(world.get(&format!("{WORKLOADS}/a")).await.expect(200), before);
}

#[tokio::test]
async fn rules_are_told_with_the_groups_of_discovery() {
    let world = World::start().await;
    let role = json!({
        "apiVersion": "core.orrery.dev/v1", "kind": "Role", "metadata": { "name": "some" },
        "spec": { "rules": [
            { "verbs": ["get"], "groups": ["apps", "example.com"], "resources": ["workloads"] },
            { "verbs": ["list"], "groups": ["core"], "resources": ["projects", "secrets"] },
        ] },
    });
    let binding = json!({
        "apiVersion": "core.orrery.dev/v1", "kind": "RoleBinding", "metadata": { "name": "some" },
        "spec": { "role": "some", "subjects": [{ "kind": "User", "name": "bob" }] },
    });
    let place = "/apis/core.orrery.dev/v1/namespaces/default";
    world.post(&format!("{place}/roles"), &role).await.expect(201);
    world.post(&format!("{place}/rolebindings"), &binding).await.expect(201);
    let path = "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews";
    let expect = json!([
        { "verbs": ["get"], "apiGroups": ["apps.orrery.dev", "example.com"], "resources": ["workloads"] },
        { "verbs": ["list"], "apiGroups": ["core.orrery.dev"], "resources": ["projects", "secrets"] },
        { "verbs": ["list"], "apiGroups": [""], "resources": ["namespaces"] },
    ]);
    crate::access::until("the binding counts", async || {
        let body = Body::from(json!({ "spec": { "namespace": "default" } }).to_string());
        let headers = [("content-type", "application/json"), ("impersonate-user", "bob")];
        let answer =
            world.send(world.request(Method::POST, path, &headers, body)).await.expect(201);
        let rules = answer["status"]["resourceRules"].clone();
        (rules != json!([])).then(|| assert_eq!(rules, expect))
    })
    .await;
}
