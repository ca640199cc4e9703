//! Create, replace, patch and delete.
use crate::support::{APPLY, JSON_PATCH, MERGE, WORKLOADS, World, workload};
use axum::http::Method;
use serde_json::{Value, json};

fn one(name: &str) -> String {
    format!("{WORKLOADS}/{name}")
}

/// A kind that nothing else writes while no agent is there: versions stay where a test leaves them.
const NODES: &str = "/apis/infra.orrery.dev/v1/nodes";

fn node(name: &str) -> Value {
    json!({ "apiVersion": "infra.orrery.dev/v1", "kind": "Node", "metadata": { "name": name }, "spec": {} })
}

#[tokio::test]
async fn bodies_may_be_json_yaml_or_say_nothing() {
    let world = World::start().await;
    let text = workload("a").to_string();
    let bare = world.request(Method::POST, WORKLOADS, &[], text);
    assert_eq!(world.send(bare).await.expect(201)["metadata"]["name"], "a");
    let yaml = "apiVersion: apps.orrery.dev/v1\nkind: Workload\nmetadata: {name: b}\nspec:\n  process: {command: sleep}\n  placement: {nodes: [n1]}\n";
    world.send_as(Method::POST, WORKLOADS, "application/yaml", yaml).await.expect(201);
    let typeless = json!({ "metadata": { "name": "c" }, "spec": workload("c")["spec"] });
    assert_eq!(world.post(WORKLOADS, &typeless).await.expect(201)["kind"], "Workload");
    let mut generated = workload("");
    generated["metadata"] = json!({ "generateName": "job-" });
    let made = world.post(WORKLOADS, &generated).await.expect(201);
    let name = made["metadata"]["name"].as_str().expect("a name");
    assert!(name.starts_with("job-") && name.len() == 9, "{name}");
    assert_eq!(made["metadata"]["generateName"], "job-");
    let read = world.get(&one(name)).await.expect(200);
    assert_eq!(read["metadata"]["generateName"], "job-", "it stays");
}

#[tokio::test]
async fn a_dry_run_stores_nothing() {
    let world = World::start().await;
    world.post(&format!("{WORKLOADS}?dryRun=All"), &workload("a")).await.expect(201);
    world.get(&one("a")).await.expect(404);
    world.post(NODES, &node("n1")).await.expect(201);
    let before = world.get(&format!("{NODES}/n1")).await.expect(200);
    let patch = json!({ "metadata": { "labels": { "x": "y" } } });
    let would = world.patch(&format!("{NODES}/n1?dryRun=All"), MERGE, &patch).await.expect(200);
    assert_eq!(would["metadata"]["labels"]["x"], "y");
    assert_eq!(would["metadata"]["resourceVersion"], before["metadata"]["resourceVersion"]);
    world.delete(&format!("{NODES}/n1"), &json!({ "dryRun": ["All"] })).await.expect(200);
    assert_eq!(world.get(&format!("{NODES}/n1")).await.expect(200), before);
}

#[tokio::test]
async fn a_stale_version_is_a_conflict() {
    let world = World::start().await;
    let stale = world.post(NODES, &node("n1")).await.expect(201);
    let path = format!("{NODES}/n1");
    world.patch(&path, MERGE, &json!({ "metadata": { "labels": { "a": "1" } } })).await.expect(200);
    let conflict = world.put(&path, &stale).await.expect(409);
    assert_eq!(
        (&conflict["reason"], &conflict["details"]["kind"]),
        (&json!("Conflict"), &json!("nodes"))
    );
    let version = &stale["metadata"]["resourceVersion"];
    let patch = json!({ "metadata": { "resourceVersion": version, "labels": { "b": "2" } } });
    let patched = world.patch(&path, MERGE, &patch).await.expect(409);
    assert_eq!(patched["reason"], "Conflict");
    let words = "the object has been modified; please apply your changes to the latest version and try again";
    for refused in [&conflict, &patched] {
        let message = refused["message"].as_str().unwrap();
        assert!(message.contains(words), "programs look for these words: {message}");
    }
    let options = json!({ "preconditions": { "resourceVersion": version } });
    world.delete(&path, &options).await.expect(409);
    world.delete(&path, &json!({ "preconditions": { "uid": "other" } })).await.expect(409);
    // Without a version the last writer wins.
    world.put(&path, &node("n1")).await.expect(200);
    let gone = world.delete(&path, &json!({ "propagationPolicy": "Background" })).await.expect(200);
    assert_eq!((&gone["kind"], &gone["status"]), (&json!("Status"), &json!("Success")));
    assert_eq!(gone["details"]["uid"], stale["metadata"]["uid"]);
}

