//! Commands that only look: get in all its forms, describe, events, wait.
use crate::harness::{Home, ORRERY, signal, until};
use rustix::process::Signal;
use serde_json::Value;
use std::io::{BufRead as _, BufReader};
use std::process::{Child, ChildStdout, Stdio};

fn project(name: &str, label: &str) -> String {
    format!(
        "apiVersion: core.orrery.dev/v1\nkind: Project\nmetadata:\n  name: {name}\n  labels:\n    \
         app: {label}\n"
    )
}

fn apply(home: &Home, text: &str) {
    let file = home.write("some.yaml", text);
    home.orrery(&["apply", "-f", file.to_str().unwrap()]).good();
}

#[test]
fn get_shows_what_is_asked_for() {
    let home = Home::new();
    let _up = home.up();
    apply(&home, &format!("{}---\n{}", project("b", "web"), project("a", "db")));
    home.orrery(&["apply", "-f", "examples/hello.yaml", "--wait", "--timeout", "60s"]).good();
    let check = |arguments: &str, expect: &str| {
        let words: Vec<&str> = arguments.split(' ').collect();
        assert_eq!(home.orrery(&words).good(), expect, "{arguments}");
    };
    check("get projects -l app -o name", "project/a\nproject/b\n");
    check("get projects -l app=web -o name", "project/b\n");
    check("get projects --field-selector metadata.name=a -o name", "project/a\n");
    check("get proj a b -o jsonpath={.items[*].metadata.labels.app}", "db web");
    check("get project a -o jsonpath={.metadata.labels.app}", "db");
    check("get projects -l app --sort-by .metadata.labels.app -o name", "project/a\nproject/b\n");
    check("get projects -l app --sort-by {.metadata.name} -o name", "project/a\nproject/b\n");
    check("get project/a workload/hello -p hello -o name", "project/a\nworkload/hello\n");
    check("get workloads,projects -p hello -l app=db -o name", "project/a\n");
    check("get wl -A --field-selector status.state=Running -o name", "workload/hello\n");
    check("get workloads -p b -o name", "");
    let all = home.orrery(&["get", "all", "-A"]).good();
    assert!(
        all.contains("workload/hello") && all.contains("workloadinstance/hello-local"),
        "{all}"
    );
    let table = home.orrery(&["get", "project", "a", "--show-labels"]).good();
    let lines: Vec<Vec<&str>> = table.lines().map(|l| l.split_whitespace().collect()).collect();
    assert_eq!(lines[0], ["NAME", "PHASE", "AGE", "LABELS"]);
    assert_eq!((lines[1][0], lines[1][3]), ("a", "app=db"));
    assert_eq!(
        table.find("LABELS"),
        table.lines().nth(1).unwrap().find("app=db"),
        "columns line up"
    );
    let bare = home.orrery(&["get", "projects", "--no-headers"]).good();
    assert!(!bare.contains("NAME") && !bare.contains('\u{1b}'), "{bare}");
    let list: Value =
        serde_json::from_str(&home.orrery(&["get", "all", "-A", "-o", "json"]).good()).unwrap();
    assert_eq!((&list["kind"], list["items"].as_array().unwrap().len()), (&"List".into(), 2));
    let some = home.orrery(&["get", "project", "a", "nope"]);
    assert_eq!(some.code, Some(1));
    assert!(some.out.contains("\na ") && some.err.contains("\"nope\" not found"), "{some:?}");
    for (arguments, said) in [
        ("get projects -o jsonpath={.a", "a { has no }"),
        ("get projects -o xml", "jsonpath=TEMPLATE"),
        ("get workload/hello other", "KIND/NAME"),
    ] {
        let words: Vec<&str> = arguments.split(' ').collect();
        let done = home.orrery(&words);
        assert_ne!(done.code, Some(0), "{arguments}");
        assert!(done.err.contains(said), "{arguments}: {}", done.err);
    }
}

/// More than two pages.
const MANY: usize = 1100;

