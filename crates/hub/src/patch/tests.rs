//! JSON patches, by the words of their standard.
use super::document::Patch;
use crate::error::Error;
use orrery_api::{Object, Scheme};
use proptest::prelude::*;
use serde_json::{Value, json};
use std::sync::LazyLock;

/// Only named in errors.
static OBJECT: LazyLock<Object> = LazyLock::new(|| {
    let scheme = Scheme::builtin().expect("our kinds are well defined");
    Object::new(&scheme.resolve("", "Workload").expect("a known kind"))
});

fn applied(document: Value, patch: Value) -> Result<Value, Error> {
    Patch::json(patch)?.apply_to(document, &OBJECT)
}

#[track_caller]
fn check(document: Value, patch: Value, expect: Value) {
    assert_eq!(applied(document, patch).expect("it applies"), expect);
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
    check(json!({"a": 1}), json!([{"op": "replace", "path": "", "value": {}}]), json!({}));
}

#[test]
fn numbers_are_tested_by_what_they_are_worth() {
    let test = |path: &str, value: Value| json!([{"op": "test", "path": path, "value": value}]);
    let document = json!({"a/b": {"~": 1}, "list": [3, {"x": 4.0}]});
    let holds = [
        test("/a~1b/~0", json!(1.0)),
        test("/list", json!([3.0, {"x": 4}])),
        test("", json!({"list": [3, {"x": 4}], "a/b": {"~": 1.0}})),
    ];
    for patch in holds {
        check(document.clone(), patch, document.clone());
    }
    let after = json!([
        {"op": "replace", "path": "/list/0", "value": 5.0},
        {"op": "test", "path": "/list/0", "value": 5},
    ]);
    check(json!({"list": [3]}), after, json!({"list": [5.0]}));
}

#[track_caller]
fn refuse(document: Value, patch: Value, expect: &str) {
    let error = applied(document, patch).expect_err("refused").to_string();
    assert!(error.contains(expect), "{error}");
}

#[test]
fn what_does_not_apply_is_named() {
    let json_patch = "this is not a JSON patch";
    refuse(json!({}), json!({}), json_patch);
    refuse(json!({}), json!([{"op": "add", "path": "/a"}]), json_patch);
    refuse(json!({}), json!([{"op": "sing", "path": "/a"}]), json_patch);
    refuse(json!({}), json!([{"op": "remove", "path": "a"}]), json_patch);
    let test = |path: &str, value: Value| json!([{"op": "test", "path": path, "value": value}]);
    let failed = "a: operation 0 of the patch (test) failed: value did not match";
    refuse(json!({"a": 1}), test("/a", json!(2)), failed);
    refuse(json!({"a": 1}), test("/a", json!("1")), failed);
    refuse(json!({"a": 1}), test("/b", json!(null)), "operation 0 of the patch (test) failed");
    let (remove, add) = ("operation 0 of the patch (remove)", "operation 1 of the patch (add)");
    refuse(json!({}), json!([{"op": "remove", "path": "/a"}]), remove);
    refuse(json!({"a": [1]}), json!([{"op": "remove", "path": "/a/01"}]), remove);
    let beyond = json!([
        {"op": "test", "path": "/a/0", "value": 1.0},
        {"op": "add", "path": "/a/3", "value": 1},
    ]);
    refuse(json!({"a": [1]}), beyond, add);
    let into_itself = json!([{"op": "move", "from": "/a", "path": "/a/b"}]);
    refuse(json!({"a": {}}), into_itself, "operation 0 of the patch (move)");
}

proptest! {
    #[test]
    fn any_path_is_answered(steps in prop::collection::vec("[a-c0-2~/-]{0,3}", 0..4), op in "add|remove|test") {
        let path: String = steps.iter().map(|step| format!("/{step}")).collect();
        let document = json!({"a": [1, {"b": 2}], "c": {"0": []}});
        if let Err(error) = applied(document, json!([{"op": op, "path": path, "value": 1}])) {
            prop_assert!(matches!(error, Error::Invalid { .. } | Error::BadRequest(_)), "{}", error);
        }
    }
}
