//! Parts of objects that have paths of their own: scales and files.
use crate::support::{APPLY, JSON_PATCH, MERGE, TABLE, WORKLOADS, World, workload};
use axum::body::Body;
use axum::http::Method;
use serde_json::{Value, json};

const SCALE: &str = "/apis/apps.orrery.dev/v1/namespaces/default/workloads/a/scale";

fn counted(name: &str, replicas: i32) -> Value {
    let mut object = workload(name);
    object["spec"]["placement"] =
        json!({ "selector": { "matchLabels": { "a": "b" } }, "replicas": replicas });
    object
}

#[tokio::test]
async fn a_scale_is_read_and_written() {
    let world = World::start().await;
    world.post(WORKLOADS, &counted("a", 2)).await.expect(201);
    let scale = world.get(SCALE).await.expect(200);
    assert_eq!((&scale["apiVersion"], &scale["kind"]), (&json!("autoscaling/v1"), &json!("Scale")));
    assert_eq!(
        (&scale["spec"], &scale["status"]),
        (&json!({ "replicas": 2 }), &json!({ "replicas": 0 }))
    );
    assert_eq!(scale["metadata"]["namespace"], "default");
    let changed =
        world.patch(SCALE, MERGE, &json!({ "spec": { "replicas": 3 } })).await.expect(200);
    assert_eq!(changed["spec"]["replicas"], 3);
    let operations = json!([
        { "op": "test", "path": "/spec/replicas", "value": 3 },
        { "op": "replace", "path": "/spec/replicas", "value": 4 },
    ]);
    assert_eq!(
        world.patch(SCALE, JSON_PATCH, &operations).await.expect(200)["spec"]["replicas"],
        4
    );
    assert_eq!(world.put(SCALE, &scale).await.expect(409)["reason"], "Conflict", "it is older");
    // Clients that leave out zeros ask for none this way.
    let none = json!({ "apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": { "name": "a" }, "spec": {} });
    assert_eq!(world.put(SCALE, &none).await.expect(200)["spec"]["replicas"], 0);
    let object = world.get(&format!("{WORKLOADS}/a")).await.expect(200);
    assert_eq!(object["spec"]["placement"]["replicas"], 0);
    assert_eq!(object["metadata"]["generation"], 4);
    let dry = format!("{SCALE}?dryRun=All");
    assert_eq!(
        world.patch(&dry, MERGE, &json!({ "spec": { "replicas": 9 } })).await.expect(200)["spec"]["replicas"],
        9
    );
    assert_eq!(world.get(SCALE).await.expect(200)["spec"]["replicas"], 0);
    let table = world.get_as(SCALE, TABLE).await.expect(200);
    assert_eq!(table["rows"][0]["cells"][1], 0);
}

#[tokio::test]
async fn scales_that_make_no_sense_are_refused() {
    let world = World::start().await;
    world.post(WORKLOADS, &counted("a", 2)).await.expect(201);
    world.post(WORKLOADS, &workload("everywhere")).await.expect(201);
    let replicas = |value: Value| json!({ "spec": { "replicas": value } });
    for bad in [json!(-1), json!(1.5), json!("3"), json!(99_999_999_999_i64)] {
        assert_eq!(
            world.patch(SCALE, MERGE, &replicas(bad)).await.expect(422)["reason"],
            "Invalid"
        );
    }
    let refused = world.patch(SCALE, MERGE, &replicas(json!(10_001))).await.expect(422);
    assert_eq!(refused["details"]["causes"][0]["field"], "spec.placement.replicas");
    let numberless = format!("{WORKLOADS}/everywhere/scale");
    assert_eq!(world.get(&numberless).await.expect(422)["details"]["kind"], "Scale");
    let named = world.patch(&numberless, MERGE, &replicas(json!(3))).await.expect(422);
    assert_eq!(named["details"]["kind"], "Workload", "copies on named nodes cannot be counted");
    let declared = json!({ "spec": { "replicas": 3 } });
    world.patch(SCALE, APPLY, &declared).await.expect(422);
    let insisting = format!("{SCALE}?force=true");
    world.patch(&insisting, MERGE, &declared).await.expect(422);
    let typo = json!({ "spec": { "replicaz": 3 } });
    let strict = world.put(&format!("{SCALE}?fieldValidation=Strict"), &typo).await.expect(400);
    assert!(strict["message"].as_str().expect("text").contains("spec.replicaz"), "{strict}");
    world.get(&format!("{WORKLOADS}/absent/scale")).await.expect(404);
    world.post(SCALE, &declared).await.expect(405);
    world.get("/apis/infra.orrery.dev/v1/nodes/n1/scale").await.expect(404);
}

fn declared(replicas: i32) -> Value {
    json!({
        "apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": { "name": "a" },
        "spec": { "replicas": replicas },
    })
}

/// Whoever applies a scale owns the number and nothing else, and what the same manager declares of
/// the object itself stays its own.
#[tokio::test]
async fn a_scale_is_applied() {
    let world = World::start().await;
    let object = format!("{WORKLOADS}/a");
    let by = |path: &str, manager: &str| format!("{path}?fieldManager={manager}");
    let mut whole = counted("a", 2);
    whole["spec"]["placement"].as_object_mut().expect("placement").remove("replicas");
    whole["metadata"]["labels"] = json!({ "x": "y" });
    world.patch(&by(&object, "me"), APPLY, &whole).await.expect(201);
    let applied = world.patch(&by(SCALE, "me"), APPLY, &declared(3)).await.expect(200);
    assert_eq!((&applied["kind"], &applied["spec"]["replicas"]), (&json!("Scale"), &json!(3)));
    let found = world.get(&object).await.expect(200);
    assert_eq!(found["metadata"]["labels"]["x"], "y", "the rest stays");
    let managed = found["metadata"]["managedFields"].as_array().expect("managers").clone();
    let of = |part: &str| {
        let part = match part {
            "" => Value::Null,
            part => json!(part),
        };
        managed.iter().find(|entry| entry["subresource"] == part).expect("an entry")
    };
    let number = json!({ "f:spec": { "f:placement": { "f:replicas": {} } } });
    assert_eq!((&of("scale")["manager"], &of("scale")["fieldsV1"]), (&json!("me"), &number));
    assert_eq!(of("")["fieldsV1"]["f:metadata"]["f:labels"], json!({ "f:x": {} }));
    // Declared again without it, the object keeps the number that the scale declares.
    world.patch(&by(&object, "me"), APPLY, &whole).await.expect(200);
    assert_eq!(world.get(SCALE).await.expect(200)["spec"]["replicas"], 3);
}