#[tokio::test]
async fn patches_of_every_kind_change_what_they_say() {
    let world = World::start().await;
    let mut object = workload("a");
    object["metadata"]["annotations"] = json!({ "note": "x" });
    world.post(WORKLOADS, &object).await.expect(201);
    let merge = json!({ "metadata": { "annotations": { "note": null } }, "spec": { "stopGraceSeconds": 5 } });
    let merged = world.patch(&one("a"), MERGE, &merge).await.expect(200);
    assert_eq!(merged["spec"]["stopGraceSeconds"], 5);
    assert_eq!(merged["metadata"].get("annotations"), None, "no empty map is left");
    assert_eq!(merged["spec"]["process"]["command"], "sleep");
    let operations = json!([
        { "op": "test", "path": "/spec/stopGraceSeconds", "value": 5 },
        { "op": "replace", "path": "/spec/process/args/0", "value": "90" },
        { "op": "add", "path": "/metadata/labels", "value": { "tier": "web" } },
    ]);
    let patched = world.patch(&one("a"), JSON_PATCH, &operations).await.expect(200);
    assert_eq!(patched["spec"]["process"]["args"], json!(["90"]));
    assert_eq!(patched["metadata"]["labels"]["tier"], "web");
    assert_eq!(patched["metadata"]["generation"], 3);
}

#[tokio::test]
async fn apply_creates_changes_and_takes_fragments() {
    let world = World::start().await;
    let path = format!("{}?fieldManager=me&force=true", one("a"));
    world.patch(&path, APPLY, &workload("a")).await.expect(201);
    world.patch(&path, APPLY, &workload("a")).await.expect(200);
    let yaml =
        "apiVersion: apps.orrery.dev/v1\nkind: Workload\nmetadata:\n  annotations: {note: x}\n";
    let other = format!("{}?fieldManager=notes", one("a"));
    let applied = world.send_as(Method::PATCH, &other, APPLY, yaml).await.expect(200);
    assert_eq!(applied["metadata"]["annotations"]["note"], "x");
    assert_eq!(applied["spec"]["process"]["command"], "sleep");
    let nobody = world.patch(&one("a"), APPLY, &workload("a")).await.expect(422);
    assert_eq!(nobody["details"]["causes"][0]["field"], "fieldManager");
    assert_eq!(nobody["details"]["kind"], "PatchOptions");
    let forced = format!("{}?force=true", one("a"));
    world.patch(&forced, MERGE, &json!({})).await.expect(422);
}

/// proves: HUB-13
#[tokio::test]
async fn the_status_is_a_resource_of_its_own() {
    let world = World::start().await;
    world.post(NODES, &node("n1")).await.expect(201);
    let path = format!("{NODES}/n1/status");
    let both = json!({ "metadata": { "labels": { "a": "1" } }, "status": { "hostname": "here" } });
    let patched = world.patch(&path, MERGE, &both).await.expect(200);
    assert_eq!(patched["status"]["hostname"], "here");
    assert_eq!(patched["metadata"].get("labels"), None, "only the status changes here");
    let patched = world
        .patch(&format!("{NODES}/n1"), MERGE, &json!({ "status": { "hostname": "there" } }))
        .await;
    assert_eq!(patched.expect(200)["status"]["hostname"], "here", "and only here");
    assert_eq!(world.get(&path).await.expect(200)["kind"], "Node");
    let mut whole = node("n1");
    whole["status"] = json!({});
    assert_eq!(world.put(&path, &whole).await.expect(200)["status"].get("hostname"), None);
}

/// Controllers tell by it that what they speak of has gone meanwhile.
#[tokio::test]
async fn an_applied_status_does_not_find_what_is_gone() {
    let world = World::start().await;
    let path = format!("{NODES}/n1/status?fieldManager=me");
    let mut declared = json!({
        "apiVersion": "infra.orrery.dev/v1", "kind": "Node", "metadata": { "name": "n1" },
        "status": { "hostname": "here" },
    });
    assert_eq!(world.patch(&path, APPLY, &declared).await.expect(404)["reason"], "NotFound");
    // Whoever means one object, and not whichever has its name, is told that it is not that one.
    declared["metadata"]["uid"] = json!("11111111-2222-3333-4444-555555555555");
    assert_eq!(world.patch(&path, APPLY, &declared).await.expect(409)["reason"], "Conflict");
    declared["metadata"] = json!({ "name": "n1", "resourceVersion": "5" });
    assert_eq!(world.patch(&path, APPLY, &declared).await.expect(409)["reason"], "Conflict");
}

