//! What there is, in every form that clients ask for it.
use crate::support::World;
use axum::body::Body;
use axum::http::Method;
use serde_json::{Value, json};

const V2: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList,application/json";
const V2BETA1: &str =
    "application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList,application/json";

fn find<'a>(items: &'a Value, key: &str, value: &str) -> &'a Value {
    let found = items
        .as_array()
        .expect("a list")
        .iter()
        .find(|item| item.pointer(key) == Some(&json!(value)));
    found.unwrap_or_else(|| panic!("{value} is not in {items}"))
}

#[tokio::test]
async fn aggregated_discovery_is_negotiated() {
    let world = World::start().await;
    for (accept, version) in [(V2, "v2"), (V2BETA1, "v2beta1")] {
        let answer = world.get_as("/apis?timeout=32s", accept).await;
        let kind =
            format!("application/json;g=apidiscovery.k8s.io;v={version};as=APIGroupDiscoveryList");
        assert_eq!(answer.header("content-type"), Some(kind.as_str()));
        assert_eq!(answer.header("vary"), Some("Accept"));
        let value = answer.expect(200);
        assert_eq!(value["apiVersion"], format!("apidiscovery.k8s.io/{version}"));
        let apps = find(&value["items"], "/metadata/name", "apps.orrery.dev");
        let workloads = find(&apps["versions"][0]["resources"], "/resource", "workloads");
        assert_eq!(workloads["scope"], "Namespaced");
        assert_eq!(workloads["shortNames"], json!(["wl"]));
        assert_eq!(workloads["subresources"][0]["subresource"], "status");
    }
}

/// A 304 with a content type would spoil what the client has in its cache.
#[tokio::test]
async fn what_a_client_knows_is_not_sent_again() {
    let world = World::start().await;
    let first = world.get_as("/apis", V2).await;
    let tag = first.header("etag").expect("a tag").to_owned();
    let headers = [("accept", V2), ("if-none-match", tag.as_str())];
    let again = world.send(world.request(Method::GET, "/apis", &headers, Body::empty())).await;
    assert_eq!(again.code.as_u16(), 304);
    assert_eq!((again.header("content-type"), again.text.as_str()), (None, ""));
    assert_eq!(again.header("etag"), Some(tag.as_str()));
    let headers = [("accept", V2), ("if-none-match", "\"other\"")];
    let other = world.send(world.request(Method::GET, "/apis", &headers, Body::empty())).await;
    assert_eq!(other.code.as_u16(), 200);
}

/// Megabytes that kubectl asks for with every second command.
#[tokio::test]
async fn descriptions_that_a_client_knows_are_not_sent_again() {
    let world = World::start().await;
    let protobuf = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf";
    let json = "application/json";
    for (path, accept) in [("/openapi/v3", json), ("/openapi/v2", json), ("/openapi/v2", protobuf)]
    {
        let ask = async |tag: &str| {
            let headers = [("accept", accept), ("if-none-match", tag)];
            world.client.request(world.request(Method::GET, path, &headers, Body::empty())).await
        };
        let first = ask("\"other\"").await.expect("an answer");
        assert_eq!(first.status().as_u16(), 200);
        let tag = first.headers()["etag"].to_str().expect("a tag").to_owned();
        let again = ask(&tag).await.expect("an answer");
        assert_eq!(again.status().as_u16(), 304, "{path}");
        assert_eq!(again.headers().get("content-type"), None);
        assert_eq!(again.headers()["etag"], tag.as_str());
    }
}

#[tokio::test]
async fn plain_discovery_walks_from_groups_to_resources() {
    let world = World::start().await;
    assert_eq!(world.get("/api").await.expect(200)["versions"], json!(["v1"]));
    let groups = world.get("/apis").await.expect(200);
    let apps = find(&groups["groups"], "/name", "apps.orrery.dev");
    assert_eq!(apps["preferredVersion"]["groupVersion"], "apps.orrery.dev/v1");
    assert_eq!(world.get("/apis/apps.orrery.dev").await.expect(200)["kind"], "APIGroup");
    let list = world.get("/apis/apps.orrery.dev/v1").await.expect(200);
    assert_eq!(
        (&list["kind"], &list["groupVersion"]),
        (&json!("APIResourceList"), &json!("apps.orrery.dev/v1"))
    );
    assert_eq!(find(&list["resources"], "/name", "workloads")["namespaced"], true);
    assert_eq!(find(&list["resources"], "/name", "workloads/status")["kind"], "Workload");
    let instances = find(&list["resources"], "/name", "workloadinstances");
    assert_eq!(instances["verbs"], json!(["get", "list", "watch"]));
    let core = world.get("/api/v1").await.expect(200);
    assert_eq!(find(&core["resources"], "/name", "namespaces")["shortNames"], json!(["ns"]));
    for path in
        ["/apis/nope.example", "/apis/nope.example/v1", "/api/v2", "/apis/apps.orrery.dev/v9"]
    {
        assert_eq!(world.get(path).await.expect(404)["reason"], "NotFound", "{path}");
    }
}

