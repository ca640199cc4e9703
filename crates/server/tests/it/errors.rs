//! Everything that can be asked wrongly, with the code and the `Status` that answers it.
use crate::support::{APPLY, JSON_PATCH, MERGE, WORKLOADS, World, workload};
use axum::body::Body;
use axum::http::Method;
use orrery_hub::patch::OPERATIONS_MAX;
use serde_json::{Value, json};

struct Case<'a> {
    method: Method,
    path: &'a str,
    headers: &'a [(&'a str, &'a str)],
    body: String,
    code: u16,
    reason: &'a str,
    /// Part of the message.
    message: &'a str,
}

fn case<'a>(
    method: Method,
    path: &'a str,
    code: u16,
    reason: &'a str,
    message: &'a str,
) -> Case<'a> {
    Case { method, path, headers: &[], body: String::new(), code, reason, message }
}

async fn check(world: &World, case: Case<'_>) -> Value {
    let Case { method, path, headers, body, code, reason, message } = case;
    let about = format!("{method} {path} {headers:?}");
    let answer = world.send(world.request(method, path, headers, body)).await;
    assert_eq!(answer.code.as_u16(), code, "{about}: {}", answer.text);
    assert_eq!(answer.header("content-type"), Some("application/json"), "{about}");
    let status = answer.json();
    assert_eq!(
        (&status["kind"], &status["status"]),
        (&json!("Status"), &json!("Failure")),
        "{about}"
    );
    assert_eq!(
        (&status["reason"], &status["code"]),
        (&json!(reason), &json!(code)),
        "{about}: {status}"
    );
    assert!(status["message"].as_str().expect("text").contains(message), "{about}: {status}");
    status
}

#[tokio::test]
async fn paths_and_methods() {
    let world = World::start().await;
    let nowhere = "could not find the requested resource";
    let not_here = "does not allow this method";
    let instances = "/apis/apps.orrery.dev/v1/namespaces/default/workloadinstances";
    let cases = [
        case(Method::GET, "/", 404, "NotFound", nowhere),
        case(Method::GET, "/nope", 404, "NotFound", nowhere),
        case(Method::GET, "/apis/apps.orrery.dev/v1/poems", 404, "NotFound", nowhere),
        case(Method::GET, "/apis/apps.orrery.dev/v1/workloads/x", 404, "NotFound", nowhere),
        case(
            Method::GET,
            "/apis/infra.orrery.dev/v1/namespaces/default/nodes",
            404,
            "NotFound",
            nowhere,
        ),
        case(
            Method::GET,
            "/apis/apps.orrery.dev/v1/namespaces/default/workloads/x/poem",
            404,
            "NotFound",
            nowhere,
        ),
        case(
            Method::GET,
            "/apis/apps.orrery.dev/v1/namespaces/%ff/workloads",
            404,
            "NotFound",
            nowhere,
        ),
        case(Method::POST, "/apis", 405, "MethodNotAllowed", not_here),
        case(Method::POST, "/apis/apps.orrery.dev/v1/workloads", 405, "MethodNotAllowed", not_here),
        case(
            Method::DELETE,
            "/apis/apps.orrery.dev/v1/workloads",
            405,
            "MethodNotAllowed",
            not_here,
        ),
        case(Method::PUT, WORKLOADS, 405, "MethodNotAllowed", not_here),
        case(Method::POST, instances, 405, "MethodNotAllowed", "written by the server only"),
        case(Method::DELETE, instances, 405, "MethodNotAllowed", "written by the server only"),
    ];
    for case in cases {
        check(&world, case).await;
    }
}