#[tokio::test]
async fn an_applied_scale_meets_others() {
    let world = World::start().await;
    let by = |manager: &str| format!("{SCALE}?fieldManager={manager}");
    world.patch(&by("me"), APPLY, &declared(3)).await.expect(404);
    world.post(WORKLOADS, &counted("a", 2)).await.expect(201);
    let taken = format!("{}&force=true", by("me"));
    world.patch(&taken, APPLY, &declared(3)).await.expect(200);
    let conflict = world.patch(&by("other"), APPLY, &declared(4)).await.expect(409);
    let cause = &conflict["details"]["causes"][0];
    assert_eq!(
        (&cause["reason"], &cause["field"]),
        (&json!("FieldManagerConflict"), &json!(".spec.replicas"))
    );
    assert!(cause["message"].as_str().expect("text").contains("with subresource \"scale\""));
    world.patch(&by("other"), APPLY, &declared(3)).await.expect(200);
    let dry = format!("{}&force=true&dryRun=All", by("third"));
    let would = world.patch(&dry, APPLY, &declared(9)).await.expect(200);
    assert_eq!(would["spec"]["replicas"], 9);
    assert_eq!(world.get(SCALE).await.expect(200)["spec"]["replicas"], 3);
    let mut stale = declared(3);
    stale["metadata"]["resourceVersion"] = json!("1");
    world.patch(&by("me"), APPLY, &stale).await.expect(409);
}

const FILES: &str = "/apis/apps.orrery.dev/v1/namespaces/default/workloads/a/artifacts";

/// proves: HUB-11
#[tokio::test]
async fn files_are_kept_with_an_object() {
    let world = World::start().await;
    world.post(WORKLOADS, &workload("a")).await.expect(201);
    let put = async |path: &str, content: Vec<u8>| {
        world.send_as(Method::PUT, path, "application/octet-stream", content).await
    };
    let large = vec![7_u8; 3 << 20];
    let written = put(&format!("{FILES}/etc/app.conf"), b"a=1\n".to_vec()).await.expect(200);
    assert_eq!((&written["path"], &written["sizeBytes"]), (&json!("etc/app.conf"), &json!(4)));
    put(&format!("{FILES}/big.bin"), large.clone()).await.expect(200);
    let list = world.get(FILES).await.expect(200);
    let paths: Vec<&str> = list["items"]
        .as_array()
        .expect("items")
        .iter()
        .filter_map(|i| i["path"].as_str())
        .collect();
    assert_eq!((&list["kind"], paths), (&json!("ArtifactList"), vec!["big.bin", "etc/app.conf"]));
    let read = world.get_as(&format!("{FILES}/etc/app.conf"), "text/html").await;
    assert_eq!((read.code.as_u16(), read.text.as_str()), (200, "a=1\n"));
    assert_eq!(read.header("content-type"), Some("application/octet-stream"));
    let tag = read.header("etag").expect("a tag").to_owned();
    let known = [("if-none-match", tag.as_str())];
    let again = world.request(Method::GET, &format!("{FILES}/etc/app.conf"), &known, Body::empty());
    assert_eq!(world.send(again).await.code.as_u16(), 304);
    assert_eq!(world.get(&format!("{FILES}/big.bin")).await.text.len(), large.len());
    world.delete(&format!("{FILES}/big.bin"), &Value::Null).await.expect(200);
    let gone = world.get(&format!("{FILES}/big.bin")).await.expect(404);
    assert!(
        gone["message"].as_str().expect("text").contains("has no artifact \"big.bin\""),
        "{gone}"
    );
    for (path, code) in [("..%2Fx", 400), ("a%5Cb", 400), ("%00", 400)] {
        put(&format!("{FILES}/{path}"), b"x".to_vec()).await.expect(code);
    }
    let huge = vec![0_u8; (48 << 20) + 1];
    put(&format!("{FILES}/huge"), huge).await.expect(413);
    world.post(FILES, &json!({})).await.expect(405);
    world.get(&format!("{WORKLOADS}/absent/artifacts")).await.expect(404);
    world.get("/apis/core.orrery.dev/v1/projects/default/artifacts").await.expect(404);
}

#[tokio::test]
async fn discovery_names_the_parts() {
    let world = World::start().await;
    let list = world.get("/apis/apps.orrery.dev/v1").await.expect(200);
    let found = |name: &str| {
        let mut all = list["resources"].as_array().expect("resources").iter();
        all.find(|resource| resource["name"] == name).cloned().expect(name)
    };
    let scale = found("workloads/scale");
    assert_eq!(
        (&scale["group"], &scale["version"], &scale["kind"]),
        (&json!("autoscaling"), &json!("v1"), &json!("Scale"))
    );
    assert_eq!(scale["verbs"], json!(["get", "patch", "update"]));
    assert_eq!(found("workloads/artifacts")["kind"], "ArtifactList");
    assert_eq!(found("workloads/status").get("group"), None);
}