#[tokio::test]
async fn unknown_fields_are_treated_as_asked() {
    let world = World::start().await;
    let mut object = workload("a");
    object["spec"]["replicaz"] = json!(3);
    let strict =
        world.post(&format!("{WORKLOADS}?fieldValidation=Strict"), &object).await.expect(400);
    let message = strict["message"].as_str().expect("text");
    assert!(
        message.contains("strict decoding error: unknown field \"spec.replicaz\""),
        "{message}"
    );
    let warned = world.post(&format!("{WORKLOADS}?fieldValidation=Warn"), &object).await;
    assert_eq!(warned.header("warning"), Some("299 - \"unknown field \\\"spec.replicaz\\\"\""));
    assert_eq!(warned.expect(201)["spec"].get("replicaz"), None);
    // A request that fails for another reason says both.
    let mut wrong = object.clone();
    wrong["metadata"]["name"] = json!("b");
    wrong["spec"]["stopGraceSeconds"] = json!(-1);
    let refused = world.post(WORKLOADS, &wrong).await;
    assert!(refused.header("warning").expect("a warning").contains("replicaz"));
    refused.expect(422);
    let patch = json!({ "spec": { "replicaz": 4 } });
    let ignored = world.patch(&format!("{}?fieldValidation=Ignore", one("a")), MERGE, &patch).await;
    assert_eq!((ignored.header("warning"), ignored.code.as_u16()), (None, 200));
    world.patch(&format!("{}?fieldValidation=Strict", one("a")), MERGE, &patch).await.expect(400);
}

#[tokio::test]
async fn finalizers_keep_an_object_until_they_are_gone() {
    let world = World::start().await;
    let mut object = node("n1");
    object["metadata"]["finalizers"] = json!(["example.com/hold"]);
    world.post(NODES, &object).await.expect(201);
    let path = format!("{NODES}/n1");
    let waiting = world.delete(&path, &json!({})).await.expect(200);
    assert_eq!(waiting["kind"], "Node");
    assert!(waiting["metadata"]["deletionTimestamp"].is_string());
    let again = world.post(NODES, &node("n1")).await.expect(409);
    assert!(
        again["message"].as_str().expect("text").starts_with("object is being deleted:"),
        "{again}"
    );
    let patch = json!([{ "op": "remove", "path": "/metadata/finalizers/0" }]);
    world.patch(&path, JSON_PATCH, &patch).await.expect(200);
    world.get(&path).await.expect(404);
}

#[tokio::test]
async fn a_collection_is_deleted_by_selector() {
    let world = World::start().await;
    for (name, team) in [("a", "x"), ("b", "x"), ("c", "y")] {
        let mut object = node(name);
        object["metadata"]["labels"] = json!({ "team": team });
        world.post(NODES, &object).await.expect(201);
    }
    let path = format!("{NODES}?labelSelector=team%3Dx");
    let dry = world.delete(&path, &json!({ "dryRun": ["All"] })).await.expect(200);
    assert_eq!(dry["items"].as_array().expect("items").len(), 2);
    let gone = world.delete(&path, &json!({})).await.expect(200);
    assert_eq!(
        (&gone["kind"], gone["items"].as_array().expect("items").len()),
        (&json!("NodeList"), 2)
    );
    let left = world.get(NODES).await.expect(200);
    assert_eq!(left["items"].as_array().expect("items").len(), 1);
}

/// As published: a list with one empty entry takes all managers away, an empty list none.
#[tokio::test]
async fn managers_are_cleared_by_one_empty_entry() {
    let world = World::start().await;
    let one = format!("{WORKLOADS}/web");
    let apply = format!("{one}?fieldManager=me");
    let declared = workload("web");
    let declare = || world.patch(&apply, APPLY, &declared);
    let managers = |found: &Value| -> Vec<String> {
        let entries = found["metadata"]["managedFields"].as_array().cloned().unwrap_or_default();
        entries.iter().map(|e| e["manager"].as_str().expect("text").to_owned()).collect()
    };
    assert_eq!(managers(&declare().await.expect(201)), ["me"]);
    let nothing = json!({ "metadata": { "managedFields": [] } });
    assert_eq!(managers(&world.patch(&one, MERGE, &nothing).await.expect(200)), ["me"]);
    let nobody = json!({ "metadata": { "managedFields": [{}] } });
    assert_eq!(managers(&world.patch(&one, MERGE, &nobody).await.expect(200)), [""; 0]);
    assert_eq!(managers(&declare().await.expect(200)), ["me"]);
    let place = "/metadata/managedFields";
    let operations = json!([{ "op": "replace", "path": place, "value": [{}] }]);
    assert_eq!(managers(&world.patch(&one, JSON_PATCH, &operations).await.expect(200)), [""; 0]);
    // Nobody is left to be in conflict with; what is changed in the same request belongs to who asks.
    let change = json!({
        "metadata": { "managedFields": [{}] }, "spec": { "stopGraceSeconds": 3 },
    });
    let changed = world.patch(&format!("{one}?fieldManager=ed"), MERGE, &change).await.expect(200);
    assert_eq!(managers(&changed), ["ed"]);
    let fields = &changed["metadata"]["managedFields"][0]["fieldsV1"];
    assert_eq!(*fields, json!({ "f:spec": { "f:stopGraceSeconds": {} } }));
    let status = format!("{one}/status");
    assert_eq!(managers(&world.patch(&status, MERGE, &nobody).await.expect(200)), ["ed"]);
}