/// HTTP wants every refusal of a method to say which there are.
#[tokio::test]
async fn a_refused_method_names_the_others() {
    let world = World::start().await;
    let one = |part: &str| format!("{WORKLOADS}/x{part}");
    let instances = "/apis/apps.orrery.dev/v1/namespaces/default/workloadinstances";
    for (path, expect) in [
        (WORKLOADS, "GET, HEAD, POST, DELETE"),
        ("/apis/apps.orrery.dev/v1/workloads", "GET, HEAD"),
        (&one(""), "GET, HEAD, PUT, PATCH, DELETE"),
        (&one("/status"), "GET, HEAD, PUT, PATCH"),
        (&one("/scale"), "GET, HEAD, PUT, PATCH"),
        (&one("/log"), "GET, HEAD"),
        (&one("/exec"), "GET"),
        (&one("/versions"), "GET, HEAD"),
        (&one("/artifacts/a"), "GET, HEAD, PUT, DELETE"),
        (instances, "GET, HEAD"),
        ("/apis/infra.orrery.dev/v1/nodes", "GET, HEAD, POST, DELETE"),
        ("/api/v1/namespaces", "GET, HEAD, POST"),
        ("/apis", "GET, HEAD"),
        ("/apis/authentication.k8s.io/v1/tokenreviews", "POST"),
    ] {
        let refused = world.send(world.request(Method::OPTIONS, path, &[], Body::empty())).await;
        assert_eq!((refused.code.as_u16(), refused.header("allow")), (405, Some(expect)), "{path}");
    }
    let odd = format!("{WORKLOADS}?limit=0.5");
    let odd_one = one("?dryRun=0");
    for (method, path) in [
        (Method::TRACE, &odd),
        (Method::PUT, &odd),
        (Method::TRACE, &odd_one),
        (Method::POST, &odd_one),
        (Method::DELETE, &one("/status?dryRun=0")),
    ] {
        let refused = world.send(world.request(method, path, &[], Body::empty())).await;
        assert_eq!(refused.code, 405, "whatever else is wrong: {}", refused.text);
    }
    assert_eq!(world.get(WORKLOADS).await.header("allow"), None, "where it is refused alone");
}

#[tokio::test]
async fn questions() {
    let world = World::start().await;
    let path = |query: &str| format!("{WORKLOADS}?{query}");
    let bad = [
        ("labelSelector=a+b", "label selector"),
        ("labelSelector=%3D", "label selector"),
        ("fieldSelector=spec.nope%3D1", "cannot be"),
        ("fieldSelector=nonsense", "field=value"),
        ("continue=%21%21", "continue token"),
        ("limit=x", "is no number"),
        ("watch=true&labelSelector=a+b", "label selector"),
    ];
    for (query, message) in bad {
        let message = if query.contains("nope") { "is not a field" } else { message };
        check(&world, case(Method::GET, &path(query), 400, "BadRequest", message)).await;
    }
    let headers: &[(&str, &str)] = &[("accept", "application/vnd.kubernetes.protobuf")];
    let refused =
        Case { headers, ..case(Method::GET, WORKLOADS, 406, "NotAcceptable", "application/json") };
    check(&world, refused).await;
}

#[tokio::test]
async fn objects_that_are_not_there_or_are_already() {
    let world = World::start().await;
    world.post(WORKLOADS, &workload("a")).await.expect(201);
    let absent = format!("{WORKLOADS}/x");
    let status = check(
        &world,
        case(Method::GET, &absent, 404, "NotFound", "workloads.apps.orrery.dev \"x\" not found"),
    )
    .await;
    let details = json!({ "name": "x", "group": "apps.orrery.dev", "kind": "workloads" });
    assert_eq!(status["details"], details);
    check(&world, case(Method::DELETE, &absent, 404, "NotFound", "not found")).await;
    let body = workload("x").to_string();
    check(&world, Case { body, ..case(Method::PUT, &absent, 404, "NotFound", "not found") }).await;
    let body = workload("a").to_string();
    check(
        &world,
        Case { body, ..case(Method::POST, WORKLOADS, 409, "AlreadyExists", "already exists") },
    )
    .await;
    let lost = "/apis/apps.orrery.dev/v1/namespaces/lost/workloads";
    let body = workload("a").to_string();
    let status = check(
        &world,
        Case { body, ..case(Method::POST, lost, 404, "NotFound", "namespaces \"lost\" not found") },
    )
    .await;
    assert_eq!(status["details"]["kind"], "namespaces");
    let inside = format!("{lost}/a");
    let applied = format!("{inside}?fieldManager=me");
    let (headers, body): (&[(&str, &str)], _) =
        (&[("content-type", APPLY)], workload("a").to_string());
    let missing = case(Method::PATCH, &applied, 404, "NotFound", "namespaces \"lost\" not found");
    check(&world, Case { headers, body, ..missing }).await;
    check(
        &world,
        case(Method::GET, &inside, 404, "NotFound", "workloads.apps.orrery.dev \"a\" not found"),
    )
    .await;
    let system = "/api/v1/namespaces/system";
    check(&world, case(Method::DELETE, system, 403, "Forbidden", "belongs to the installation"))
        .await;
}

