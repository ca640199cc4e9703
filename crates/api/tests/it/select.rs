//! Selectors on objects.
use orrery_api::{FieldSelector, LabelSelector};
use serde_json::json;

use crate::support::{gadget_kind, mk};

fn gadget() -> orrery_api::Object {
    mk(json!({
        "apiVersion": "testkit.orrery.dev/v1", "kind": "Gadget",
        "metadata": {"name": "g", "project": "p", "labels": {"app": "web"}},
        "spec": {"mode": "idle", "sizeBytes": 5, "image": {"name": "a=b,c"}},
        "status": {"phase": "Working"},
    }))
}

#[track_caller]
fn check(selector: &str, expect: bool) {
    let parsed = FieldSelector::parse(selector, &gadget_kind()).expect("a good selector");
    assert_eq!(parsed.matches(&gadget()), expect, "{selector}");
    let again = FieldSelector::parse(&parsed.to_string(), &gadget_kind());
    assert_eq!(again.as_ref(), Ok(&parsed), "{parsed}");
}

#[test]
fn fields_are_compared() {
    check("", true);
    check("metadata.name=g", true);
    check("metadata.name==g,metadata.namespace=p", true);
    check("metadata.project=q", false);
    check("metadata.name!=g", false);
    check("status.phase=Working", true);
    check("status.phase!=Waiting", true);
    check("spec.mode = idle", true);
    check("spec.sizeBytes=5", true);
    check("spec.sizeBytes!=5", false);
    check("status.restarts=0", true);
    check("spec.home=", true);
    check("spec.home=x", false);
    check(r"spec.image.name=a\=b\,c", true);
}

#[test]
fn a_single_name_is_found_in_a_selector() {
    let parsed = FieldSelector::parse("metadata.name=g,metadata.namespace=p", &gadget_kind());
    let parsed = parsed.expect("a good selector");
    assert_eq!(parsed.exact("metadata.name"), Some("g"));
    assert_eq!(parsed.exact("metadata.project"), Some("p"));
    assert_eq!(parsed.exact("spec.mode"), None);
}

#[test]
fn fields_that_cannot_be_selected_are_named() {
    let cases = [
        (
            "spec.mod=x",
            "\"spec.mod\" is not a field of Gadget that can be selected, did you mean \"spec.mode\"?",
        ),
        ("spec.token=x", "\"spec.token\" is not a field of Gadget that can be selected"),
        ("spec.replicas=1", "\"spec.replicas\" is not a field of Gadget that can be selected"),
        ("spec.ports.name=a", "\"spec.ports.name\" is not a field of Gadget that can be selected"),
        ("metadata.name", "\"metadata.name\" is not of the form field=value or field!=value"),
        ("metadata.name=a\\", "a backslash stands before '\\', ',' or '='"),
    ];
    for (selector, problem) in cases {
        let error = FieldSelector::parse(selector, &gadget_kind()).expect_err("a bad selector");
        let text = error.to_string();
        assert!(text.starts_with(&format!("field selector {selector:?}: {problem}")), "{text}");
    }
}

#[test]
fn labels_are_read_from_the_object() {
    let matches = |selector: &str| LabelSelector::parse(selector).expect("good").matches(&gadget());
    assert!(matches("app=web") && matches("app in (web, db),!zone") && !matches("app=db"));
}
