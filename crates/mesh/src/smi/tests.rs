//! Every version of every kind, there and back.
use super::register;
use orrery_api::{DecodeOptions, JsonOptions, Kind, Object, Scheme};
use proptest::prelude::*;
use serde_json::{Value, json};
use std::sync::{Arc, LazyLock};

static SCHEME: LazyLock<Scheme> = LazyLock::new(|| {
    let builder = Scheme::builder().descriptors(orrery_proto::FILE_DESCRIPTOR_SET);
    register(builder).build().unwrap_or_else(|error| panic!("{error}"))
});

const OLDER: [&str; 3] = ["v1alpha1", "v1alpha2", "v1alpha3"];

fn kind(group: &str, version: &str, name: &str) -> Arc<Kind> {
    let group = format!("{group}.smi-spec.io");
    SCHEME
        .lookup(&group, version, name)
        .unwrap_or_else(|| panic!("{group} {version} {name}"))
        .clone()
}

/// `body` is what stands beside the metadata.
fn mk(group: &str, version: &str, name: &str, body: &Value) -> Object {
    let mut value = json!({
        "apiVersion": format!("{group}.smi-spec.io/{version}"), "kind": name,
        "metadata": {"name": "one", "project": "shop"},
    });
    for (key, part) in body.as_object().expect("an object") {
        value[key] = part.clone();
    }
    let read =
        Object::from_json_value(&kind(group, version, name), &value, &DecodeOptions::default());
    read.unwrap_or_else(|error| panic!("{error}: {value}")).object
}

fn body(object: &Object) -> Value {
    let mut value = object.to_json_value(&JsonOptions::default());
    for common in ["apiVersion", "kind", "metadata"] {
        value.as_object_mut().expect("an object").remove(common);
    }
    value
}

/// Through JSON, which is the way through a client.
fn through_a_client(object: &Object) -> Object {
    let text = object.to_json(&JsonOptions::rest());
    let read = Object::from_json(object.kind(), text.as_bytes(), &DecodeOptions::default());
    read.expect("our own JSON").object
}

#[track_caller]
fn check_hub(group: &str, name: &str, spec: &Value) {
    let hub = mk(group, "v1alpha4", name, &json!({ "spec": spec }));
    for version in OLDER {
        let shown = SCHEME.from_hub(&hub, &kind(group, version, name)).expect("convertible");
        let back = SCHEME.to_hub(&through_a_client(&shown)).expect("convertible");
        assert_eq!(back, hub, "{version}");
    }
}

#[track_caller]
fn check_spoke(group: &str, version: &str, name: &str, body: &Value) {
    let spoke = mk(group, version, name, body);
    let hub = SCHEME.to_hub(&spoke).expect("convertible");
    let hub = through_a_client(&hub);
    assert_eq!(SCHEME.from_hub(&hub, spoke.kind()).expect("convertible"), spoke);
}

/// The first as it is declared, the second as it is stored.
#[track_caller]
fn check(group: &str, version: &str, name: &str, given: &Value, stored: &Value) {
    check_spoke(group, version, name, given);
    let hub = SCHEME.to_hub(&mk(group, version, name, given)).expect("convertible");
    assert_eq!(body(&hub)["spec"], *stored, "{version} {name}");
}

#[test]
fn older_declarations_are_stored_as_the_newest() {
    check(
        "split",
        "v1alpha1",
        "TrafficSplit",
        &json!({"spec": {"service": "books", "backends": [
            {"service": "v1", "weight": "900m"}, {"service": "v2", "weight": 0.1}, {"service": "v3", "weight": 1},
        ]}}),
        &json!({"service": "books", "backends": [
            {"service": "v1", "weight": 900}, {"service": "v2", "weight": 100}, {"service": "v3", "weight": 1000},
        ]}),
    );
    let subjects = (
        json!({"kind": "ServiceAccount", "name": "books", "namespace": "shop", "port": 8080}),
        json!([{"kind": "ServiceAccount", "name": "web", "port": "80"}]),
        json!([{"kind": "HTTPRouteGroup", "name": "all", "matches": ["a"]}]),
    );
    let stored = json!({
        "destination": subjects.0,
        "sources": [{"kind": "ServiceAccount", "name": "web", "port": 80}],
        "rules": subjects.2,
    });
    check(
        "access",
        "v1alpha1",
        "TrafficTarget",
        &json!({"destination": subjects.0, "sources": subjects.1, "specs": subjects.2}),
        &stored,
    );
    check("access", "v1alpha2", "TrafficTarget", &json!({ "spec": stored }), &stored);
    check("access", "v1alpha3", "TrafficTarget", &json!({ "spec": stored }), &stored);
    let matches = json!([{"name": "a", "pathRegex": "/a", "methods": ["GET"]}]);
    check(
        "specs",
        "v1alpha1",
        "HTTPRouteGroup",
        &json!({ "matches": matches }),
        &json!({ "matches": matches }),
    );
    let matches = json!([{"name": "a", "headers": [{"x": "1"}, {"y": "2"}]}, {"name": "b", "headers": {"x": "1"}}]);
    check(
        "specs",
        "v1alpha2",
        "HTTPRouteGroup",
        &json!({ "matches": matches }),
        &json!({ "matches": matches }),
    );
    check("specs", "v1alpha1", "TCPRoute", &json!({}), &json!({}));
    check("specs", "v1alpha3", "TCPRoute", &json!({}), &json!({}));
    check("specs", "v1alpha3", "TCPRoute", &json!({"spec": {}}), &json!({}));
}

