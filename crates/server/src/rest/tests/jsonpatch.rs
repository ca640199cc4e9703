use super::*;
use proptest::prelude::*;
use serde_json::json;

#[track_caller]
fn check(document: Value, patch: Value, expect: Value) {
    let patch = JsonPatch::parse(&patch).expect("a patch");
    assert_eq!(patch.apply(document), Ok(expect));
}

#[test]
fn operations_do_what_the_standard_says() {
    check(json!({}), json!([{"op": "add", "path": "/a", "value": 1}]), json!({"a": 1}));
    check(
        json!({"a": [1, 3]}),
        json!([{"op": "add", "path": "/a/1", "value": 2}]),
        json!({"a": [1, 2, 3]}),
    );
    check(json!({"a": []}), json!([{"op": "add", "path": "/a/-", "value": 2}]), json!({"a": [2]}));
    check(json!({"a": 1, "b": 2}), json!([{"op": "remove", "path": "/a"}]), json!({"b": 2}));
    check(
        json!({"a": 1}),
        json!([{"op": "replace", "path": "/a", "value": null}]),
        json!({"a": null}),
    );
    check(
        json!({"a": {"b": 1}}),
        json!([{"op": "move", "from": "/a/b", "path": "/c"}]),
        json!({"a": {}, "c": 1}),
    );
    check(
        json!({"a": 1}),
        json!([{"op": "copy", "from": "/a", "path": "/b"}]),
        json!({"a": 1, "b": 1}),
    );
    check(
        json!({"a/b": {"~": 1}}),
        json!([{"op": "test", "path": "/a~1b/~0", "value": 1.0}]),
        json!({"a/b": {"~": 1}}),
    );
    check(json!({"a": 1}), json!([{"op": "replace", "path": "", "value": {}}]), json!({}));
}

#[track_caller]
fn refuse(document: Value, patch: Value, expect: &str) {
    let outcome = JsonPatch::parse(&patch).and_then(|patch| patch.apply(document));
    assert_eq!(outcome.expect_err("refused").to_string(), expect);
}

#[test]
fn what_does_not_apply_is_named() {
    refuse(json!({}), json!({}), "a JSON patch is a list of operations");
    refuse(json!({}), json!([{"op": "add", "path": "/a"}]), "operation 0: \"value\" is missing");
    refuse(
        json!({}),
        json!([{"op": "sing", "path": "/a"}]),
        "operation 0: there is no operation \"sing\"",
    );
    refuse(
        json!({}),
        json!([{"op": "remove", "path": "a"}]),
        "operation 0: \"a\" must begin with a slash",
    );
    refuse(
        json!({}),
        json!([{"op": "remove", "path": "/a"}]),
        "operation 0 does not apply: /a is not there",
    );
    refuse(
        json!({"a": [1]}),
        json!([{"op": "remove", "path": "/a/01"}]),
        "operation 0 does not apply: \"01\" is no place in a list of 1",
    );
    refuse(
        json!({"a": [1]}),
        json!([{"op": "add", "path": "/a/3", "value": 1}]),
        "operation 0 does not apply: /a/3 is beyond the end of the list",
    );
    refuse(
        json!({"a": {}}),
        json!([{"op": "move", "from": "/a", "path": "/a/b"}]),
        "operation 0 does not apply: /a cannot move into itself",
    );
    refuse(
        json!({"a": 1}),
        json!([{"op": "test", "path": "/a", "value": 2}]),
        "operation 0 does not apply: /a is not what the test expects",
    );
}

#[test]
fn copies_cannot_grow_without_bound() {
    let mut operations = vec![json!({"op": "add", "path": "/a", "value": ["x".repeat(1000)]})];
    operations.extend((0..64).map(|_| json!({"op": "copy", "from": "/a", "path": "/a/-"})));
    let patch = JsonPatch::parse(&Value::Array(operations)).expect("a patch");
    let error = patch.apply(json!({})).expect_err("too much").to_string();
    assert!(error.contains("would be copied"), "{error}");
}

proptest! {
    #[test]
    fn any_path_is_answered(steps in prop::collection::vec("[a-c0-2~/-]{0,3}", 0..4), op in "add|remove|test") {
        let path: String = steps.iter().map(|step| format!("/{step}")).collect();
        let patch = json!([{"op": op, "path": path, "value": 1}]);
        let patch = JsonPatch::parse(&patch).expect("a patch");
        let document = json!({"a": [1, {"b": 2}], "c": {"0": []}});
        if let Err(error) = patch.apply(document) {
            prop_assert!(matches!(error, PatchError::DoesNotApply(_)));
        }
    }
}
