//! Where settings come from, and what is said of wrong ones.
use super::*;
use crate::value::read_state;
use serde_json::{Value as Json, json};

const CONTEXTS: &str = "current: here\ncontexts:\n\
    - {name: here, server: 'http://here:1', project: mine}\n\
    - {name: there, server: 'http://there:2'}\n";

fn config(json: &Json) -> Value {
    read_state(json, &schema().r#type()).expect("a configuration")
}

/// Settings with a contexts file in the usual place, and these variables.
fn find(json: &Json, variables: &[(&str, &str)]) -> Result<Settings, Problem> {
    let home = tempfile::tempdir().expect("a folder");
    let folder = home.path().join("orrery");
    std::fs::create_dir(&folder).expect("a folder");
    std::fs::write(folder.join("config.yaml"), CONTEXTS).expect("written");
    Settings::find(&config(json), |name| match name {
        "XDG_CONFIG_HOME" => Some(home.path().into()),
        name => {
            variables.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).into())
        }
    })
}

#[track_caller]
fn check_found(json: Json, variables: &[(&str, &str)], server: &str, project: &str) {
    let found = find(&json, variables).unwrap_or_else(|problem| panic!("{problem:?}"));
    assert_eq!(
        (found.endpoint.server().as_str(), found.project.as_str()),
        (server, project),
        "{json}"
    );
}

#[test]
fn the_configuration_counts_before_variables_and_both_before_contexts() {
    let variable = ("ORRERY_SERVER", "http://variable:3");
    check_found(json!({}), &[], "http://here:1", "mine");
    check_found(json!({}), &[variable], "http://variable:3", "mine");
    check_found(json!({"server": "http://said:4"}), &[variable], "http://said:4", "mine");
    check_found(json!({"context": "there"}), &[], "http://there:2", "default");
    check_found(json!({}), &[("ORRERY_CONTEXT", "there")], "http://there:2", "default");
    check_found(json!({"project": "p"}), &[], "http://here:1", "p");
    check_found(json!({"server": ""}), &[("ORRERY_SERVER", "")], "http://here:1", "mine");
}

#[track_caller]
fn check_problem(found: Option<Problem>, attribute: &str, words: &str) {
    let problem = found.expect("something is wrong");
    assert_eq!(problem.path, Path::of(&[attribute]), "{problem:?}");
    assert!(problem.detail.contains(words), "{problem:?}");
}

#[test]
fn what_is_wrong_is_said_of_its_attribute() {
    let found = |json: Json| find(&json, &[]).err();
    check_problem(found(json!({"server": "https://h:1"})), "server", "https needs");
    check_problem(found(json!({"context": "no"})), "context", "there are: here, there");
    check_problem(found(json!({"config_file": "/no/file"})), "config_file", "/no/file");
    check_problem(found(json!({"token_file": "/no/token"})), "token_file", "/no/token");
    check_problem(found(json!({"token": "a b\n c"})), "token", "letters that no token has");
    let files =
        json!({"server": "https://h:1", "root": "/no/r", "certificate": "/no/c", "key": "/no/k"});
    check_problem(found(files), "root", "/no/r");
}

#[test]
fn contradictions_are_found_without_files() {
    let found = |json: Json, variables: &[(&str, &str)]| {
        let variable = |name: &str| {
            let found = variables.iter().find(|(known, _)| *known == name);
            found.map(|(_, value)| OsString::from(value))
        };
        check(&config(&json), variable).into_iter().next()
    };
    check_problem(
        found(json!({"certificate": "c"}), &[]),
        "certificate",
        "needs \"key\" beside it",
    );
    assert_eq!(found(json!({"certificate": "c"}), &[("ORRERY_KEY", "k")]), None);
    check_problem(found(json!({"token": "t", "token_file": "f"}), &[]), "token", "one token");
    check_problem(found(json!({"server": "nowhere"}), &[]), "server", "is no server address");
    assert_eq!(found(json!({"server": "https://h:1", "root": "r"}), &[]), None);
    assert_eq!(found(json!({}), &[]), None);
}

/// Variables stand for attributes, never for secrets in the configuration.
#[test]
fn only_the_token_is_sensitive() {
    let sensitive: Vec<String> =
        schema().attributes.into_iter().filter(|a| a.sensitive).map(|a| a.name).collect();
    assert_eq!(sensitive, ["token"]);
}
