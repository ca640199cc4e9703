//! Defaults and validation.
use orrery_api::{Object, Reason};
use serde_json::{Value, json};

use crate::support::{gadget_kind, kind, lines, mk, mk_gadget};

/// A spec without violations, changed in one place.
fn spec(change: Value) -> Value {
    let mut spec = json!({"url": "https://example.com"});
    for (key, value) in change.as_object().expect("an object") {
        spec[key] = value.clone();
    }
    spec
}

#[track_caller]
fn check(change: Value, expect: &[&str]) {
    assert_eq!(lines(&mk_gadget(spec(change)).validate(None)), expect);
}

#[track_caller]
fn check_update(old: Value, new: Value, expect: &[&str]) {
    let (old, new) = (mk_gadget(spec(old)), mk_gadget(spec(new)));
    assert_eq!(lines(&new.validate(Some(&old))), expect);
}

const NAME_RULE: &str = "must be at most 63 lower-case letters, digits or '-', and start and end with a letter or digit";

/// proves: HUB-03
#[test]
fn defaults_are_filled_in_where_nothing_is_written() {
    let gadget = Object::instantiate(&gadget_kind());
    let json = gadget.to_json_value(&Default::default());
    let defaults = json!({"mode": "steady", "replicas": 1, "limits": {"cpu": 0.5}});
    assert_eq!(json["spec"], defaults);
    let written = mk_gadget(json!({
        "mode": "idle", "image": {"name": "x"}, "ports": [{"name": "a", "number": 1}],
        "limitsByName": {"x": {}}, "limits": {"cpu": 0},
    }));
    let json = written.to_json_value(&Default::default());
    assert_eq!(json["spec"]["mode"], "idle");
    assert_eq!(json["spec"]["image"]["pullPolicy"], "ifMissing");
    assert_eq!(json["spec"]["ports"][0]["protocol"], "tcp");
    assert_eq!(json["spec"]["limitsByName"]["x"]["cpu"], 0.5);
    assert_eq!(json["spec"]["limits"]["cpu"], 0, "zero is written, so it stays");
}

/// proves: HUB-03
#[test]
fn spokes_have_no_defaults() {
    let spoke = kind("gadgets.v1beta1.testkit");
    let object = Object::instantiate(&spoke);
    assert_eq!(object, Object::new(&spoke));
}

#[test]
fn good_gadgets_have_no_violations() {
    check(json!({}), &[]);
    check(
        json!({"zones": ["a", "b"], "labelKey": "example.com/key", "ratio": 1, "sizeBytes": 1}),
        &[],
    );
}

#[test]
fn every_rule_reports_its_breach() {
    let cases: [(Value, &str); 17] = [
        (
            json!({"mode": "stedy"}),
            "spec.mode: Unsupported value: \"stedy\": supported values: \"steady\", \"burst\", \"idle\", did you mean \"steady\"?",
        ),
        (
            json!({"sizeBytes": 0}),
            "spec.sizeBytes: Invalid value: 0: must be between 1 and 1125899906842624",
        ),
        (json!({"replicas": 101}), "spec.replicas: Invalid value: 101: must be between 0 and 100"),
        (json!({"limits": {"cpu": -1}}), "spec.limits.cpu: Invalid value: -1: must be at least 0"),
        (
            json!({"url": "ftp://x"}),
            "spec.url: Invalid value: \"ftp://x\": must match the pattern https?://.+",
        ),
        (
            json!({"url": "x http://x"}),
            "spec.url: Invalid value: \"x http://x\": must match the pattern https?://.+",
        ),
        (json!({"zones": ["a", "b", "a"]}), "spec.zones[2]: Duplicate value: \"a\""),
        (
            json!({"zones": ["a", "b", "c", "d", "e", "f", "g", "h", "i"]}),
            "spec.zones: Too many: 9: must have at most 8 items",
        ),
        (
            json!({"exclusions": [{"verb": "x"}, {"verb": "x"}]}),
            "spec.exclusions[1]: Duplicate value: the object",
        ),
        (
            json!({"ports": [{"name": "a", "number": 1}, {"name": "a", "number": 2}]}),
            "spec.ports[1].name: Duplicate value: \"a\"",
        ),
        (
            json!({"ports": [{"number": 1}]}),
            "spec.ports[0].name: Required value: must be set: name, unique among the ports of a gadget",
        ),
        (
            json!({"ports": [{"name": "a", "number": 1, "protocol": "TCP"}]}),
            "spec.ports[0].protocol: Unsupported value: \"TCP\": supported values: \"tcp\", \"udp\", did you mean \"tcp\"?",
        ),
        (
            json!({"token": "short"}),
            "spec.token: Invalid value: <hidden>: must have at least 8 bytes",
        ),
        (
            json!({"payload": "A".repeat(8192)}),
            "spec.payload: Too long: may not be more than 4096 bytes",
        ),
        (
            json!({"limitsByName": {"x": {"cpu": -2}}}),
            "spec.limitsByName[x].cpu: Invalid value: -2: must be at least 0",
        ),
        (json!({"url": null}), "spec: Required value: set exactly one of image, archive, url"),
        (
            json!({"url": null, "image": {"name": ""}}),
            "spec.image.name: Required value: must be set: name of the image",
        ),
    ];
    for (change, expect) in cases {
        check(change, &[expect]);
    }
    let name = format!("spec.home: Invalid value: \"No\": {NAME_RULE}");
    check(json!({"home": "No"}), &[&name]);
}

