//! Cases of workloads and others.
use super::catalog;
use crate::resource::{Path, Step, View, check, of_violation, owned, plan, show};
use crate::schema::ResourceType;
use crate::value::{Value, read_state};
use serde_json::{Value as Json, json};

fn of(name: &str) -> &'static ResourceType {
    &catalog().resources[name]
}

fn workload() -> &'static ResourceType {
    of("orrery_workload")
}

fn value(of: &ResourceType, json: &Json) -> Value {
    read_state(json, of.r#type()).expect("a value of its type")
}

fn web(spec: Json) -> Value {
    value(workload(), &json!({"metadata": {"name": "web"}, "spec": spec}))
}

/// The attributes that problems are found at.
#[track_caller]
fn check_problems(config: &Value, expect: &[&str]) {
    let found: Vec<String> =
        check(workload(), config).into_iter().map(|problem| text(&problem.path)).collect();
    assert_eq!(found, expect, "{:#?}", check(workload(), config));
}

fn text(path: &Path) -> String {
    let each = path.0.iter().map(|step| match step {
        Step::Attribute(name) => name.clone(),
        Step::Index(at) => at.to_string(),
        Step::Key(key) => format!("{key:?}"),
    });
    each.collect::<Vec<_>>().join(".")
}

/// proves: HUB-19
#[test]
fn a_configuration_is_checked_where_it_is_wrong() {
    let process = json!({"command": "sleep"});
    check_problems(&web(json!({"process": process, "placement": {"nodes": ["a"]}})), &[]);
    let both = json!({"process": process, "podman": {"image": "x"}, "placement": {"nodes": ["a"]}});
    check_problems(&web(both), &["spec.podman"]);
    check_problems(&web(json!({"placement": {"nodes": ["a"]}})), &["spec"]);
    let late =
        json!({"process": process, "placement": {"nodes": ["a"]}, "stop_grace_seconds": 4000});
    check_problems(&web(late), &["spec.stop_grace_seconds"]);
    // What is wrong with an item of a set is said of the set.
    let files = json!([{"path": "a", "text": "x", "secret": {"name": "s", "key": "k"}}]);
    let files = json!({"process": process, "placement": {"nodes": ["a"]}, "files": files});
    check_problems(&web(files), &["spec.files"]);
}

/// What is not known yet may still become right.
#[test]
fn what_is_unknown_is_not_judged() {
    let mut config = web(json!({"placement": {"nodes": ["a"]}}));
    let Value::Map(root) = &mut config else { panic!("an object") };
    let Some(Value::Map(spec)) = root.get_mut("spec") else { panic!("an object") };
    spec.insert("process".to_owned(), Value::UNKNOWN);
    let Some(Value::Map(metadata)) = root.get_mut("metadata") else { panic!("an object") };
    metadata.insert("name".to_owned(), Value::UNKNOWN);
    check_problems(&config, &[]);
}

/// proves: HUB-20
#[test]
fn order_in_sets_and_keyed_lists_says_nothing() {
    let config = |nodes: Json, files: Json| {
        web(json!({"process": {"command": "x"}, "placement": {"nodes": nodes}, "files": files}))
    };
    let (a, b) = (json!({"path": "a", "text": "1"}), json!({"path": "b", "text": "2"}));
    let one = config(json!(["n1", "n2"]), json!([a, b]));
    let other = config(json!(["n2", "n1"]), json!([b, a]));
    assert_eq!(one, other);
}

#[test]
fn a_default_that_was_set_comes_back_when_it_is_taken_out() {
    let object = workload().object();
    let base = json!({"process": {"command": "x"}, "placement": {"nodes": ["a"]}});
    let mut with = base.clone();
    with["restart_policy"] = json!("never");
    let set = web(with);
    let state = plan(object, &set, &Value::Null, &Json::Null, Some("p")).state;
    let removed = plan(object, &web(base.clone()), &state, &owned(object, &set), Some("p"));
    assert!(removed.state.at(&["spec", "restart_policy"]).is_unknown());
    // Somebody else's word stays.
    let kept = plan(object, &web(base), &state, &Json::Null, Some("p"));
    assert_eq!(kept.state.at(&["spec", "restart_policy"]), &Value::text("never"));
}

#[test]
fn what_cannot_change_is_replaced() {
    let class = of("orrery_machine_class");
    let config = |name: &str, provider: &str| {
        value(class, &json!({"metadata": {"name": name}, "spec": {"provider": provider}}))
    };
    let planned =
        |config: &Value, prior: &Value| plan(class.object(), config, prior, &Json::Null, Some("p"));
    let prior = planned(&config("a", "qemu"), &Value::Null).state;
    assert_eq!(planned(&config("a", "qemu"), &prior).replaces, []);
    let renamed = planned(&config("b", "qemu"), &prior);
    assert_eq!(renamed.replaces, [Path::of(&["metadata", "name"])]);
    assert!(
        renamed.state.at(&["metadata", "uid"]).is_unknown(),
        "another object has another identity"
    );
    assert_eq!(planned(&config("a", "aws"), &prior).replaces, [Path::of(&["spec", "provider"])]);
}

/// What others add is theirs; what they take away is missed.
#[test]
fn drift_is_seen_in_what_is_ours() {
    let config = value(
        workload(),
        &json!({"metadata": {"name": "web", "labels": {"a": "1", "b": "2"}},
                "spec": {"process": {"command": "x"}, "placement": {"nodes": ["n1", "n2"]},
                         "files": [{"path": "f", "text": "1"}]}}),
    );
    let server = json!({
        "metadata": {"name": "web", "labels": {"a": "9", "c": "3"}},
        "spec": {"process": {"command": "x"}, "placement": {"nodes": ["n2", "n3"]}, "stopSignal": "SIGINT",
                 "resources": {"limits": {"memoryMib": 5}},
                 "files": [{"path": "f", "text": "2", "mode": "0600"}, {"path": "g", "text": "3"}]},
        "status": {"state": "Running"},
    });
    let state = show(workload().object(), &server, &config, View::Known);
    assert_eq!(state.at(&["metadata", "labels"]), &Value::object([("a", Value::text("9"))]));
    assert_eq!(state.at(&["spec", "placement", "nodes"]), &Value::List(vec![Value::text("n2")]));
    assert_eq!(state.at(&["spec", "resources"]), &Value::Null);
    assert_eq!(
        state.at(&["spec", "stop_signal"]),
        &Value::text("SIGINT"),
        "the server fills it in"
    );
    let files = state.at(&["spec", "files"]).as_list().expect("a set");
    assert_eq!(files.len(), 1);
    assert_eq!(files[0].get("text"), &Value::text("2"));
    assert_eq!(state.at(&["status", "state"]), &Value::text("Running"));
    let all = show(workload().object(), &server, &Value::Null, View::All);
    assert_eq!(all.at(&["spec", "files"]).as_list().map(<[Value]>::len), Some(2));
    assert_eq!(all.at(&["spec", "resources", "limits", "memory_mib"]), &Value::integer(5));
}

#[track_caller]
fn check_path(violation: &str, expect: &str) {
    assert_eq!(text(&of_violation(workload().object(), violation)), expect, "{violation}");
}

#[test]
fn violations_lead_to_attributes() {
    check_path("spec.stopGraceSeconds", "spec.stop_grace_seconds");
    check_path("spec.process.args[3]", "spec.process.args.3");
    check_path("spec.process.env[PATH]", "spec.process.env.\"PATH\"");
    check_path("spec.placement.nodes[0]", "spec.placement.nodes");
    check_path("spec.files[0].mode", "spec.files");
    check_path("metadata.labels[a.b/c]", "metadata.labels.\"a.b/c\"");
    check_path("spec.noSuchField", "spec");
    check_path("", "");
}
