//! Commands about the command line itself, and about what the server knows.
use crate::harness::{Home, ORRERY};

#[test]
fn contexts_are_made_used_and_forgotten() {
    let home = Home::new();
    assert!(home.orrery(&["context", "list"]).err.contains("no contexts"));
    home.orrery(&["context", "set", "a", "--server", "http://127.0.0.1:1", "-p", "shop"]).good();
    home.orrery(&["context", "set", "b", "--server", "http://127.0.0.1:2"]).good();
    let list = home.orrery(&["context", "list"]).good();
    let rows: Vec<Vec<&str>> = list.lines().map(|l| l.split_whitespace().collect()).collect();
    assert_eq!(rows[1], ["*", "a", "http://127.0.0.1:1", "shop"], "the first one is used");
    home.orrery(&["context", "use", "b"]).good();
    home.orrery(&["context", "set", "b", "--project", "test"]).good();
    let shown = home.orrery(&["context", "show"]).good();
    assert_eq!(shown, "name: b\nserver: http://127.0.0.1:2\nproject: test\n");
    home.orrery(&["context", "delete", "b"]).good();
    assert!(home.orrery(&["context", "show"]).bad(1).contains("no context is used"));
    assert!(home.orrery(&["context", "use", "b"]).bad(1).contains("there are: a"));
    assert!(home.orrery(&["context", "set", "c"]).bad(1).contains("--server"));
    let said = home.orrery(&["context", "set", "c", "--server", "nowhere"]).bad(1);
    assert!(said.contains("nowhere"), "{said}");
}

#[test]
fn kinds_are_listed_and_explained() {
    let home = Home::new();
    let _up = home.up();
    let kinds = home.orrery(&["api-resources"]).good();
    assert!(kinds.starts_with("NAME"), "{kinds}");
    assert!(kinds.contains("workloads") && kinds.contains("apps.orrery.dev/v1"), "{kinds}");
    let names = home.orrery(&["api-resources", "-o", "name", "--api-group", "apps"]).good();
    assert_eq!(names, "workloads.apps.orrery.dev\nworkloadinstances.apps.orrery.dev\n");
    let said = home.orrery(&["explain", "wl.spec.process"]).good();
    assert!(said.contains("FIELD:       spec.process <Object>"), "{said}");
    let tree = home.orrery(&["explain", "workload", "--recursive"]).good();
    assert!(tree.contains("      command  <string> (required)"), "{tree}");
    assert!(home.orrery(&["explain", "workload.spec.x"]).bad(1).contains("has no field \"x\""));
    assert!(home.orrery(&["explain", "wrkload"]).bad(1).contains("did you mean"));
}

#[test]
fn explain_needs_no_server() {
    let home = Home::new();
    let said = home.orrery(&["explain", "project", "--server", "http://127.0.0.1:1"]);
    assert!(said.err.contains("not available"), "{said:?}");
    assert!(said.good().contains("KIND:        Project"));
}

/// What a shell is offered for the last word of a line.
fn complete(home: &Home, line: &str) -> Vec<String> {
    let words: Vec<&str> = line.split(' ').collect();
    let mut command = home.command(ORRERY);
    command
        .env("ORRERY_COMPLETE", "bash")
        .env("_CLAP_COMPLETE_INDEX", (words.len() - 1).to_string());
    command.env("_CLAP_IFS", "\n").arg("--").args(&words);
    let done = crate::harness::Done::from(command.output().unwrap());
    done.good().lines().map(str::to_owned).collect()
}

#[test]
fn completion_knows_kinds_and_names() {
    let home = Home::new();
    for shell in ["bash", "zsh", "fish"] {
        let script = home.orrery(&["completion", shell]).good();
        assert!(script.contains("ORRERY_COMPLETE"), "{shell}: {script}");
    }
    assert_eq!(complete(&home, "orrery ap"), ["apply", "api-resources"]);
    assert_eq!(complete(&home, "orrery get workloadi"), ["workloadinstances"], "without a server");
    assert_eq!(complete(&home, "orrery get workload h"), Vec::<String>::new());
    let _up = home.up();
    home.orrery(&["apply", "-f", "examples/hello.yaml"]).good();
    assert_eq!(complete(&home, "orrery get -p hello workload h"), ["hello"]);
    assert_eq!(complete(&home, "orrery delete -p hello workload/"), ["workload/hello"]);
    assert_eq!(complete(&home, "orrery get workloads --project hel"), ["hello"]);
    assert_eq!(complete(&home, "orrery explain workload.spec.proc"), ["workload.spec.process"]);
    assert_eq!(complete(&home, "orrery --context lo"), ["local"]);
}

/// What never ends looks like a program that hangs, unless it says for what it waits.
#[test]
fn whoever_waits_without_a_terminal_is_told_for_what() {
    let home = Home::new();
    let _up = home.up();
    let held = "{apiVersion: core.orrery.dev/v1, kind: Project,
        metadata: {name: held, finalizers: [example.org/hold]}}\n";
    let file = home.write("held.yaml", held);
    home.orrery(&["apply", "-f", file.to_str().unwrap()]).good();
    let said = home.orrery(&["delete", "project", "held", "--timeout", "12s"]).bad(1);
    let reminder = "still waiting for project/held (being deleted, held by example.org/hold)";
    assert_eq!(said.matches(reminder).count(), 1, "{said}");
}