#[test]
fn long_lists_come_in_pages() {
    let home = Home::new();
    let _up = home.up();
    let text: Vec<String> = (0..MANY).map(|n| project(&format!("p{n:05}"), "many")).collect();
    apply(&home, &text.join("---\n"));
    let names = home.orrery(&["get", "projects", "-l", "app=many", "-o", "name"]).good();
    assert_eq!(names.lines().count(), MANY);
    let table = home.orrery(&["get", "projects", "-l", "app=many"]).good();
    assert_eq!(table.lines().count(), MANY + 1, "one header for all pages");
    let json = home.orrery(&["get", "projects", "-l", "app=many", "-o", "json"]).good();
    let list: Value = serde_json::from_str(&json).unwrap();
    assert_eq!(list["items"].as_array().unwrap().len(), MANY);
    let yaml = home.orrery(&["get", "projects", "-l", "app=many", "-o", "yaml"]).good();
    let file = home.write("list.yaml", yaml);
    let again = home.orrery(&["apply", "-f", file.to_str().unwrap(), "--dry-run"]).good();
    assert_eq!(again.lines().filter(|l| l.ends_with("(dry run)")).count(), MANY);
    assert!(!again.contains("created"), "what was printed can be applied: {again}");
}

#[test]
fn describe_and_events_tell_the_story() {
    let home = Home::new();
    let _up = home.up();
    home.orrery(&["apply", "-f", "examples/hello.yaml", "--wait"]).good();
    let said = home.orrery(&["describe", "workload", "hello", "-p", "hello"]).good();
    for expect in [
        "Name:         hello\n",
        "Spec:\n  process:\n",
        "Status:\n  state: Running\n",
        "\n  Ready ",
    ] {
        assert!(said.contains(expect), "{expect:?} is not in {said}");
    }
    let events = until("the start is told", || {
        let events = home.orrery(&["events", "-p", "hello"]).good();
        events.contains("Started").then_some(events)
    });
    let object = events.lines().nth(1).unwrap().split_whitespace().nth(4).unwrap();
    assert!(object.starts_with("workloadinstance/hello-local"), "{events}");
    let of_it = home.orrery(&["events", "-p", "hello", "--for", object, "--no-headers"]).good();
    assert!(of_it.contains("Started") && !of_it.contains("LAST SEEN"), "{of_it}");
    let said = home.orrery(&["describe", object, "-p", "hello"]).good();
    assert!(said.contains("Events:\n  LAST SEEN") && said.contains("Started"), "{said}");
    assert!(home.orrery(&["events", "--for", "workload/x"]).err.contains("no events"));
    home.orrery(&["describe", "workload", "nope"]).bad(1);
}

#[test]
fn waiting_ends_when_it_is_so_or_when_the_time_is_up() {
    let home = Home::new();
    let _up = home.up();
    let said =
        home.orrery(&["apply", "-f", "examples/hello.yaml", "--wait", "--timeout", "60s"]).good();
    assert!(said.ends_with("ready\n") && said.contains("workload/hello ready\n"), "{said}");
    let workload = ["wait", "workload/hello", "-p", "hello"];
    let wait = |more: &[&str]| home.orrery(&[&workload[..], more].concat());
    let met = "workload/hello condition met\n";
    assert_eq!(wait(&["--for", "condition=Ready"]).good(), met);
    assert_eq!(wait(&["--for", "jsonpath={.status.state}=Running"]).good(), met);
    let late = wait(&["--for", "jsonpath={.status.state}=Never", "--timeout", "1s"]).bad(1);
    assert!(late.contains("timed out after 1s") && late.contains("workload/hello"), "{late}");
    home.orrery(&["wait", "workload/nope", "--for", "condition=Ready"]).bad(1);
    home.orrery(&["wait", "workload/nope", "--for", "delete"]).good();
    wait(&["--for", "nonsense"]).bad(2);
    // Nobody runs it, so it never becomes ready; the error names it.
    let stuck = std::fs::read_to_string(crate::harness::repository().join("examples/hello.yaml"));
    let file = home.write(
        "stuck.yaml",
        stuck.unwrap().replace("[local]", "[nowhere]").replace("hello", "stuck"),
    );
    let arguments = ["apply", "-f", file.to_str().unwrap(), "--wait", "--timeout", "1s"];
    let late = home.orrery(&arguments).bad(1);
    assert!(late.contains("workload/stuck (") && !late.contains("project/stuck"), "{late}");
}

