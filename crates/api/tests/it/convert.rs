//! Several versions of one kind, and kinds that are stored in parts.
use orrery_api::{ConvertError, JsonOptions, Object, REST_ANNOTATION};
use serde_json::{Value, json};

use crate::{
    objects::UNKNOWN,
    support::{gadget_kind, kind, mk, mk_gadget, scheme},
};

fn spoke(version: &str, spec: Value) -> Object {
    mk(json!({
        "apiVersion": format!("testkit.orrery.dev/{version}"), "kind": "Gadget",
        "metadata": {"name": "g", "project": "p"}, "spec": spec,
    }))
}

fn spec_of(object: &Object) -> Value {
    object.to_json_value(&JsonOptions::default())["spec"].clone()
}

/// proves: HUB-05
#[test]
fn older_versions_become_the_hub_version() {
    let old =
        spoke("v1beta1", json!({"mode": "idle", "sizeGib": 2, "zones": "a, b", "note": "hi"}));
    let hub = scheme().to_hub(&old).expect("convertible");
    assert_eq!(hub.kind(), &gadget_kind());
    assert_eq!(
        spec_of(&hub),
        json!({"mode": "idle", "sizeBytes": 2_i64 << 30, "zones": ["a", "b"]})
    );
    assert_eq!(scheme().from_hub(&hub, old.kind()), Ok(old));
}

/// proves: HUB-05
#[test]
fn what_an_older_version_cannot_say_survives_it() {
    let hub = mk_gadget(json!({
        "mode": "idle", "sizeBytes": 5_000_000_000_i64, "image": {"name": "x"},
        "ports": [{"name": "b", "number": 2, "protocol": "udp"}, {"name": "a", "number": 1}],
    }));
    for version in ["v1beta1", "v2alpha1"] {
        let other = kind(&format!("gadgets.{version}.testkit"));
        let shown = scheme().from_hub(&hub, &other).expect("convertible");
        assert!(shown.annotation(REST_ANNOTATION).is_some());
        assert_eq!(scheme().to_hub(&shown), Ok(hub.clone()), "{version}");
    }
}

/// proves: HUB-05
#[test]
fn changes_in_another_version_reach_the_hub() {
    let hub = mk_gadget(json!({
        "sizeBytes": 5_000_000_000_i64, "image": {"name": "x"},
        "ports": [{"name": "b", "number": 2, "protocol": "udp"}, {"name": "a", "number": 1}],
    }));
    let edit = |version: &str, path: &str, value: Value| {
        let other = kind(&format!("gadgets.{version}.testkit"));
        let shown = scheme().from_hub(&hub, &other).expect("convertible");
        let mut json = shown.to_json_value(&JsonOptions::default());
        json["spec"][path] = value;
        spec_of(&scheme().to_hub(&mk(json)).expect("convertible"))
    };
    let resized = edit("v1beta1", "sizeGib", json!(7));
    assert_eq!(
        (&resized["sizeBytes"], &resized["image"]["name"]),
        (&json!(7_i64 << 30), &json!("x"))
    );
    let moved = edit("v1beta1", "url", json!("http://x"));
    assert_eq!((&moved["url"], &moved["image"]), (&json!("http://x"), &Value::Null));
    let ports = edit("v2alpha1", "ports", json!({"c": 3, "b": 22}));
    let expect =
        json!([{"name": "b", "number": 22, "protocol": "udp"}, {"name": "c", "number": 3}]);
    assert_eq!(ports["ports"], expect);
}

#[test]
fn fields_of_newer_servers_survive_conversion() {
    let mut bytes = mk_gadget(json!({"mode": "idle"})).encode();
    bytes.extend_from_slice(UNKNOWN);
    let hub = Object::decode(&gadget_kind(), &bytes).expect("a gadget");
    let other = kind("gadgets.v1beta1.testkit");
    let shown = scheme().from_hub(&hub, &other).expect("convertible");
    assert_eq!(scheme().to_hub(&shown), Ok(hub));
}

/// proves: HUB-05
#[test]
fn one_resource_can_be_stored_as_several() {
    let bundle = mk(json!({
        "apiVersion": "testkit.orrery.dev/v1", "kind": "Bundle",
        "metadata": {"name": "b", "project": "p", "labels": {"a": "b"}},
        "spec": {"owner": "me", "releases": [
            {"name": "two", "contents": ["x"]}, {"name": "one", "contents": []},
        ]},
    }));
    let storage = scheme().spoke(bundle.kind(), "storage").expect("registered");
    let mut parts = storage.from_hub(&bundle).expect("convertible");
    let names: Vec<String> =
        parts.iter().map(|part| format!("{} {}", part.kind().kind(), part.name())).collect();
    assert_eq!(names, ["BundleHead b", "BundleSnapshot b-two", "BundleSnapshot b-one"]);
    parts.reverse();
    assert_eq!(storage.to_hub(&parts), Ok(bundle.clone()), "parts come in any order");

    parts.retain(|part| part.name() != "b-one");
    let error = storage.to_hub(&parts).expect_err("a release is missing").to_string();
    assert_eq!(error, "release one is missing: it is a part of bundles.testkit.orrery.dev");
    let error = storage.to_hub(&[bundle]).expect_err("not a part").to_string();
    assert_eq!(error, "a Bundle is not a part of storage of bundles.testkit.orrery.dev");
}

#[test]
fn what_cannot_be_converted_is_said() {
    let huge = spoke("v1beta1", json!({"sizeGib": i64::MAX}));
    let error = scheme().to_hub(&huge).expect_err("too large");
    assert!(error.to_string().contains("spec.sizeGib: Invalid value"), "{error}");
    let mut broken = spoke("v1beta1", json!({}));
    broken.set_annotation(REST_ANNOTATION, "!");
    assert!(matches!(scheme().to_hub(&broken), Err(ConvertError::Invalid(_))));
    let error = scheme().from_hub(&mk_gadget(json!({})), &kind("Node")).expect_err("no way");
    assert_eq!(
        error.to_string(),
        "nothing converts testkit.orrery.dev/v1 Gadget to infra.orrery.dev/v1 Node"
    );
}

#[test]
fn hub_objects_stay_as_they_are() {
    let hub = mk_gadget(json!({"mode": "idle"}));
    assert_eq!(scheme().to_hub(&hub), Ok(hub.clone()));
    assert_eq!(scheme().from_hub(&hub, hub.kind()), Ok(hub.clone()));
    let beta = kind("gadgets.v1beta1.testkit");
    assert_eq!(scheme().hub_kind(&beta), *hub.kind());
    let names: Vec<&str> = scheme().spokes(hub.kind()).iter().map(|s| s.name.as_str()).collect();
    assert_eq!(names, ["v1beta1", "v2alpha1"]);
}
