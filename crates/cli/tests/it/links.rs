//! Agents in network namespaces of their own, behind links that are cut, restored and lossy.
use crate::harness::{Home, ORRERY, Process, alive, until};
use serde_json::Value;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU8, Ordering};

/// A namespace with one link to this machine.
struct Namespace {
    name: String,
    here: String,
    /// First three numbers of the addresses: 1 is here, 2 is there.
    net: String,
}

fn ip(words: &str) {
    run("ip", words);
}

fn run(program: &str, words: &str) {
    let output = Command::new(program).args(words.split_whitespace()).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{program} {words}: {said}");
}

impl Namespace {
    fn new() -> Self {
        static NEXT: AtomicU8 = AtomicU8::new(1);
        let (pid, number) = (std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        // Tests of other processes have networks of their own.
        let net = format!("10.{}.{}", 100 + pid / 250 % 100, pid % 250 + 1);
        let name = format!("orrery-links-{pid}-{number}");
        let here = format!("ol{:x}{number}", pid);
        let this = Self { name, here, net };
        let Self { name, here, net } = &this;
        ip(&format!("netns add {name}"));
        ip(&format!("link add {here} type veth peer name eth0 netns {name}"));
        ip(&format!("addr add {net}.1/24 dev {here}"));
        ip(&format!("link set {here} up"));
        ip(&format!("-n {name} addr add {net}.2/24 dev eth0"));
        ip(&format!("-n {name} link set eth0 up"));
        ip(&format!("-n {name} link set lo up"));
        this
    }

    fn cut(&self) {
        ip(&format!("link set {} down", self.here));
    }

    fn restore(&self) {
        ip(&format!("link set {} up", self.here));
    }

    /// Loses packets in both directions, by chance.
    fn lose(&self, probability: &str) {
        for chain in ["INPUT", "OUTPUT"] {
            let rule = format!("-A {chain} -m statistic --mode random --probability {probability}");
            run("ip", &format!("netns exec {} iptables {rule} -j DROP", self.name));
        }
    }

    fn agent(&self, home: &Home, server: &str) -> Process {
        let mut command = home.command("ip");
        command.args(["netns", "exec", &self.name, ORRERY, "agent", "--name", "edge"]);
        command.args(["--server", server, "--data-dir"]).arg(home.path("agent"));
        command.arg("--stop-workloads").stderr(Stdio::null());
        Process(command.spawn().unwrap())
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        // The link goes with its namespace.
        let _ = Command::new("ip").args(["netns", "delete", &self.name]).status();
    }
}

fn field(home: &Home, server: &str, kind: &str, path: &[&str]) -> Option<Value> {
    let list = home.orrery(&["get", kind, "-A", "-o", "json", "--server", server]).good();
    let list: Value = serde_json::from_str(&list).unwrap();
    let first = list["items"].as_array()?.first()?.clone();
    Some(path.iter().fold(first, |at, name| at[*name].clone()))
}

fn workload(home: &Home) -> String {
    let text = "apiVersion: apps.orrery.dev/v1\nkind: Workload\n\
                metadata: {name: web, project: default}\n\
                spec:\n  process: {command: sleep, args: ['1000']}\n  \
                placement: {nodes: [edge]}\n  stopGraceSeconds: 0\n";
    home.write("web.yaml", text).to_str().unwrap().to_owned()
}

fn plain_server(home: &Home, net: &Namespace) -> (Process, String) {
    let at = ["--listen".to_owned(), format!("{}.1:0", net.net), "--allow-plain".to_owned()];
    home.server_at("store", &at)
}

/// A pulled cable is noticed on both sides; what runs goes on, and is taken up again as it is.
///
/// proves: AGT-11, AGT-14
#[test]
fn a_link_that_is_cut_and_restored() {
    let home = Home::new();
    let net = Namespace::new();
    let (_server, url) = plain_server(&home, &net);
    let _agent = net.agent(&home, &url);
    home.orrery(&["apply", "-f", &workload(&home), "--server", &url]).good();
    let state = |kind: &str, wanted: &str| {
        let found = field(&home, &url, kind, &["status", "state"]);
        found.is_some_and(|found| found == wanted).then_some(())
    };
    until("it runs", || state("workloads", "Running"));
    let pid = || field(&home, &url, "workloadinstances", &["status", "pid"])?.as_u64();
    let before = until("its process", pid);
    net.cut();
    until("the node is gone", || state("nodes", "Gone"));
    until("nobody knows how it is", || state("workloads", "Unknown"));
    assert!(alive(u32::try_from(before).unwrap()), "it runs on");
    net.restore();
    until("the node is back", || state("nodes", "Ready"));
    until("it runs", || state("workloads", "Running"));
    assert_eq!(pid(), Some(before), "the same process");
    let restarts = field(&home, &url, "workloadinstances", &["status", "restarts"]);
    assert_eq!(restarts, Some(Value::from(0)));
    home.orrery(&["delete", "workload", "web", "--server", &url]).good();
    assert!(!alive(u32::try_from(before).unwrap()));
}

/// One packet in seven is lost each way, and everything arrives nevertheless.
#[test]
fn a_link_that_loses_packets() {
    let home = Home::new();
    let net = Namespace::new();
    let (_server, url) = plain_server(&home, &net);
    net.lose("0.15");
    let _agent = net.agent(&home, &url);
    home.orrery(&["apply", "-f", &workload(&home), "--server", &url]).good();
    until("it runs", || {
        let found = field(&home, &url, "workloads", &["status", "state"]);
        found.is_some_and(|found| found == "Running").then_some(())
    });
    home.orrery(&["delete", "workload", "web", "--server", &url]).good();
}