/// A command whose lines are read while it runs.
struct Following {
    child: Child,
    lines: std::io::Lines<BufReader<ChildStdout>>,
}

fn follow(home: &Home, arguments: &[&str]) -> Following {
    let mut command = home.command(ORRERY);
    let mut child = command.args(arguments).stdout(Stdio::piped()).spawn().unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    Following { child, lines }
}

impl Following {
    fn next(&mut self) -> String {
        self.lines.next().unwrap().unwrap()
    }

    fn stop(mut self) {
        signal(self.child.id(), Signal::INT);
        assert_eq!(self.child.wait().unwrap().code(), Some(130));
    }
}

/// A project and something in it that nobody acts upon.
fn with_secret(name: &str) -> String {
    format!(
        "{}---\napiVersion: core.orrery.dev/v1\nkind: Secret\nmetadata: {{name: {name}, project: shop}}\n\
         spec: {{data: {{a: Yg==}}}}\n",
        project("shop", "shop")
    )
}

/// A watch tells what went with the project, and goes on in one of the same name.
#[test]
fn watches_go_on_when_their_project_is_deleted() {
    let home = Home::new();
    let _up = home.up();
    apply(&home, &with_secret("a"));
    let mut table = follow(&home, &["get", "secrets", "-p", "shop", "-w", "-o", "name"]);
    let mut named = follow(&home, &["get", "secret", "b", "-p", "shop", "-w", "-o", "name"]);
    let mut values =
        follow(&home, &["get", "secrets", "-p", "shop", "-w", "-o", "jsonpath={.metadata.name}"]);
    let mut events = follow(&home, &["events", "-p", "shop", "-w"]);
    assert_eq!((table.next(), values.next()), ("secret/a".to_owned(), "a".to_owned()));
    assert!(events.next().starts_with("LAST SEEN"));
    home.orrery(&["delete", "project", "shop"]).good();
    assert_eq!(table.next(), "secret/a", "it is told that it is gone");
    apply(&home, &with_secret("b"));
    assert_eq!(table.next(), "secret/b");
    assert_eq!(named.next(), "secret/b");
    assert_eq!(values.next(), "a");
    assert_eq!(values.next(), "b");
    // Ended by the person, and by nothing else before.
    [table, named, values, events].into_iter().for_each(Following::stop);
    let unknown = home.orrery(&["get", "secrets", "-p", "nope", "-w"]).bad(1);
    assert!(unknown.contains("project \"nope\" not found"), "{unknown}");
}

#[test]
fn what_is_waited_for_may_be_in_a_project_to_come() {
    let home = Home::new();
    let _up = home.up();
    let mut waiting =
        follow(&home, &["wait", "secret/b", "-p", "shop", "--for", "create", "--timeout", "60s"]);
    apply(&home, &with_secret("b"));
    assert_eq!(waiting.next(), "secret/b created");
    assert_eq!(waiting.child.wait().unwrap().code(), Some(0));
}

#[test]
fn watches_append_lines_when_piped() {
    let home = Home::new();
    let _up = home.up();
    let mut table = follow(&home, &["get", "projects", "-w", "-l", "app"]);
    let mut events = follow(&home, &["events", "-A", "-w"]);
    assert!(events.next().starts_with("PROJECT "), "of all projects, so each line names its own");
    apply(&home, &project("a", "web"));
    assert!(table.next().starts_with("NAME"));
    assert!(table.next().starts_with("a "));
    home.orrery(&["delete", "project", "a"]).good();
    let gone = (0..10).map(|_| table.next()).find(|line| line.contains("Deleted"));
    assert!(gone.is_some(), "the last line says that it is gone");
    home.orrery(&["apply", "-f", "examples/hello.yaml"]).good();
    let told = events.next();
    assert!(told.starts_with("hello ") && told.contains("workloadinstance/hello-local"), "{told}");
    let all = home.orrery(&["events", "-A"]).good();
    assert!(all.starts_with("PROJECT ") && all.contains("\nhello "), "{all}");
    table.stop();
    events.stop();
}