#[tokio::test]
async fn invalid_objects_name_their_fields_and_their_kind() {
    let world = World::start().await;
    let mut object = workload("a");
    object["spec"] = json!({ "restartPolicy": "sometimes", "stopGraceSeconds": "ten" });
    let body = object.to_string();
    let status = check(
        &world,
        Case { body, ..case(Method::POST, WORKLOADS, 422, "Invalid", "spec.stopGraceSeconds") },
    )
    .await;
    assert_eq!(status["details"]["causes"][0]["reason"], "FieldValueTypeInvalid");
    object["spec"]["stopGraceSeconds"] = json!(10);
    let body = object.to_string();
    let status = check(
        &world,
        Case {
            body,
            ..case(
                Method::POST,
                WORKLOADS,
                422,
                "Invalid",
                "Workload.apps.orrery.dev \"a\" is invalid",
            )
        },
    )
    .await;
    assert_eq!(
        (&status["details"]["kind"], &status["details"]["name"]),
        (&json!("Workload"), &json!("a"))
    );
    let causes = status["details"]["causes"].as_array().expect("causes");
    let found: Vec<(&str, &str)> = causes
        .iter()
        .map(|cause| {
            (cause["field"].as_str().expect("field"), cause["reason"].as_str().expect("reason"))
        })
        .collect();
    assert!(found.contains(&("spec.restartPolicy", "FieldValueNotSupported")), "{found:?}");
    assert!(found.contains(&("spec.placement", "FieldValueRequired")), "{found:?}");
}

#[tokio::test]
async fn bodies() {
    let world = World::start().await;
    let post = |body: &str, code, reason, message| Case {
        body: body.to_owned(),
        ..case(Method::POST, WORKLOADS, code, reason, message)
    };
    let huge = format!("{{\"x\":\"{}\"}}", "x".repeat(4 << 20));
    let large = format!("{{\"x\":\"{}\"}}", "x".repeat(2 << 20));
    let deep = "[".repeat(100_000);
    let other = r#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a"}}"#;
    let elsewhere = r#"{"metadata":{"name":"a","namespace":"elsewhere"}}"#;
    let versioned = r#"{"metadata":{"name":"a","resourceVersion":"5"}}"#;
    let cases = [
        post("", 400, "BadRequest", "not valid JSON"),
        post("{", 400, "BadRequest", "not valid JSON"),
        post("[]", 400, "BadRequest", "must be an object"),
        post(&deep, 400, "BadRequest", "nested too deeply"),
        post(other, 400, "BadRequest", "does not match the expected API version"),
        post(elsewhere, 400, "BadRequest", "does not match the namespace"),
        post(versioned, 400, "BadRequest", "resourceVersion should not be set"),
        post(&huge, 413, "RequestEntityTooLarge", "too large"),
        post(&large, 413, "RequestEntityTooLarge", "too large"),
    ];
    for case in cases {
        check(&world, case).await;
    }
    let headers: &[(&str, &str)] = &[("content-type", "text/plain")];
    let body = workload("a").to_string();
    let refused = case(
        Method::POST,
        WORKLOADS,
        415,
        "UnsupportedMediaType",
        "accepted media types include: application/json",
    );
    check(&world, Case { headers, body, ..refused }).await;
    let headers: &[(&str, &str)] = &[("content-type", "application/yaml")];
    let two = post("a: 1\n---\nb: 2\n", 400, "BadRequest", "expected one object, found 2");
    check(&world, Case { headers, ..two }).await;
    let renamed = format!("{WORKLOADS}/b");
    let body = workload("a").to_string();
    let put =
        case(Method::PUT, &renamed, 400, "BadRequest", "does not match the name on the URL (b)");
    check(&world, Case { body, ..put }).await;
}

