//! Closing, emptying and opening nodes, with real agents.
use crate::harness::{Asked, Home, ORRERY, Process, until};
use serde_json::Value;
use std::process::Stdio;

const WEB: &str = "
apiVersion: apps.orrery.dev/v1
kind: Workload
metadata: {name: web, project: default}
spec:
  process: {command: sleep, args: ['60']}
  stopGraceSeconds: 0
  placement: {selector: {}, replicas: 3}
";

/// The nodes of all copies that run, sorted.
fn nodes(home: &Home) -> Vec<String> {
    let list = home.orrery(&["get", "workloadinstances", "-o", "json"]).good();
    let list: Value = serde_json::from_str(&list).unwrap();
    let copies = list["items"].as_array().unwrap().iter();
    let running = copies.filter(|copy| copy["status"]["state"] == "Running");
    let mut nodes: Vec<String> =
        running.map(|copy| copy["spec"]["node"].as_str().unwrap().to_owned()).collect();
    nodes.sort();
    nodes
}

/// proves: AGT-15
#[test]
fn a_node_is_closed_emptied_and_opened_again() {
    let home = Home::new();
    let up = home.up();
    let file = home.write("web.yaml", WEB);
    home.orrery(&["apply", "--wait", "-f", file.to_str().unwrap()]).good();
    let mut command = home.command(ORRERY);
    command.args(["agent", "--name", "edge-2", "--label", "zone=b", "--server", &up.server()]);
    command.arg("--data-dir");
    let agent = command.arg(home.path("agent")).stderr(Stdio::null()).spawn().unwrap();
    let _agent = Asked(Process(agent));
    until("the second node is there", || {
        home.orrery(&["get", "nodes"]).good().contains("edge-2").then_some(())
    });
    let said = home.orrery(&["cordon", "edge-2"]).good();
    assert_eq!(said, "node/edge-2 cordoned\n");
    assert_eq!(home.orrery(&["cordon", "edge-2"]).good(), "node/edge-2 unchanged\n");
    let table = home.orrery(&["get", "nodes"]).good();
    let mut lines = table.lines();
    let columns: Vec<&str> = lines.next().unwrap().split_whitespace().collect();
    let all = ["NAME", "STATE", "VERSION", "RUNTIMES", "SINCE", "CPU", "MEMORY", "LABELS", "AGE"];
    assert_eq!(columns, all);
    let closed = lines.find(|line| line.starts_with("edge-2")).unwrap();
    assert!(closed.contains("Ready,Cordoned") && closed.contains("zone=b"), "{table}");
    assert_eq!(closed.matches('%').count(), 2, "what is used of it: {table}");
    // There is nowhere to go, so one leaves, and the others are not to be missed.
    let refused = home.orrery(&["drain", "local", "--timeout", "1s"]).bad(1);
    assert!(refused.contains("timed out after 1 s: default/web-local-"), "{refused}");
    assert_eq!(nodes(&home), ["local", "local"]);
    assert_eq!(home.orrery(&["uncordon", "edge-2"]).good(), "node/edge-2 uncordoned\n");
    let said = home.orrery(&["drain", "local"]).good();
    assert_eq!(said, "node/local unchanged\nnode/local is empty\n");
    until("all run there", || (nodes(&home) == ["edge-2"; 3]).then_some(()));
    home.orrery(&["uncordon", "local"]).good();
    let shown = home.orrery(&["get", "node", "local", "-o", "jsonpath={.spec}"]).good();
    assert!(!shown.contains("true"), "{shown}");
    let unknown = home.orrery(&["drain", "nowhere"]).bad(1);
    assert!(unknown.contains("nowhere"), "{unknown}");
    // One that never stopped working has been there all the time.
    home.orrery(&["delete", "workload", "web"]).good();
}

/// Two that took turns would each start everything.
///
/// proves: AGT-14
#[test]
fn a_second_agent_of_a_name_is_refused_and_takes_over_when_the_first_is_gone() {
    let home = Home::new();
    let up = home.up();
    let log = |folder: &str| home.path(&format!("{folder}.log"));
    let agent = |folder: &str| {
        let mut command = home.command(ORRERY);
        command.args(["agent", "--name", "edge-2", "--server", &up.server(), "--data-dir"]);
        command.arg(home.path(folder)).stderr(std::fs::File::create(log(folder)).unwrap());
        Asked(Process(command.spawn().unwrap()))
    };
    // In which connection of an agent of this name the node is ready.
    let epoch = || {
        let shown = home.orrery(&["get", "node", "edge-2", "-o", "json"]).out;
        let node: Value = serde_json::from_str(&shown).ok()?;
        let ready = node["status"]["state"] == "Ready";
        let epoch = node["status"]["sessionEpoch"].to_string();
        ready.then(|| epoch.trim_matches('"').to_owned())
    };
    let first = agent("one");
    until("the first is there", || (epoch()? == "1").then_some(()));
    let _second = agent("two");
    let said = |folder: &str| std::fs::read_to_string(log(folder)).unwrap();
    until("the second is refused", || said("two").contains("another agent named").then_some(()));
    assert_eq!(epoch().as_deref(), Some("1"), "the first is not disturbed");
    drop(first);
    until("the second takes over", || (epoch()? == "2").then_some(()));
}
