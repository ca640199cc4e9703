//! JSON in and out.
use orrery_api::{DecodeOptions, JsonOptions, Object, ObjectList, Reason, WIRE_DEPTH_MAX};
use serde_json::{Value, json};

use crate::support::{gadget_kind, lines, mk, mk_gadget, problems, scheme};

#[track_caller]
fn refused(spec: Value, expect: &[&str]) {
    assert_eq!(lines(&problems(&json!({ "spec": spec }))), expect);
}

#[test]
fn wrong_types_name_path_expectation_and_finding() {
    let cases = [
        (
            json!({"replicas": "3"}),
            "spec.replicas: Invalid value: expected an integer, found the string \"3\"",
        ),
        (
            json!({"mode": 3}),
            "spec.mode: Invalid value: expected a string, found the number 3 (quote it)",
        ),
        (
            json!({"mode": true}),
            "spec.mode: Invalid value: expected a string, found the boolean true (quote it)",
        ),
        (
            json!({"enabled": "yes"}),
            "spec.enabled: Invalid value: expected true or false, found the string \"yes\"",
        ),
        (
            json!({"replicas": 1.5}),
            "spec.replicas: Invalid value: expected an integer from -2147483648 to 2147483647, found the number 1.5",
        ),
        (
            json!({"replicas": 3_000_000_000_u64}),
            "spec.replicas: Invalid value: expected an integer from -2147483648 to 2147483647, found the number 3000000000",
        ),
        (
            json!({"serial": -1}),
            "spec.serial: Invalid value: expected a non-negative integer up to 18446744073709551615, found the number -1",
        ),
        (
            json!({"sizeBytes": 1e300}),
            "spec.sizeBytes: Invalid value: expected an integer from -9223372036854775808 to 9223372036854775807, found the number 1e+300",
        ),
        (
            json!({"ratio": 1e300}),
            "spec.ratio: Invalid value: expected a number up to 3.4028235e38, found the number 1e+300",
        ),
        (
            json!({"payload": "not base64!"}),
            "spec.payload: Invalid value: expected a base64 string, found the string \"not base64!\"",
        ),
    ];
    for (spec, expect) in cases {
        refused(spec, &[expect]);
    }
}

#[test]
fn wrong_shapes_name_path_expectation_and_finding() {
    let cases = [
        (
            json!({"zones": "a"}),
            "spec.zones: Invalid value: expected a list, found the string \"a\"",
        ),
        (
            json!({"zones": ["a", null]}),
            "spec.zones[1]: Invalid value: expected a string, found null",
        ),
        (
            json!({"env": ["a"]}),
            "spec.env: Invalid value: expected an object of keys and values, found a list",
        ),
        (
            json!({"env": {"A": 1}}),
            "spec.env[A]: Invalid value: expected a string, found the number 1 (quote it)",
        ),
        (
            json!({"codes": {"x": "y"}}),
            "spec.codes[x]: Invalid value: expected an integer as key, found \"x\"",
        ),
        (json!({"limits": []}), "spec.limits: Invalid value: expected an object, found a list"),
        (
            json!({"notBefore": "yesterday"}),
            "spec.notBefore: Invalid value: expected a time such as \"2026-01-31T12:00:00Z\", found the string \"yesterday\"",
        ),
        (
            json!({"timeout": "5m"}),
            "spec.timeout: Invalid value: expected a duration in seconds such as \"1.5s\", found the string \"5m\"",
        ),
        (json!({"config": []}), "spec.config: Invalid value: expected an object, found a list"),
        (json!({"trail": {}}), "spec.trail: Invalid value: expected a list, found an object"),
        (
            json!({"config": {"a": {"b": [9_007_199_254_740_994_i64]}}}),
            "spec.config.a.b[0]: Invalid value: expected a number up to 2^53 (write larger ones as strings), found the number 9007199254740994",
        ),
        (
            json!({"token": 12_345_678}),
            "spec.token: Invalid value: expected a string, found something else",
        ),
    ];
    for (spec, expect) in cases {
        refused(spec, &[expect]);
    }
}

#[test]
fn unknown_fields_are_refused_with_a_suggestion() {
    refused(json!({"replicaz": 1}), &["spec.replicaz: unknown field, did you mean \"replicas\"?"]);
    refused(
        json!({"size_bytes": 1}),
        &["spec.size_bytes: unknown field, did you mean \"sizeBytes\"?"],
    );
    refused(
        json!({"ports": [{"nmae": "a"}], "image": {"xyzzy": 1}}),
        &[
            "spec.ports[0].nmae: unknown field, did you mean \"name\"?",
            "spec.image.xyzzy: unknown field",
        ],
    );
    let root = problems(&json!({"spce": {}}));
    assert_eq!(lines(&root), ["spce: unknown field, did you mean \"spec\"?"]);
    assert_eq!(root[0].strict_text(), "unknown field \"spce\", did you mean \"spec\"?");
}