#[tokio::test]
async fn patches_that_do_not_apply() {
    let world = World::start().await;
    world.post(WORKLOADS, &workload("a")).await.expect(201);
    let path = format!("{WORKLOADS}/a?fieldManager=me");
    let operation = r#"{"op":"test","path":"/kind","value":"Workload"}"#;
    let many = format!("[{}]", vec![operation; OPERATIONS_MAX + 1].join(","));
    let cases = [
        (
            "application/strategic-merge-patch+json",
            "{}",
            415,
            "UnsupportedMediaType",
            "accepted media types include: application/json-patch+json, application/merge-patch+json, application/apply-patch+yaml",
        ),
        ("application/json", "{}", 415, "UnsupportedMediaType", "unknown format"),
        (MERGE, "[]", 400, "BadRequest", "must be a JSON object"),
        (MERGE, "{", 400, "BadRequest", "not valid JSON"),
        (MERGE, r#"{"metadata":{"name":"b"}}"#, 400, "BadRequest", "does not match the name"),
        (MERGE, r#"{"spec":{"placement":null}}"#, 422, "Invalid", "spec.placement"),
        (JSON_PATCH, "{}", 400, "BadRequest", "not a JSON patch"),
        (JSON_PATCH, r#"[{"op":"sing","path":"/a"}]"#, 400, "BadRequest", "not a JSON patch"),
        (JSON_PATCH, &many, 413, "RequestEntityTooLarge", "operations in one patch"),
        (
            JSON_PATCH,
            r#"[{"op":"test","path":"/spec/stopGraceSeconds","value":1}]"#,
            422,
            "Invalid",
            "test",
        ),
        (JSON_PATCH, r#"[{"op":"remove","path":"/spec/nope"}]"#, 422, "Invalid", "spec.nope"),
        (APPLY, "{", 400, "BadRequest", "not valid YAML"),
        (
            APPLY,
            r#"{"apiVersion":"apps.orrery.dev/v1","kind":"Workload","metadata":{"managedFields":[]}}"#,
            400,
            "BadRequest",
            "must be nil",
        ),
        (APPLY, "{}", 400, "BadRequest", "Object 'apiVersion' is missing"),
        (
            APPLY,
            r#"{"apiVersion":"apps.orrery.dev/v1","metadata":{"name":"a"}}"#,
            400,
            "BadRequest",
            "Object 'kind' is missing",
        ),
        (APPLY, "- a\n", 400, "BadRequest", "must be an object"),
    ];
    for (kind, body, code, reason, message) in cases {
        let headers: &[(&str, &str)] = &[("content-type", kind)];
        let body = body.to_owned();
        let failed = Case { headers, body, ..case(Method::PATCH, &path, code, reason, message) };
        check(&world, failed).await;
    }
}

/// A client that stops in the middle of its body gets nothing done and holds nothing up.
#[tokio::test]
async fn half_a_body_is_no_request() {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    let world = World::start().await;
    let mut half = tokio::net::TcpStream::connect(&world.address).await.expect("connected");
    let head = format!(
        "POST {WORKLOADS} HTTP/1.1\r\nhost: localhost\r\ncontent-length: 1000\r\n\r\n{{\"meta"
    );
    half.write_all(head.as_bytes()).await.expect("sent");
    half.shutdown().await.expect("closed for writing");
    let mut answer = Vec::new();
    half.read_to_end(&mut answer).await.expect("the server ends it");
    let text = String::from_utf8_lossy(&answer);
    assert!(text.is_empty() || text.starts_with("HTTP/1.1 400"), "{text}");
    assert_eq!(world.get(WORKLOADS).await.expect(200)["items"], json!([]));
}

/// Callers of unknown services of gRPC are told in their own language.
#[tokio::test]
async fn unknown_services_are_unimplemented() {
    let world = World::start().await;
    let headers = [("content-type", "application/grpc")];
    let answer = world
        .send(world.request(Method::POST, "/nope.v1.Nope/Call", &headers, Body::empty()))
        .await;
    assert_eq!((answer.code.as_u16(), answer.header("grpc-status")), (200, Some("12")));
}

#[tokio::test]
async fn oversized_heads_are_refused() {
    let world = World::start().await;
    let long = "x".repeat(1 << 20);
    let headers = [("x-long", long.as_str())];
    let answer = world.send(world.request(Method::GET, WORKLOADS, &headers, Body::empty())).await;
    assert_eq!(answer.code.as_u16(), 431);
    world.get(WORKLOADS).await.expect(200);
}

/// proves: HUB-05
#[tokio::test]
async fn an_object_has_one_controller() {
    let world = World::start().await;
    let owner = |name: &str| {
        json!({ "apiVersion": "apps.orrery.dev/v1", "kind": "Workload", "name": name,
                "uid": format!("uid-of-{name}"), "controller": true })
    };
    let mut object = workload("a");
    object["metadata"]["ownerReferences"] = json!([owner("b"), owner("c")]);
    let status = world.post(WORKLOADS, &object).await.expect(422);
    let text = status["message"].as_str().unwrap_or_default();
    assert!(text.contains("only one of the owners can have controller: true"), "{text}");
    object["metadata"]["ownerReferences"][1]["controller"] = json!(false);
    world.post(WORKLOADS, &object).await.expect(201);
}

#[tokio::test]
async fn an_apply_that_names_an_identity_makes_no_other() {
    let world = World::start().await;
    let path = format!("{WORKLOADS}/a?fieldManager=me");
    let mut object = workload("a");
    object["metadata"]["uid"] = json!("11111111-2222-3333-4444-555555555555");
    let status = world.patch(&path, APPLY, &object).await.expect(409);
    let text = status["message"].as_str().unwrap_or_default();
    assert!(text.contains("uid mismatch: the provided object specified uid 1111"), "{text}");
    object["metadata"] = json!({"name": "a", "resourceVersion": "5"});
    let status = world.patch(&path, APPLY, &object).await.expect(409);
    let text = status["message"].as_str().unwrap_or_default();
    assert!(text.contains("specified a resourceVersion, and no existing object"), "{text}");
    world.get(&format!("{WORKLOADS}/a")).await.expect(404);
}

#[tokio::test]
async fn definitions_of_kinds_can_only_be_read() {
    let world = World::start().await;
    let path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    let one = format!("{path}/workloads.apps.orrery.dev");
    let names = async |query: &str| {
        let list = world.get(&format!("{path}{query}")).await.expect(200);
        let items = list["items"].as_array().unwrap().clone();
        items.iter().map(|item| item["metadata"]["name"].to_string()).collect::<Vec<_>>()
    };
    let all = names("").await;
    assert!(
        all.is_sorted() && all.contains(&"\"workloads.apps.orrery.dev\"".to_owned()),
        "{all:?}"
    );
    assert!(!all.iter().any(|name| name.contains("leases")), "what every server has built in");
    let only = names("?fieldSelector=metadata.name%3Dworkloads.apps.orrery.dev").await;
    assert_eq!(only, ["\"workloads.apps.orrery.dev\""]);
    let parents = names("?labelSelector=applyset.kubernetes.io%2Fis-parent-type%3Dtrue").await;
    assert!(parents.len() < all.len() && parents.iter().any(|name| name.contains("secrets")));

    let definition = world.get(&one).await.expect(200);
    let version = &definition["spec"]["versions"][0];
    assert_eq!(
        (&definition["spec"]["scope"], &version["name"], &version["storage"]),
        (&json!("Namespaced"), &json!("v1"), &json!(true))
    );
    let scale = json!({
        "specReplicasPath": ".spec.placement.replicas", "statusReplicasPath": ".status.running",
    });
    assert_eq!(version["subresources"], json!({ "status": {}, "scale": scale }));
    let splits = world.get(&format!("{path}/trafficsplits.split.smi-spec.io")).await.expect(200);
    let versions = splits["spec"]["versions"].as_array().unwrap();
    let stored = versions.iter().filter(|version| version["storage"] == true).count();
    assert!(1 < versions.len() && stored == 1, "{splits}");

    assert_eq!(
        world.get(&format!("{path}/poems.example.com")).await.expect(404)["reason"],
        "NotFound"
    );
    world.get(&format!("{path}?watch=true")).await.expect(405);
    world.get(&format!("{path}?fieldSelector=spec.group%3Da")).await.expect(400);
    for status in [
        world.post(path, &json!({})).await.expect(404),
        world.delete(&one, &json!({})).await.expect(404),
    ] {
        assert_eq!(status["kind"], "Status");
    }
}