#[tokio::test]
async fn versions_and_health_answer_plainly() {
    let world = World::start().await;
    for path in ["/version", "/version/", "/version?timeout=32s"] {
        let version = world.get(path).await.expect(200);
        assert!(version.as_object().expect("fields").values().all(Value::is_string), "{version}");
        assert!(version["gitVersion"].as_str().expect("text").starts_with("v1."));
    }
    for path in ["/livez", "/readyz", "/healthz"] {
        assert_eq!(world.get(path).await.text, "ok");
    }
}

/// proves: HUB-18
#[tokio::test]
async fn openapi_documents_are_found_through_their_index() {
    let world = World::start().await;
    let index = world.get("/openapi/v3?timeout=32s").await.expect(200);
    for (path, place) in index["paths"].as_object().expect("paths") {
        let address = place["serverRelativeURL"].as_str().expect("an address");
        let answer = world.get(&format!("{address}&timeout=32s")).await;
        assert!(answer.header("cache-control").expect("a header").contains("immutable"), "{path}");
        assert_eq!(answer.expect(200)["openapi"], "3.0.0");
    }
    let stale = world.get("/openapi/v3/apis/apps.orrery.dev/v1?hash=OLD").await;
    assert_eq!(stale.code.as_u16(), 301);
    let address = stale.header("location").expect("a place");
    assert_eq!(index["paths"]["apis/apps.orrery.dev/v1"]["serverRelativeURL"], address);
    assert_eq!(world.get("/openapi/v3/apis/nope/v1").await.expect(404)["code"], 404);
    let swagger = world.get("/openapi/v2").await.expect(200);
    assert_eq!(swagger["swagger"], "2.0");
}

#[tokio::test]
async fn people_learn_who_they_are_and_what_they_may_do() {
    let world = World::start().await;
    let access = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";
    let asked =
        json!({ "spec": { "resourceAttributes": { "verb": "get", "resource": "workloads" } } });
    let answer = world.post(access, &asked).await.expect(201);
    assert_eq!(answer["status"]["allowed"], true);
    assert_eq!(answer["kind"], "SelfSubjectAccessReview");
    let rules =
        world.post("/apis/authorization.k8s.io/v1/selfsubjectrulesreviews", &json!({})).await;
    assert_eq!(rules.expect(201)["status"]["resourceRules"][0]["verbs"], json!(["*"]));
    let me = world.post("/apis/authentication.k8s.io/v1/selfsubjectreviews", &json!({})).await;
    assert_eq!(me.expect(201)["status"]["userInfo"]["username"], "system:anonymous");
    world.get(access).await.expect(405);
    world.post(access, &json!({ "spec": {} })).await.expect(422);
    world.post(access, &json!({ "kind": "Pod", "spec": {} })).await.expect(400);
}

/// Scrapers that do not know OpenMetrics say so by not asking for it.
#[tokio::test]
async fn figures_are_told_in_the_words_that_are_asked_for() {
    let world = World::start().await;
    let open =
        "application/openmetrics-text;version=1.0.0,text/plain;version=0.0.4;q=0.5,*/*;q=0.1";
    let answer = world.get_as("/metrics", open).await;
    let kind = answer.header("content-type").expect("a type");
    assert!(kind.starts_with("application/openmetrics-text"), "{kind}");
    assert!(answer.text.contains("# TYPE orrery_build info\n") && answer.text.ends_with("# EOF\n"));
    for accept in ["text/plain;version=0.0.4", "*/*"] {
        let answer = world.get_as("/metrics", accept).await;
        let kind = answer.header("content-type");
        assert_eq!(kind, Some("text/plain; version=0.0.4; charset=utf-8"));
        let families = answer.text.lines().filter_map(|line| line.strip_prefix("# TYPE "));
        let counters: Vec<&str> = families.filter_map(|one| one.strip_suffix(" counter")).collect();
        assert!(!counters.is_empty() && counters.iter().all(|name| name.ends_with("_total")));
        assert!(!answer.text.contains("# EOF") && answer.text.contains("orrery_build_info{"));
    }
}