#[test]
fn all_violations_are_reported() {
    let gadget = mk(json!({
        "apiVersion": "testkit.orrery.dev/v1", "kind": "Gadget",
        "metadata": {"name": "Bad Name", "labels": {"a b": "c d"}},
        "spec": {"mode": "x", "replicas": -1},
    }));
    let found = gadget.validate(None);
    let paths: Vec<&str> = found.iter().map(|violation| violation.path.as_str()).collect();
    let expect = [
        "metadata.name",
        "spec.mode",
        "spec.replicas",
        "spec",
        "metadata.project",
        "metadata.labels[a b]",
        "metadata.labels[a b]",
    ];
    assert_eq!(paths, expect);
    assert_eq!(found[3].reason.as_str(), "FieldValueRequired");
}

/// proves: HUB-04
#[test]
fn name_and_project_are_mandatory() {
    let bare = Object::new(&gadget_kind());
    let found = lines(&bare.validate(None));
    let expect = [
        "metadata.name: Required value: must be set: name, unique in its project among the resources of its kind",
        "spec: Required value: set exactly one of image, archive, url",
        "metadata.project: Required value: say which project the resource belongs to",
    ];
    assert_eq!(found, expect);
}

/// proves: HUB-04
#[test]
fn kinds_without_a_project_refuse_one() {
    let shelf = |project: &str| {
        let mut shelf = Object::instantiate(&kind("Shelf"));
        shelf.set_name("s");
        shelf.set_project(project);
        lines(&shelf.validate(None))
    };
    assert_eq!(shelf(""), [""; 0]);
    assert_eq!(shelf("system"), [""; 0]);
    assert_eq!(
        shelf("demo"),
        ["metadata.project: Forbidden: a Shelf belongs to no project: remove it"]
    );
}

#[test]
fn annotations_have_a_limit_as_a_whole() {
    let mut gadget = mk_gadget(spec(json!({})));
    gadget.set_annotation("a", &"x".repeat(200 << 10));
    assert_eq!(gadget.validate(None), []);
    gadget.set_annotation("b", &"x".repeat(60 << 10));
    let found = gadget.validate(None);
    assert_eq!(
        lines(&found),
        ["metadata.annotations: Too long: may not be more than 262144 bytes"]
    );
    assert_eq!(found[0].reason, Reason::TooLong);
    gadget.set_annotation("b", "");
    gadget.set_annotation("not a key", "");
    assert_eq!(gadget.validate(None)[0].path, "metadata.annotations[not a key]");
}

#[test]
fn what_the_server_owns_needs_not_be_right() {
    let mut gadget = mk_gadget(spec(json!({})));
    gadget.update_meta(|meta| {
        meta.uid = "anything at all".to_owned();
        meta.resource_version = "not a number".to_owned();
        meta.generation = -5;
    });
    assert_eq!(gadget.validate(None), []);
}

#[test]
fn what_is_immutable_stays() {
    let why = "field is immutable: delete the object and create it again to change it";
    check_update(json!({"home": "a"}), json!({"home": "a", "mode": "idle"}), &[]);
    check_update(json!({}), json!({"home": "a"}), &[]);
    let changed = format!("spec.home: Invalid value: \"b\": {why}");
    check_update(json!({"home": "a"}), json!({"home": "b"}), &[&changed]);
    let removed = format!("spec.home: Invalid value: nothing: {why}");
    check_update(json!({"home": "a"}), json!({}), &[&removed]);
}

#[test]
fn items_of_keyed_lists_are_compared_by_key() {
    let port =
        |name: &str, protocol: &str| json!({"name": name, "number": 1, "protocol": protocol});
    let why = "field is immutable: delete the object and create it again to change it";
    let old = json!({"ports": [port("a", "tcp"), port("b", "udp")]});
    check_update(
        old.clone(),
        json!({"ports": [port("c", "udp"), port("b", "udp"), port("a", "tcp")]}),
        &[],
    );
    let changed = format!("spec.ports[0].protocol: Invalid value: \"tcp\": {why}");
    check_update(old, json!({"ports": [port("b", "tcp")]}), &[&changed]);
}

#[test]
fn values_that_json_could_not_say_are_refused() {
    use orrery_testkit::v1::{Gadget, GadgetSpec, Limits, gadget_spec::Source};
    let value = prost_types::Value { kind: Some(prost_types::value::Kind::NumberValue(f64::NAN)) };
    let typed = Gadget {
        metadata: Some(orrery_api::ObjectMeta {
            name: "g".into(),
            project: "p".into(),
            ..Default::default()
        }),
        spec: Some(GadgetSpec {
            source: Some(Source::Url("http://x".into())),
            limits: Some(Limits { cpu: Some(f64::INFINITY), memory_bytes: None }),
            config: Some(prost_types::Struct { fields: [("a".to_owned(), value)].into() }),
            not_before: Some(prost_types::Timestamp { seconds: i64::MAX, nanos: 0 }),
            timeout: Some(prost_types::Duration { seconds: 1, nanos: -1 }),
            ..Default::default()
        }),
        ..Default::default()
    };
    let object = Object::from_typed(&gadget_kind(), &typed).expect("a gadget");
    let paths: Vec<String> = object.validate(None).into_iter().map(|v| v.path).collect();
    assert_eq!(paths, ["spec.config", "spec.notBefore", "spec.timeout", "spec.limits.cpu"]);
    // Printing it still works, and says null where JSON has no word.
    let json = object.to_json_value(&Default::default());
    assert_eq!(json["spec"]["limits"]["cpu"], Value::Null);
}

#[test]
fn our_own_kinds_say_what_is_missing() {
    let workload = mk(json!({
        "apiVersion": "apps.orrery.dev/v1", "kind": "Workload",
        "metadata": {"name": "hello", "project": "demo"},
    }));
    let expect = [
        "spec.placement: Required value: must be set: where it runs",
        "spec: Required value: set exactly one of process, podman",
    ];
    assert_eq!(lines(&workload.validate(None)), expect);
}
