//! `orrery up` and the life of a workload.
use crate::harness::{Home, alive, signal, until};
use rustix::process::Signal;
use serde_json::Value;
use std::collections::BTreeSet;

fn hello(home: &Home) -> Option<Value> {
    let list = home.orrery(&["get", "workloadinstances", "-p", "hello", "-o", "json"]).good();
    let list: Value = serde_json::from_str(&list).unwrap();
    list["items"].as_array().unwrap().first().cloned()
}

/// The process id of the running copy.
fn running(home: &Home) -> Option<u32> {
    let instance = hello(home)?;
    let status = &instance["status"];
    let pid = status["pid"].as_u64().filter(|_| status["state"] == "Running")?;
    u32::try_from(pid).ok()
}

/// proves: AGT-15
#[test]
fn a_process_runs_is_restarted_and_goes() {
    let home = Home::new();
    let mut up = home.up();
    let applied = home.orrery(&["apply", "-f", "examples/hello.yaml"]).good();
    assert_eq!(applied, "project/hello created\nworkload/hello created\n");
    let pid = until("the process runs", || running(&home));
    assert!(alive(pid));

    let table = home.orrery(&["get", "workloads", "-A"]).good();
    let mut lines = table.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
    let header = lines.next().unwrap();
    assert_eq!(header[..4], ["PROJECT", "NAME", "STATE", "RUNNING"]);
    let row = lines.next().unwrap();
    assert_eq!(row[..2], ["hello", "hello"]);
    let again = home.orrery(&["apply", "-f", "examples/hello.yaml"]).good();
    assert_eq!(again, "project/hello unchanged\nworkload/hello unchanged\n");

    signal(pid, Signal::KILL);
    let next = until("it is started again", || running(&home).filter(|next| *next != pid));
    let restarts = hello(&home).unwrap()["status"]["restarts"].clone();
    assert_eq!(restarts, 1);

    let deleted = home.orrery(&["delete", "-f", "examples/hello.yaml"]).good();
    // They go one right after the other, and each is heard of by a watch of its own.
    let deleted: BTreeSet<&str> = deleted.lines().collect();
    assert_eq!(deleted, ["project/hello deleted", "workload/hello deleted"].into());
    assert!(!alive(next), "delete returns when the process is gone");
    assert!(up.interrupt().success());
}

#[test]
fn a_second_start_finds_everything_again_and_ctrl_c_stops_the_children() {
    let home = Home::new();
    let mut up = home.up();
    home.orrery(&["apply", "-f", "examples/hello.yaml"]).good();
    let pid = until("the process runs", || running(&home));
    assert!(up.interrupt().success());
    assert!(!alive(pid), "Ctrl-C stops the children too");
    let _up = home.up();
    let next = until("it runs again", || running(&home));
    assert_ne!(next, pid);
}

#[test]
fn after_a_power_cut_nothing_runs_twice() {
    let home = Home::new();
    let mut up = home.up();
    home.orrery(&["apply", "-f", "examples/hello.yaml"]).good();
    let pid = until("the process runs", || running(&home));
    up.kill();
    assert!(alive(pid), "a workload outlives its agent");
    let _up = home.up();
    let adopted = until("it is known again", || running(&home));
    assert_eq!(adopted, pid, "it was adopted, not started again");
}

#[test]
fn a_second_server_on_the_same_data_is_refused() {
    let home = Home::new();
    let _up = home.up();
    let refused = home.orrery(&["up", "--listen", "127.0.0.1:0"]).bad(1);
    assert!(refused.contains("another process"), "{refused}");
}

#[test]
fn a_watch_prints_what_changes() {
    let home = Home::new();
    let up = home.up();
    let mut watching = home
        .command(crate::harness::ORRERY)
        .args(["get", "projects", "--watch", "-o", "name"])
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines =
        std::io::BufRead::lines(std::io::BufReader::new(watching.stdout.take().unwrap()));
    let initial: Vec<String> = lines.by_ref().take(2).map(Result::unwrap).collect();
    assert_eq!(initial, ["project/default", "project/system"]);
    home.orrery(&["apply", "-f", "examples/hello.yaml"]).good();
    assert_eq!(lines.next().unwrap().unwrap(), "project/hello");
    signal(watching.id(), Signal::INT);
    assert_eq!(watching.wait().unwrap().code(), Some(130));
    drop(up);
}

#[test]
fn output_comes_as_asked_for() {
    let home = Home::new();
    let up = home.up();
    let yaml = home.orrery(&["get", "project", "default", "-o", "yaml"]).good();
    assert!(yaml.starts_with("apiVersion: core.orrery.dev/v1\nkind: Project\n"), "{yaml}");
    let json = home.orrery(&["get", "projects", "-o", "json"]).good();
    let list: Value = serde_json::from_str(&json).unwrap();
    assert_eq!(
        (&list["kind"], list["items"].as_array().unwrap().len()),
        (&"ProjectList".into(), 2)
    );
    let versions = home.orrery(&["version"]).good();
    let own = env!("CARGO_PKG_VERSION");
    assert_eq!(versions, format!("client: {own}\nserver: {own}\n"));
    let nothing = home.orrery(&["get", "workloads"]);
    assert!(nothing.err.contains("no workloads in project default"), "{nothing:?}");
    nothing.good();
    drop(up);
}

/// The ports that others look for may be taken: whoever tries it out is told, and can go on.
#[test]
fn side_ports_that_are_taken_are_done_without() {
    let home = Home::new();
    // An address of this test's own: the ports are fixed.
    let [.., a, b] = std::process::id().to_be_bytes();
    let ip = format!("127.77.{a}.{b}");
    let taken = [5000, 8999].map(|port| std::net::TcpListener::bind((ip.as_str(), port)).unwrap());
    let listen = format!("{ip}:7443");
    let mut up = home.start(&["up", "--listen", &listen]);
    assert_eq!((up.drivers().as_str(), up.storage().as_str()), ("no", "no"));
    home.orrery(&["get", "projects"]).good();
    assert!(up.interrupt().success());
    let said = home.orrery(&["server", "--listen", &listen]).bad(1);
    assert!(said.contains("storage controllers") && said.contains("--storage-listen"), "{said}");
    drop(taken);
    let mut up = home.start(&["up", "--listen", &listen]);
    assert_eq!((up.drivers(), up.storage()), (format!("{ip}:5000"), format!("{ip}:8999")));
    assert!(up.interrupt().success());
}