/// What stands twice in what is declared is not one thing that was written twice.
#[tokio::test]
async fn an_apply_with_a_repeated_key_is_refused() {
    let world = World::start().await;
    let services = "/apis/mesh.orrery.dev/v1/namespaces/default/meshservices";
    let one = format!("{services}/web?fieldManager=me&force=true");
    let declared = |ports: Value| {
        json!({
            "apiVersion": "mesh.orrery.dev/v1",
            "kind": "MeshService",
            "metadata": { "name": "web" },
            "spec": { "ports": ports },
        })
    };
    let port = |number: u32| json!({ "name": "b", "port": number });
    world.patch(&one, APPLY, &declared(json!([port(81)]))).await.expect(201);
    let twice = declared(json!([port(81), port(82)]));
    let refused = world.patch(&one, APPLY, &twice).await.expect(422);
    let said = refused["message"].as_str().expect("a message");
    assert!(said.contains("Duplicate value") && said.contains("spec.ports[1].name"), "{said}");
    let found = world.get(&format!("{services}/web")).await.expect(200);
    assert_eq!(found["spec"]["ports"].as_array().expect("a list").len(), 1);
    assert_eq!(found["spec"]["ports"][0]["port"], 81);
}

/// Whoever deletes the first of a list does not mean the others.
#[tokio::test]
async fn a_part_of_a_collection_is_deleted() {
    let world = World::start().await;
    for name in ["a", "b", "c", "d"] {
        world.post(NODES, &node(name)).await.expect(201);
    }
    let listed = world.get(&format!("{NODES}?limit=1")).await.expect(200);
    let token = listed["metadata"]["continue"].as_str().expect("more").to_owned();
    let path = format!("{NODES}?limit=2&continue={token}");
    let deleted = world.delete(&path, &json!({})).await.expect(200);
    let names = |list: &Value| -> Vec<String> {
        let items = list["items"].as_array().expect("items").iter();
        items.map(|item| item["metadata"]["name"].as_str().expect("a name").to_owned()).collect()
    };
    assert_eq!(names(&deleted), ["b", "c"]);
    assert!(deleted["metadata"]["continue"].is_string(), "{}", deleted["metadata"]);
    assert_eq!(names(&world.get(NODES).await.expect(200)), ["a", "d"]);
    let deleted = world.delete(&format!("{NODES}?limit=1"), &json!({})).await.expect(200);
    assert_eq!(names(&deleted), ["a"]);
    assert_eq!(names(&world.get(NODES).await.expect(200)), ["d"]);
}

/// A client that has one sort of numbers writes 3.0 where another writes 3.
#[tokio::test]
async fn a_json_patch_tests_numbers_by_what_they_are_worth() {
    let world = World::start().await;
    let mut object = workload("a");
    object["spec"]["placement"] =
        json!({ "replicas": 3, "selector": { "matchLabels": { "a": "b" } } });
    world.post(WORKLOADS, &object).await.expect(201);
    let placement = json!({ "selector": { "matchLabels": { "a": "b" } }, "replicas": 3.0 });
    let test = |path: &str, value: Value| json!([{ "op": "test", "path": path, "value": value }]);
    let replicas = |value: Value| test("/spec/placement/replicas", value);
    for (patch, code) in [
        (replicas(json!(3.0)), 200),
        (test("/spec/placement", placement), 200),
        (replicas(json!(3.5)), 422),
        (replicas(json!("3")), 422),
    ] {
        world.patch(&one("a"), JSON_PATCH, &patch).await.expect(code);
    }
    let scale = format!("{}/scale", one("a"));
    world.patch(&scale, JSON_PATCH, &test("/spec/replicas", json!(3.0))).await.expect(200);
}
