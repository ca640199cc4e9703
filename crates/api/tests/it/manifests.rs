//! Files of resources: what is read, and what is said about bad ones.
use orrery_api::{FILE_BYTES_MAX, JsonOptions, Manifest, parse_manifests, value_to_yaml};
use serde_json::json;

use crate::support::scheme;

const HELLO: &str = "\
# A project and a workload.
apiVersion: core.orrery.dev/v1
kind: Project
metadata: {name: demo}
---
apiVersion: apps.orrery.dev/v1
kind: Workload
metadata:
  name: hello
  namespace: demo
  labels:
    example.com/app: web
spec:
  process:
    command: sleep
    args: [\"1000\"]
  placement:
    nodes:
      - n1
      - N_2
";

fn parse(text: &str) -> Vec<Manifest> {
    parse_manifests("f.yaml", text.as_bytes()).expect("a good file")
}

#[track_caller]
fn refused(text: impl AsRef<[u8]>, expect: &str) {
    let error = parse_manifests("f.yaml", text.as_ref()).expect_err("a bad file");
    assert_eq!(error.to_string(), expect);
}

#[test]
fn documents_have_index_and_line() {
    let found = parse(HELLO);
    let places: Vec<(usize, usize)> = found.iter().map(|m| (m.index, m.line)).collect();
    assert_eq!(places, [(0, 2), (1, 6)]);
    assert_eq!(found[1].value["spec"]["process"]["args"], json!(["1000"]));
}

#[test]
fn fields_are_located() {
    let workload = &parse(HELLO)[1];
    let cases = [
        ("", "f.yaml:6:1"),
        ("metadata.name", "f.yaml:9:3"),
        ("metadata.project", "f.yaml:10:3"),
        ("metadata.labels[example.com/app]", "f.yaml:12:5"),
        ("spec.process.args[0]", "f.yaml:16:12"),
        ("spec.placement.nodes[1]", "f.yaml:20:9"),
        ("spec.placement.nodes[7]", "f.yaml:18:5"),
        ("spec.restartPolicy", "f.yaml:13:1"),
        ("status.state", "f.yaml:6:1"),
    ];
    for (path, expect) in cases {
        assert_eq!(workload.at(path), expect, "{path}");
    }
}

#[test]
fn violations_are_shown_with_their_place() {
    let read = scheme().read_manifests("hello.yaml", HELLO.as_bytes()).expect("a good file");
    let (manifest, object) = &read[1];
    let found: Vec<String> = object.validate(None).iter().map(|v| manifest.describe(v)).collect();
    let [only] = found.as_slice() else { panic!("one violation: {found:?}") };
    let expect = "hello.yaml:20:9: spec.placement.nodes[1]: Invalid value: \"N_2\": must be";
    assert!(only.starts_with(expect), "{only}");
}

#[test]
fn problems_of_all_resources_are_collected() {
    let text = "\
kind: Project
apiVersion: core.orrery.dev/v1
metadata: {nam: demo}
---
apiVersion: apps.orrery.dev/v1
kind: Worklaod
---
apiVersion: apps/v1
kind: Workload
---
apiVersion: apps.orrery.dev/v1
kind: Workload
spec:
  process: {command: 3}
  replicas: 2
---
just text
";
    let errors = scheme().read_manifests("f.yaml", text.as_bytes()).expect_err("bad resources");
    let expect = "\
f.yaml:3:12: metadata.nam: unknown field, did you mean \"name\"?
f.yaml:6:1: no kind is called \"Worklaod\" in apiVersion \"apps.orrery.dev/v1\", did you mean \"Workload\"?
f.yaml:8:1: Workload is not in apiVersion \"apps/v1\": it is in \"apps.orrery.dev/v1\"
f.yaml:14:13: spec.process.command: Invalid value: expected a string, found the number 3 (quote it)
f.yaml:15:3: spec.replicas: unknown field
f.yaml:17:1: a resource must be an object with apiVersion, kind, metadata and spec, found the string \"just text\"";
    assert_eq!(errors.to_string(), expect);
}

/// proves: HUB-10
#[test]
fn lists_are_taken_apart() {
    let text = "\
apiVersion: v1
kind: List
items:
- {apiVersion: core.orrery.dev/v1, kind: Project, metadata: {name: a}}
- apiVersion: core.orrery.dev/v1
  kind: Project
  metadata: {name: b}
---
apiVersion: core.orrery.dev/v1
kind: ProjectList
items:
- metadata: {name: c}
";
    let read = scheme().read_manifests("f.yaml", text.as_bytes()).expect("good lists");
    let found: Vec<(String, usize)> =
        read.iter().map(|(m, object)| (object.name().to_owned(), m.line)).collect();
    assert_eq!(found, [("a".to_owned(), 4), ("b".to_owned(), 5), ("c".to_owned(), 12)]);
    assert_eq!(read[1].0.at("metadata.name"), "f.yaml:7:14");
}

#[test]
fn empty_documents_are_skipped() {
    for text in ["", "\n", "---\n---\n", "# nothing\n", "---\n...\n", "null\n"] {
        assert_eq!(parse(text).len(), 0, "{text:?}");
    }
    assert_eq!(parse("---\n---\na: 1\n---\n").len(), 1);
}

#[test]
fn json_files_are_read_with_their_own_escapes() {
    let text = "{\n\t\"kind\": \"X\",\n\t\"text\": \"\\ud83d\\ude00 \\/\",\n\t\"n\": [1, 2.5]\n}\n";
    let found = parse_manifests("f.json", text.as_bytes()).expect("good JSON");
    assert_eq!(found[0].value, json!({"kind": "X", "text": "😀 /", "n": [1, 2.5]}));
    let error = parse_manifests("f.json", b"{\"a\": }").expect_err("bad JSON");
    assert_eq!(error.to_string(), "f.json:1:7: expected value");
    let flow = parse("{a: 1, b: [x, y]}");
    assert_eq!(flow[0].value, json!({"a": 1, "b": ["x", "y"]}));
    refused("{\"a\": 1, \"a\": 2}", "f.yaml:1:10: key \"a\" is written twice, first on line 1");
}

#[test]
fn bad_files_say_where() {
    refused("a: 1\nb: 2\na: 3\n", "f.yaml:3:1: key \"a\" is written twice, first on line 1");
    refused("a: {b: 1, b: 2}\n", "f.yaml:1:11: key \"b\" is written twice, first on line 1");
    refused(b"a: b\nc: \xc3\x28\n", "f.yaml:2:4: not valid UTF-8 at byte 8");
    refused("a: *nope\n", "f.yaml:1:4: while parsing node, found unknown anchor");
    refused("[a]: 1\n", "f.yaml:1:1: a key must be plain text");
    refused(": 1\n", "f.yaml:1:1: a key is missing before ':'");
    refused("a: .inf\n", "f.yaml:1:4: .inf is a number that cannot be kept: write a finite one");
    refused("a: !mine 1\n", "f.yaml:1:10: tag !mine is not supported: write plain values");
    refused("a: &x {b: *x}\n", "f.yaml:1:11: an alias stands inside the value it repeats");
    refused(
        "base: &b {x: 1}\nuse:\n  <<: *b\n",
        "f.yaml:3:3: merge keys (<<) are not supported: write the fields out",
    );
}

#[test]
fn broken_syntax_says_where() {
    for (text, place) in [
        ("a: [1, 2\n", "f.yaml:1:4: unclosed bracket '['"),
        ("a: b: c\n", "f.yaml:1:5: "),
        ("a:\n\t- 1\n", "f.yaml:2:"),
        ("a: 'x\n", "f.yaml:2:1: "),
        ("a:\n  - b\n c: d\n", "f.yaml:3:"),
    ] {
        let error = parse_manifests("f.yaml", text.as_bytes()).expect_err("broken").to_string();
        assert!(error.starts_with(place), "{text:?}: {error}");
    }
}

#[test]
fn aliases_repeat_values_within_bounds() {
    let found = parse("a: &x [1, 2]\nb: *x\n");
    assert_eq!(found[0].value, json!({"a": [1, 2], "b": [1, 2]}));

    let found = parse("&k key: 1\nother: *k\n");
    assert_eq!(found[0].value, json!({"key": 1, "other": "key"}));

    let mut bomb = "a0: &a0 [lol, lol, lol, lol, lol, lol, lol, lol]\n".to_owned();
    for level in 1..20 {
        let before = level - 1;
        bomb += &format!("a{level}: &a{level} [*a{before}, *a{before}, *a{before}, *a{before}]\n");
    }
    let error = parse_manifests("f.yaml", bomb.as_bytes()).expect_err("a bomb").to_string();
    assert!(error.ends_with("too many values, those counted that aliases repeat"), "{error}");
}

#[test]
fn limits_say_where_they_were_reached() {
    let deep = format!("a: {}{}\n", "[".repeat(64), "]".repeat(64));
    refused(deep, "f.yaml:1:67: nested too deeply: at most 64 levels are allowed");
    refused("{".repeat(300), "f.yaml:1:256: nested too deeply: at most 64 levels are allowed");
    let large = vec![b' '; FILE_BYTES_MAX + 1];
    refused(large, "f.yaml:1:1: too large: 16777217 bytes, at most 16777216");
    let resource = format!("---\nkind: X\ntext: {}\n", "x".repeat(1 << 20));
    refused(resource, "f.yaml:2:1: resource is too large: at most 1048576 bytes");
}

#[test]
fn yaml_is_written_so_that_nothing_is_mistaken() {
    let value = json!({
        "country": "no", "number": "012", "float": "1e3", "null": "~", "empty": "", "zero": 0,
        "lines": "one\ntwo\n", "list": [], "map": {}, "items": [{"a": 1, "b": "x: y"}],
        "long": "word ".repeat(50),
    });
    let text = value_to_yaml(&value);
    assert_eq!(parse(&text)[0].value, value, "{text}");
    assert!(text.contains("lines: |\n"), "{text}");
    assert!(text.contains("items:\n- a: 1\n  b: "), "{text}");
}

#[test]
fn objects_are_written_as_yaml_in_the_order_of_their_definition() {
    let read = scheme().read_manifests("hello.yaml", HELLO.as_bytes()).expect("a good file");
    let expect = "\
apiVersion: apps.orrery.dev/v1
kind: Workload
metadata:
  name: hello
  project: demo
  labels:
    example.com/app: web
spec:
  process:
    command: sleep
    args:
    - \"1000\"
  placement:
    nodes:
    - n1
    - N_2
  restartPolicy: always
  stopSignal: SIGTERM
  stopGraceSeconds: 10
";
    assert_eq!(read[1].1.to_yaml(&JsonOptions::default()), expect);
}
