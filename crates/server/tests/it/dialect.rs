//! Finer points of the dialect, in which tools notice every difference.
use crate::support::{APPLY, Answer, MERGE, WORKLOADS, World, workload};
use axum::body::Body;
use axum::http::Method;
use serde_json::json;

fn warnings(answer: &Answer) -> Vec<&str> {
    answer.headers.get_all("warning").iter().map(|value| value.to_str().unwrap()).collect()
}

fn twice(name: &str) -> String {
    let whole = workload(name).to_string();
    whole.replace(r#""command":"sleep""#, r#""command":"false","command":"sleep""#)
}

#[tokio::test]
async fn a_field_that_stands_twice_is_judged_as_asked() {
    let world = World::start().await;
    let told = "duplicate field \"spec.process.command\"";
    let post = async |name: &str, validation: &str| {
        let path = format!("{WORKLOADS}?fieldValidation={validation}");
        world.send_as(Method::POST, &path, "application/json", twice(name)).await
    };
    let refused = post("a", "Strict").await.expect(400);
    assert!(refused["message"].as_str().unwrap().contains(told), "{refused}");
    let warned = post("a", "Warn").await;
    assert_eq!(warned.code, 201, "{}", warned.text);
    let expect = "299 - \"duplicate field \\\"spec.process.command\\\"\"";
    assert_eq!(warnings(&warned), [expect]);
    assert_eq!(warned.json()["spec"]["process"]["command"], "sleep", "the last one counts");
    let ignored = post("b", "Ignore").await;
    assert_eq!((ignored.code.as_u16(), warnings(&ignored).len()), (201, 0), "{}", ignored.text);
    let unsaid = world.send_as(Method::POST, WORKLOADS, "application/json", twice("c")).await;
    assert_eq!((unsaid.code.as_u16(), warnings(&unsaid).len()), (201, 1), "{}", unsaid.text);

    let (one, by) = (format!("{WORKLOADS}/a"), format!("{WORKLOADS}/a?fieldManager=me&force=true"));
    let whole = twice("a");
    let merged = r#"{"metadata":{"labels":{"a":"1","a":"2"}}}"#;
    for (method, path, kind, body) in [
        (Method::PUT, &one, "application/json", whole.as_str()),
        (Method::PATCH, &one, MERGE, merged),
        (Method::PATCH, &by, APPLY, whole.as_str()),
    ] {
        let strict = format!("{path}{}fieldValidation=Strict", if path == &by { "&" } else { "?" });
        let refused = world.send_as(method.clone(), &strict, kind, body.to_owned()).await;
        assert_eq!(refused.code, 400, "{kind}: {}", refused.text);
        let warned = world.send_as(method, path, kind, body.to_owned()).await;
        assert_eq!((warned.code.as_u16(), warnings(&warned).len()), (200, 1), "{}", warned.text);
    }
}

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
