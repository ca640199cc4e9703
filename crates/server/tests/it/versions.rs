//! One kind in several versions: each is discovered, and whatever is done through one is done to the
//! same object.
use crate::support::{APPLY, JSON_PATCH, MERGE, World, project};
use serde_json::{Value, json};

const GROUP: &str = "split.smi-spec.io";
const VERSIONS: [&str; 4] = ["v1alpha1", "v1alpha2", "v1alpha3", "v1alpha4"];
const AGGREGATED: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";

fn splits(version: &str) -> String {
    format!("/apis/{GROUP}/{version}/namespaces/shop/trafficsplits")
}

fn one(version: &str, name: &str) -> String {
    format!("{}/{name}", splits(version))
}

fn split(version: &str, name: &str, service: &str) -> Value {
    json!({
        "apiVersion": format!("{GROUP}/{version}"), "kind": "TrafficSplit",
        "metadata": { "name": name },
        "spec": { "service": service, "backends": [{ "service": "b", "weight": 1 }] },
    })
}

async fn world() -> World {
    let world = World::start().await;
    world.post("/apis/core.orrery.dev/v1/projects", &project("shop")).await.expect(201);
    world
}

/// What every version says of an object, in the words of that version.
async fn seen(world: &World, name: &str) -> Vec<Value> {
    let mut services = Vec::new();
    for version in VERSIONS {
        let found = world.get(&one(version, name)).await.expect(200);
        assert_eq!(found["apiVersion"], format!("{GROUP}/{version}"));
        services.push(found["spec"]["service"].clone());
    }
    services
}

#[tokio::test]
async fn every_version_of_a_kind_is_discovered() {
    let world = World::start().await;
    let group = world.get(&format!("/apis/{GROUP}")).await.expect(200);
    let named: Vec<&str> = group["versions"]
        .as_array()
        .expect("versions")
        .iter()
        .filter_map(|version| version["version"].as_str())
        .collect();
    assert_eq!(group["preferredVersion"]["version"], *named.first().expect("one"));
    let whole = world.get_as("/apis", AGGREGATED).await.expect(200);
    let items = whole["items"].as_array().expect("items");
    let aggregated = items.iter().find(|item| item["metadata"]["name"] == GROUP).expect("it");
    for version in VERSIONS {
        assert!(named.contains(&version), "{version} is not in {named:?}");
        let list = world.get(&format!("/apis/{GROUP}/{version}")).await.expect(200);
        let resources = list["resources"].as_array().expect("resources");
        let found = resources.iter().find(|r| r["name"] == "trafficsplits").expect("listed");
        assert_eq!((&found["kind"], &found["namespaced"]), (&json!("TrafficSplit"), &json!(true)));
        let verbs = found["verbs"].as_array().expect("verbs");
        assert!(verbs.contains(&json!("patch")) && verbs.contains(&json!("watch")), "{verbs:?}");
        let versions = aggregated["versions"].as_array().expect("versions");
        let same = versions.iter().find(|v| v["version"] == version).expect("aggregated");
        assert_eq!(same["resources"][0]["responseKind"]["version"], version);
        let document = format!("/openapi/v3/apis/{GROUP}/{version}");
        assert!(world.get(&document).await.expect(200)["paths"].to_string().contains(version));
    }
}

#[tokio::test]
async fn what_is_written_through_one_version_is_read_through_all() {
    let world = world().await;
    for (place, version) in VERSIONS.into_iter().enumerate() {
        let name = format!("of-{version}");
        let other = VERSIONS[(place + 1) % VERSIONS.len()];
        let created = world.post(&splits(version), &split(version, &name, "a")).await.expect(201);
        let uid = created["metadata"]["uid"].clone();
        assert_eq!(seen(&world, &name).await, vec![json!("a"); 4], "created through {version}");

        let mut whole = world.get(&one(other, &name)).await.expect(200);
        whole["spec"]["service"] = json!("b");
        // Somebody writes its status meanwhile.
        whole["metadata"].as_object_mut().expect("metadata").remove("resourceVersion");
        world.put(&one(other, &name), &whole).await.expect(200);
        assert_eq!(seen(&world, &name).await, vec![json!("b"); 4], "replaced through {other}");

        let change = json!({ "spec": { "service": "c" } });
        world.patch(&one(version, &name), MERGE, &change).await.expect(200);
        let operations = json!([{ "op": "test", "path": "/spec/service", "value": "c" },
            { "op": "replace", "path": "/spec/service", "value": "d" }]);
        world.patch(&one(other, &name), JSON_PATCH, &operations).await.expect(200);
        assert_eq!(seen(&world, &name).await, vec![json!("d"); 4], "patched");

        let apply = format!("{}?fieldManager=me&force=true", one(version, &name));
        world.patch(&apply, APPLY, &split(version, &name, "e")).await.expect(200);
        assert_eq!(seen(&world, &name).await, vec![json!("e"); 4], "applied through {version}");
        // What is of another version than the path says is not taken for one of it.
        let mistaken = split(other, &name, "f");
        world.put(&one(version, &name), &mistaken).await.expect(400);
        let found = world.get(&one(other, &name)).await.expect(200);
        assert_eq!(found["metadata"]["uid"], uid, "it is one object");
    }
    for version in VERSIONS {
        let list = world.get(&splits(version)).await.expect(200);
        assert_eq!(list["items"].as_array().expect("items").len(), VERSIONS.len(), "{version}");
    }
    for version in VERSIONS {
        world.delete(&one(version, &format!("of-{version}")), &json!({})).await.expect(200);
    }
    for version in VERSIONS {
        assert_eq!(world.get(&splits(version)).await.expect(200)["items"], json!([]));
    }
}

/// A conflict is one whichever version it comes through.
#[tokio::test]
async fn managers_of_different_versions_know_of_each_other() {
    let world = world().await;
    let by = |version: &str, manager: &str| format!("{}?fieldManager={manager}", one(version, "x"));
    world.patch(&by("v1alpha4", "a"), APPLY, &split("v1alpha4", "x", "one")).await.expect(201);
    let conflict = world.patch(&by("v1alpha2", "b"), APPLY, &split("v1alpha2", "x", "two")).await;
    let conflict = conflict.expect(409);
    let causes = conflict["details"]["causes"].to_string();
    assert!(causes.contains(".spec.service") && causes.contains("\\\"a\\\""), "{conflict}");
    world.patch(&by("v1alpha2", "b"), APPLY, &split("v1alpha2", "x", "one")).await.expect(200);
    let shared = world.get(&one("v1alpha3", "x")).await.expect(200);
    assert_eq!(shared["metadata"]["managedFields"].as_array().expect("managers").len(), 2);
}