#[test]
fn unknown_fields_can_be_dropped_with_a_warning() {
    let value =
        json!({"metadata": {"name": "g", "odd": 1}, "spec": {"replicaz": 1, "mode": "idle"}});
    let read = Object::from_json_value(&gadget_kind(), &value, &DecodeOptions::lenient());
    let read = read.expect("unknown fields are dropped");
    assert_eq!(
        lines(&read.warnings),
        ["metadata.odd: unknown field", "spec.replicaz: unknown field, did you mean \"replicas\"?"]
    );
    assert!(read.warnings.iter().all(|warning| warning.reason == Reason::UnknownField));
    assert_eq!(read.object.to_json_value(&JsonOptions::default())["spec"], json!({"mode": "idle"}));
}

#[test]
fn only_one_branch_of_a_choice_is_taken() {
    refused(
        json!({"image": {"name": "a"}, "url": "http://x"}),
        &["spec.url: Forbidden: only one of \"image\" and \"url\" may be set: remove the other"],
    );
    // A branch that is null is not there.
    refused(json!({"image": {"name": "a"}, "url": null}), &[]);
}

#[test]
fn all_problems_are_collected() {
    let value = json!({
        "apiVersion": "testkit.orrery.dev/v9",
        "kind": "Gizmo",
        "metadata": {"name": 7, "namespace": "a", "project": "b"},
        "spec": {"mode": 1, "zones": [1, "a", 2], "x": 1},
    });
    let found = problems(&value);
    let paths: Vec<&str> = found.iter().map(|problem| problem.path.as_str()).collect();
    let expect = [
        "apiVersion",
        "kind",
        "metadata.name",
        "metadata.namespace",
        "spec.mode",
        "spec.zones[0]",
        "spec.zones[2]",
        "spec.x",
    ];
    assert_eq!(paths, expect);
}

/// proves: HUB-04
#[test]
fn project_and_namespace_are_two_names_of_one_value() {
    for metadata in [
        json!({"name": "g", "project": "p"}),
        json!({"name": "g", "namespace": "p"}),
        json!({"name": "g", "namespace": "p", "project": "p"}),
    ] {
        let value =
            json!({"apiVersion": "testkit.orrery.dev/v1", "kind": "Gadget", "metadata": metadata});
        let gadget = mk(value);
        assert_eq!(gadget.project(), "p");
        assert_eq!(gadget.to_json_value(&JsonOptions::default())["metadata"]["project"], "p");
        let rest = gadget.to_json_value(&JsonOptions::rest());
        assert_eq!(rest["metadata"], json!({"name": "g", "namespace": "p"}));
    }
    let both = problems(&json!({"metadata": {"namespace": "a", "project": "b"}}));
    assert_eq!(
        lines(&both),
        [
            "metadata.namespace: Invalid value: \"a\": must be \"b\": namespace and project are two names of one value"
        ]
    );
}

#[test]
fn every_shape_is_written_as_people_expect() {
    let spec = json!({
        "mode": "burst",
        "sizeBytes": 1_099_511_627_776_i64,
        "replicas": 2,
        "url": "https://example.com",
        "zones": ["b", "a"],
        "env": {"A": "1", "B": "2"},
        "codes": {"10": "ten", "2": "two"},
        "config": {"count": 3, "half": 0.5, "none": null, "list": [1, "x", {"y": true}]},
        "hint": null,
        "trail": [1, [2]],
        "payload": "aGVsbG8=",
        "notBefore": "2026-01-31T12:00:00.25Z",
        "timeout": "1.5s",
        "serial": 18_446_744_073_709_551_615_u64,
        "ratio": 0.1,
        "enabled": false,
    });
    let gadget = mk_gadget(spec.clone());
    let mut written = gadget.to_json_value(&JsonOptions::default());
    let limits = written["spec"].as_object_mut().and_then(|spec| spec.remove("limits"));
    assert_eq!(limits, Some(json!({"cpu": 0.5})), "the default of the message is filled in");
    assert_eq!(written["spec"], spec);
    assert!(gadget.to_json(&JsonOptions::default()).contains("\"count\":3,"), "not 3.0");
}

#[test]
fn times_before_1970_and_offsets_are_understood() {
    let time = |text: &str| {
        let gadget = mk_gadget(json!({ "notBefore": text }));
        gadget.to_json_value(&JsonOptions::default())["spec"]["notBefore"].clone()
    };
    assert_eq!(time("1969-12-31T23:59:59.5Z"), "1969-12-31T23:59:59.5Z");
    assert_eq!(time("2026-01-31T12:00:00+02:00"), "2026-01-31T10:00:00Z");
    refused(
        json!({"notBefore": "-000001-01-01T00:00:00Z"}),
        &[
            "spec.notBefore: Invalid value: expected a time such as \"2026-01-31T12:00:00Z\", found the string \"-000001-01-01T00:00:00Z\"",
        ],
    );
}

/// proves: HUB-03
#[test]
fn zero_values_are_written_where_the_definition_says_so() {
    let gadget = mk(json!({
        "apiVersion": "testkit.orrery.dev/v1", "kind": "Gadget",
        "metadata": {"name": "g", "project": "p"}, "status": {},
    }));
    let status = &gadget.to_json_value(&JsonOptions::default())["status"];
    assert_eq!(*status, json!({"ready": false, "restarts": 0, "conditions": []}));
}

