//! Finer points of the dialect, in which tools notice every difference.
use crate::impersonation::grant;
use crate::support::{APPLY, Answer, MERGE, WORKLOADS, World, project, workload};
use axum::body::Body;
use axum::http::Method;
use orrery_hub::ObjectName;
use orrery_proto::core::v1::{AccessRule, Role};
use serde_json::{Value, json};

fn warnings(answer: &Answer) -> Vec<&str> {
    answer.headers.get_all("warning").iter().map(|value| value.to_str().unwrap()).collect()
}

/// A workload in which one field stands twice.
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

/// Who sends an empty declaration by accident does not lose what they have declared.
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
async fn options_that_make_no_sense_are_refused_by_name() {
    let world = World::start().await;
    world.post(WORKLOADS, &workload("a")).await.expect(201);
    let one = format!("{WORKLOADS}/a");
    let check = async |method: Method, path: &str, code: u16, message: &str| {
        let body = workload("a").to_string();
        let answer = world.send_as(method, path, "application/json", body).await.expect(code);
        let said = answer["message"].as_str().unwrap();
        assert!(said.contains(message), "{path}: {said}");
    };
    let invalid = |kind: &str| format!("{kind}.meta.k8s.io \"\" is invalid");
    check(Method::POST, &format!("{WORKLOADS}?dryRun=Some"), 422, &invalid("CreateOptions")).await;
    check(Method::PUT, &format!("{one}?fieldValidation=No"), 422, &invalid("UpdateOptions")).await;
    let long = "m".repeat(129);
    let path = format!("{one}?fieldManager={long}");
    check(Method::PUT, &path, 422, "fieldManager: Too long").await;
    let delete = async |query: &str, body: Value, code: u16, message: &str| {
        let answer = world.delete(&format!("{one}{query}"), &body).await.expect(code);
        let said = answer["message"].as_str().unwrap();
        assert!(said.contains(message), "{query}: {said}");
    };
    delete("?gracePeriodSeconds=abc", json!({}), 400, "gracePeriodSeconds").await;
    let both = "orphanDependents and propagationPolicy cannot be both set";
    delete("?orphanDependents=true&propagationPolicy=Orphan", json!({}), 422, both).await;
    let options = json!({ "orphanDependents": false, "propagationPolicy": "Background" });
    delete("", options, 422, both).await;
    world.get(&one).await.expect(200);

    let selector = format!("{WORKLOADS}?labelSelector=tier%20in%20()");
    world.get(&selector).await.expect(400);
    let zipped = [("content-type", "application/json"), ("content-encoding", "gzip")];
    let request = world.request(Method::POST, WORKLOADS, &zipped, Body::from("\u{1f}"));
    let refused = world.send(request).await.expect(415);
    assert!(
        refused["message"].as_str().unwrap().contains("Content-Encoding \"gzip\""),
        "{refused}"
    );
    let watch = format!("{WORKLOADS}?watch=true");
    let refused = world.get_as(&watch, "application/yaml").await.expect(406);
    assert_eq!(refused["reason"], "NotAcceptable");
    assert_eq!(world.get("/version").await.expect(200)["platform"].as_str().unwrap(), {
        match std::env::consts::ARCH {
            "x86_64" => "linux/amd64",
            "aarch64" => "linux/arm64",
            other => panic!("name {other} as Go does"),
        }
    });
}

#[tokio::test]
async fn a_namespace_that_goes_says_so_at_once() {
    let world = World::start().await;
    let projects = "/apis/core.orrery.dev/v1/projects";
    world.post(projects, &project("demo")).await.expect(201);
    let place = "/apis/apps.orrery.dev/v1/namespaces/demo/workloads";
    let mut held = workload("held");
    held["metadata"]["finalizers"] = json!(["example.com/hold"]);
    world.post(place, &held).await.expect(201);
    let going = world.delete("/api/v1/namespaces/demo", &json!({})).await.expect(200);
    assert_eq!(
        (&going["kind"], &going["status"]["phase"]),
        (&"Namespace".into(), &"Terminating".into())
    );
}

/// Who may read one object finds it in lists and watches, too, as `kubectl wait` and informers ask for it.
#[tokio::test]
async fn a_rule_for_one_name_holds_where_it_is_selected() {
    let world = World::start().await;
    for name in ["one", "two"] {
        world.post(WORKLOADS, &workload(name)).await.expect(201);
    }
    let rule = AccessRule {
        verbs: vec!["get".into(), "list".into(), "watch".into()],
        groups: vec!["apps".into()],
        resources: vec!["workloads".into()],
        names: vec!["one".into()],
    };
    grant(&world.hub, "bob", rule).await;
    let bob = [("impersonate-user", "bob")];
    let list = async |query: &str| {
        let path = format!("{WORKLOADS}{query}");
        world.send(world.request(Method::GET, &path, &bob, Body::empty())).await
    };
    let one = "?fieldSelector=metadata.name%3Done";
    let found = crate::access::until("the binding counts", async || {
        let answer = list(one).await;
        (answer.code == 200).then(|| answer.json())
    })
    .await;
    let names: Vec<_> =
        found["items"].as_array().unwrap().iter().map(|i| &i["metadata"]["name"]).collect();
    assert_eq!(names, ["one"]);
    let path = format!("{WORKLOADS}{one}&watch=true");
    let mut events = world.watch_with(&path, &bob).await;
    assert_eq!(events.next().await.unwrap()["object"]["metadata"]["name"], "one");
    for other in [
        "",
        "?fieldSelector=metadata.name%3Dtwo",
        "?fieldSelector=metadata.name!%3Done",
        "?fieldSelector=nonsense",
        "?watch=true",
        "?watch=true&fieldSelector=metadata.name%3Dtwo",
    ] {
        list(other).await.expect(403);
    }
    let path = format!("{WORKLOADS}{one}");
    world.send(world.request(Method::DELETE, &path, &bob, Body::empty())).await.expect(403);
    // It ends with the role, like any other.
    let roles = world.hub.resources::<Role>().unwrap();
    roles.delete(&ObjectName::new("system", "bob-workloads")).await.unwrap();
    let mut last = events.next().await;
    while last.as_ref().is_some_and(|event| event["type"] != "ERROR") {
        last = events.next().await;
    }
    assert_eq!(last.unwrap()["object"]["code"], 403);
}

/// A name that means two resources makes kubectl warn.
#[tokio::test]
async fn a_short_name_means_one_resource() {
    let world = World::start().await;
    let core = world.get("/api/v1").await.expect(200);
    let own = world.get("/apis/core.orrery.dev/v1").await.expect(200);
    let with = |list: &Value| {
        let all = list["resources"].as_array().unwrap();
        all.iter()
            .filter(|r| r["shortNames"].as_array().is_some_and(|n| n.contains(&json!("ev"))))
            .count()
    };
    assert_eq!((with(&core), with(&own)), (1, 0));
}

/// What somebody may do is told in the words by which they find it.
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