#[test]
fn changes_in_an_older_version_keep_what_it_cannot_say() {
    let hub = mk(
        "specs",
        "v1alpha4",
        "HTTPRouteGroup",
        &json!({"spec": {"matches": [
            {"name": "a", "pathRegex": "/a", "headers": {"x": "1"}}, {"name": "b", "headers": {"x": "2"}},
        ]}}),
    );
    let shown =
        SCHEME.from_hub(&hub, &kind("specs", "v1alpha1", "HTTPRouteGroup")).expect("convertible");
    let mut value = shown.to_json_value(&JsonOptions::default());
    value["matches"] = json!([{"name": "new"}, {"name": "b", "pathRegex": "/b"}]);
    let changed = Object::from_json_value(shown.kind(), &value, &DecodeOptions::default());
    let stored = SCHEME.to_hub(&changed.expect("readable").object).expect("convertible");
    let expect = json!([{"name": "new"}, {"name": "b", "pathRegex": "/b", "headers": {"x": "2"}}]);
    assert_eq!(body(&stored)["spec"]["matches"], expect);
}

#[test]
fn what_cannot_be_meant_is_refused_with_its_place() {
    let split = |weight: Value| {
        let body =
            json!({"spec": {"service": "a", "backends": [{"service": "b", "weight": weight}]}});
        let error = SCHEME.to_hub(&mk("split", "v1alpha1", "TrafficSplit", &body));
        error.expect_err("no quantity").to_string()
    };
    for bad in [json!("half"), json!(-1), json!(true), json!("1e3"), json!(0.00001)] {
        let error = split(bad.clone());
        assert!(error.contains("spec.backends[0].weight"), "{bad}: {error}");
    }
    let body = json!({"destination": {"kind": "ServiceAccount", "name": "a", "port": "http"}});
    let error = SCHEME.to_hub(&mk("access", "v1alpha1", "TrafficTarget", &body));
    assert!(error.expect_err("no port").to_string().contains("destination.port"));
}

#[test]
fn rules_beyond_the_shape() {
    let group = |matches: Value| {
        mk("specs", "v1alpha4", "HTTPRouteGroup", &json!({"spec": {"matches": matches}}))
            .validate(None)
    };
    assert!(group(json!([{"name": "a"}, {"name": "b", "headers": {"x": ".*"}}])).is_empty());
    assert_eq!(group(json!([{"name": "a"}, {"name": "a"}])).len(), 1);
    assert_eq!(group(json!([{"name": "a", "pathRegex": "/("}])).len(), 1);
    assert_eq!(group(json!([{"name": "a", "headers": {"x": "("}}])).len(), 1);
    assert_eq!(group(json!([{"name": "a", "headers": {"x": 1}}])).len(), 1);
    for bad in ["(?x)a", r"\u{61}", "a**", "a{1001}"] {
        assert_eq!(group(json!([{"name": "a", "pathRegex": bad}])).len(), 1, "{bad}");
        assert_eq!(group(json!([{"name": "a", "headers": {"x": bad}}])).len(), 1, "{bad}");
    }
    for bad in ["", "x y", "a\nb"] {
        assert_eq!(group(json!([{"name": "a", "headers": {bad: "x"}}])).len(), 1, "{bad:?}");
    }
    assert_eq!(group(json!([{"name": "a", "headers": "x: 1"}])).len(), 1);
}

fn name() -> impl Strategy<Value = String> {
    "[a-c][a-c0-9]{0,2}"
}