#[test]
fn what_is_read_can_be_stored_and_read_again() {
    let nest = |levels: usize| (0..levels).fold(json!(1), |inner, _| json!({ "a": inner }));
    let config = |levels: usize| json!({"spec": {"config": nest(levels)}});
    let part = |levels: usize| (0..levels).fold(json!({}), |inner, _| json!({"parts": [inner]}));
    let mut refused = 0;
    for value in (1..60).map(config).chain((1..120).map(|n| json!({"spec": {"part": part(n)}}))) {
        match Object::from_json_value(&gadget_kind(), &value, &DecodeOptions::default()) {
            Ok(read) => {
                let again = Object::decode(&gadget_kind(), &read.object.encode());
                assert_eq!(again.expect("what was read fits the wire"), read.object);
                read.object.typed::<orrery_testkit::v1::Gadget>().expect("a typed view too");
            }
            Err(error) => {
                assert!(error.to_string().contains("nested too deeply"), "{error}");
                refused += 1;
            }
        }
    }
    assert!(0 < refused, "limits of {WIRE_DEPTH_MAX} levels hold");
}

/// proves: HUB-10
#[test]
fn lists_have_every_codec() {
    let kind = gadget_kind();
    let mut list = ObjectList::new(&kind);
    list.metadata.resource_version = "42".to_owned();
    list.metadata.r#continue = "next".to_owned();
    list.metadata.remaining_item_count = Some(7);
    list.items = vec![mk_gadget(json!({"mode": "idle"})), mk_gadget(json!({"replicas": 3}))];

    let options = JsonOptions::rest();
    let json = list.to_json_value(&options);
    assert_eq!(json["kind"], "GadgetList");
    assert_eq!(json["apiVersion"], "testkit.orrery.dev/v1");
    assert_eq!(json["items"][1]["kind"], "Gadget");
    let mut streamed = Vec::new();
    ObjectList::write_json(&kind, &list.metadata, &list.items, &options, &mut streamed)
        .expect("a vector takes everything");
    assert_eq!(String::from_utf8(streamed.clone()).expect("text"), list.to_json(&options));

    let strict = DecodeOptions::default();
    assert_eq!(ObjectList::from_json(&kind, &streamed, &strict), Ok(list.clone()));
    let yaml = list.to_yaml(&options);
    assert_eq!(ObjectList::from_yaml(&kind, yaml.as_bytes(), &strict), Ok(list.clone()));
    assert_eq!(ObjectList::decode(&kind, &list.encode()), Ok(list));
}

#[test]
fn problems_of_lists_name_the_item() {
    let text = json!({
        "apiVersion": "testkit.orrery.dev/v1", "kind": "GadgetLists",
        "items": [{"spec": {"mode": "idle"}}, {"spec": {"mode": 1}}],
    });
    let error = ObjectList::from_json_value(&gadget_kind(), &text, &DecodeOptions::default());
    assert_eq!(
        error.expect_err("a bad list").to_string(),
        "kind: Invalid value: \"GadgetLists\": must be \"GadgetList\"; \
         items[1].spec.mode: Invalid value: expected a string, found the number 1 (quote it)"
    );
}

#[test]
fn resources_must_say_what_they_are() {
    let read = |text: &str| {
        let read = scheme().read_json(text.as_bytes(), &DecodeOptions::default());
        read.expect_err("not a resource").to_string()
    };
    assert_eq!(
        read("[]"),
        "a resource must be an object with apiVersion, kind, metadata and spec, found a list"
    );
    assert_eq!(read("{}"), "kind is missing: say which kind of resource this is");
    assert_eq!(
        read(r#"{"kind":"Gadget"}"#),
        "apiVersion is missing: say which kind of resource this is"
    );
    assert_eq!(
        read(r#"{"kind":"gadget","apiVersion":"testkit.orrery.dev/v1"}"#),
        "no kind is called \"gadget\" in apiVersion \"testkit.orrery.dev/v1\", did you mean \"Gadget\"?"
    );
    assert_eq!(read(r#"{"kind":1}"#), "kind: Invalid value: expected a string, found the number 1");
}

#[test]
fn hostile_resources_do_not_make_long_answers() {
    let key = "k".repeat(200_000);
    let many: serde_json::Map<String, Value> =
        (0..100_000).map(|index| (format!("x{index}"), json!(1))).collect();
    for value in [
        json!({"spec": {"zones": vec![1; 200_000]}}),
        json!({"spec": {"config": {&key: {&key: [u64::MAX, u64::MAX]}}, &key: 1}}),
        json!({ "spec": many }),
    ] {
        let found = problems(&value);
        assert!(!found.is_empty() && found.len() <= orrery_api::PROBLEMS_MAX + 1);
        let size: usize = found.iter().map(|problem| problem.to_string().len()).sum();
        assert!(size < 100_000, "{size}");
    }
}
