use super::*;
use proptest::prelude::*;
use serde_json::json;

/// What templates are made of.
const PIECES: &[&str] = &[
    "{", "}", "[", "]", "(", ")", "?(", "@", "$", ".", "..", "*", ":", "-1", "0", "range ", "end",
    "items", "metadata", "name", "'", "\"", "\\", "==", "&&", "||", "!", ",", " ", "é", "\n",
];

proptest! {
    /// A template is read or refused, and whatever was read says something of everything.
    #[test]
    fn every_template_is_read_or_refused(
        pieces in prop::collection::vec(prop::sample::select(PIECES), 0..24),
        times in 1..50_usize,
    ) {
        let text = pieces.concat();
        for text in [text.clone(), text.repeat(times)] {
            if let Ok(template) = text.parse::<Template>() {
                template.render(&mk_list());
                template.render(&Value::Null);
            }
        }
    }
}

fn mk_list() -> Value {
    json!({"items": [
        {"metadata": {"name": "a", "labels": {"app.io/name": "web"}},
         "status": {"conditions": [{"type": "Ready", "status": "True"}]}},
        {"metadata": {"name": "b-1"}, "spec": {"count": 3, "args": ["x", "y"]}},
    ]})
}

#[track_caller]
fn check(template: &str, expect: &str) {
    let parsed: Template = template.parse().unwrap();
    assert_eq!(parsed.render(&mk_list()), expect, "{template}");
}

#[test]
fn templates_as_kubectl_writes_them() {
    check("{.items[0].metadata.name}", "a");
    check("{.items[*].metadata.name}", "a b-1");
    check("{$.items[1].spec.count}", "3");
    check(".items[1].spec.count", "3");
    check("items[1].spec.count", "3");
    check("{.items[1].spec.args}", r#"["x","y"]"#);
    check("{.items[1].spec.args[-1]}", "y");
    check("{.items[*].absent}", "");
    check("{..name}", "a b-1");
    check(r"{.items[0].metadata.labels.app\.io/name}", "web");
    check("{.items[0].metadata.labels['app.io/name']}", "web");
    check(r#"{.items[?(@.metadata.name=="b-1")].spec.count}"#, "3");
    check(r#"{.items[0].status.conditions[?(@.type=="Ready")].status}"#, "True");
    check("{.items[0].metadata.name} is {'here}'}", "a is here}");
    check(r#"{range .items[*]}{.metadata.name}{"\n"}{end}"#, "a\nb-1\n");
    check(
        r#"{range .items[1:]}{@.metadata.name}:{range .spec.args[*]}{" "}{@}{end};{end}"#,
        "b-1: x y;",
    );
}

#[test]
fn broken_templates_are_refused() {
    for template in [
        "{.a",
        "{range .a}x",
        "{end}",
        "{.a[}",
        "{\"x}",
        "{.a b}",
        "a b",
        &"{range .a}".repeat(40),
        &format!("{{.a[?{}]}}", "(".repeat(100_000)),
        &format!("{{.a[?{}@]}}", "!".repeat(100_000)),
    ] {
        assert!(template.parse::<Template>().is_err(), "{template}");
    }
}

#[test]
fn a_path_says_itself_with_braces() {
    for text in ["{.a.b}", ".a.b", " .a.b "] {
        assert_eq!(text.parse::<Path>().unwrap().to_string(), "{.a.b}");
    }
    assert!("{.a".parse::<Path>().is_err());
}