fn split() -> impl Strategy<Value = Value> {
    let backend = (name(), 0..=u32::MAX)
        .prop_map(|(name, weight)| json!({"service": name, "weight": weight}));
    let reference = (name(), any::<bool>()).prop_map(|(name, grouped)| match grouped {
        true => json!({"apiGroup": "specs.smi-spec.io", "kind": "HTTPRouteGroup", "name": name}),
        false => json!({"kind": "HTTPRouteGroup", "name": name}),
    });
    let backends = proptest::collection::vec(backend, 0..5);
    (name(), backends, proptest::collection::vec(reference, 0..3)).prop_map(|(service, backends, matches)| {
        json!({"service": service, "backends": backends, "matches": matches})
    })
}

fn subject() -> impl Strategy<Value = Value> {
    let optional = (
        proptest::option::of(name()),
        proptest::option::of(1_u16..),
        proptest::option::of(Just("access.smi-spec.io")),
    );
    (name(), optional).prop_map(|(name, (namespace, port, group))| {
        let mut value = json!({"kind": "ServiceAccount", "name": name});
        if let Some(namespace) = namespace {
            value["namespace"] = json!(namespace);
        }
        if let Some(port) = port {
            value["port"] = json!(port);
        }
        if let Some(group) = group {
            value["group"] = json!(group);
        }
        value
    })
}

fn target() -> impl Strategy<Value = Value> {
    let rule = (name(), proptest::collection::vec(name(), 0..3), 0..3_usize).prop_map(
        |(name, matches, kind)| {
            let kind = ["HTTPRouteGroup", "TCPRoute", "UDPRoute"][kind];
            json!({"kind": kind, "name": name, "matches": matches})
        },
    );
    let (sources, rules) =
        (proptest::collection::vec(subject(), 0..4), proptest::collection::vec(rule, 0..3));
    (subject(), sources, rules).prop_map(|(destination, sources, rules)| {
        json!({"destination": destination, "sources": sources, "rules": rules})
    })
}

fn routes() -> impl Strategy<Value = Value> {
    let headers =
        proptest::option::of(proptest::collection::btree_map("[a-z]{1,3}", "[a-z.]{0,3}", 0..3));
    let one = (name(), proptest::option::of("/[a-z]{0,3}"), any::<bool>(), headers);
    let one = one.prop_map(|(name, path, get, headers)| {
        let mut value = json!({"name": name});
        if let Some(path) = path {
            value["pathRegex"] = json!(path);
        }
        if get {
            value["methods"] = json!(["GET"]);
        }
        if let Some(headers) = headers {
            value["headers"] = json!(headers);
        }
        value
    });
    proptest::collection::vec(one, 0..4).prop_map(|matches| json!({"matches": matches}))
}

proptest! {
    #[test]
    fn no_stored_object_loses_anything(
        split in split(), target in target(), routes in routes(),
        ports in proptest::option::of(proptest::collection::vec(1_u16.., 0..3)),
    ) {
        check_hub("split", "TrafficSplit", &split);
        check_hub("access", "TrafficTarget", &target);
        check_hub("specs", "HTTPRouteGroup", &routes);
        let tcp = ports.map_or_else(|| json!({}), |ports| json!({"matches": {"ports": ports}}));
        check_hub("specs", "TCPRoute", &tcp);
    }

    #[test]
    fn no_declaration_comes_back_differently(
        weight in prop_oneof!["[1-9][0-9]{0,5}m?", "0\\.[0-9]{1,3}"], number in 0_u32..4_000_000,
        port in 1_u16.., mut target in target(), routes in routes(),
    ) {
        for weight in [json!(weight), json!(number)] {
            let body = json!({"spec": {"service": "a", "backends": [{"service": "b", "weight": weight}]}});
            check_spoke("split", "v1alpha1", "TrafficSplit", &body);
        }
        for port in [json!(port), json!(port.to_string())] {
            let body = json!({"destination": {"kind": "ServiceAccount", "name": "a", "port": port}});
            check_spoke("access", "v1alpha1", "TrafficTarget", &body);
        }
        let sources = target["sources"].as_array_mut().expect("a list").iter_mut();
        for subject in sources {
            subject.as_object_mut().expect("an object").remove("group");
        }
        target["destination"].as_object_mut().expect("an object").remove("group");
        for version in ["v1alpha2", "v1alpha3"] {
            check_spoke("access", version, "TrafficTarget", &json!({ "spec": target }));
        }
        check_spoke("specs", "v1alpha2", "HTTPRouteGroup", &routes);
        check_spoke("specs", "v1alpha3", "HTTPRouteGroup", &json!({ "spec": routes }));
    }
}
