//! Logs and commands over REST, with a real agent and the clients of others.
use crate::harness::{Home, Up, until};
use crate::storage::python;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::{AttachParams, Execute, Log, LogParams, TerminalSize};
use kube::core::NamespaceResourceScope;
use kube::{Api, Client, Config, Resource};
use serde::Deserialize;
use std::borrow::Cow;
use std::time::Duration;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

const PATIENCE: Duration = Duration::from_secs(60);

const NUMBERS: &str = "
apiVersion: apps.orrery.dev/v1
kind: Workload
metadata: {name: numbers, project: default}
spec:
  process: {command: sh, args: [-c, 'seq 1 5; sleep 600']}
  placement: {nodes: [local]}
  stopGraceSeconds: 0
";

/// A copy that has written its numbers.
fn running() -> (Home, Up) {
    let home = Home::new();
    let up = home.up();
    let file = home.write("numbers.yaml", NUMBERS);
    home.orrery(&["apply", "-f", file.to_str().unwrap()]).good();
    until("it has written", || {
        let said = home.orrery(&["logs", "numbers"]);
        said.out.ends_with("5\n").then_some(())
    });
    (home, up)
}

/// proves: AGT-15
#[test]
fn python_kubernetes_client_reads_logs_and_runs_commands() {
    let (_home, up) = running();
    python("workloads.py", &up.server());
}

/// A workload, as a program with kube would describe a kind of its own.
#[derive(Clone, Debug, Deserialize)]
struct Workload {
    metadata: ObjectMeta,
}

impl Resource for Workload {
    type DynamicType = ();
    type Scope = NamespaceResourceScope;

    fn kind(_: &()) -> Cow<'_, str> {
        "Workload".into()
    }

    fn group(_: &()) -> Cow<'_, str> {
        "apps.orrery.dev".into()
    }

    fn version(_: &()) -> Cow<'_, str> {
        "v1".into()
    }

    fn plural(_: &()) -> Cow<'_, str> {
        "workloads".into()
    }

    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }
}

impl Log for Workload {}
impl Execute for Workload {}

/// proves: AGT-15
#[tokio::test]
async fn kube_reads_logs_and_runs_commands() {
    let (home, up) = tokio::task::spawn_blocking(running).await.unwrap();
    let config = Config::new(up.server().parse().unwrap());
    let workloads: Api<Workload> = Api::default_namespaced(Client::try_from(config).unwrap());
    let copies = home.orrery(&["get", "workloadinstances", "-o", "name"]).good();
    let copy = copies.trim().rsplit('/').next().unwrap();

    let wanted =
        LogParams { container: Some(copy.to_owned()), tail_lines: Some(1), ..LogParams::default() };
    assert_eq!(workloads.logs("numbers", &wanted).await.unwrap(), "5\n");
    let times =
        LogParams { timestamps: true, since_seconds: Some(3600), tail_lines: Some(2), ..wanted };
    let timed = workloads.logs("numbers", &times).await.unwrap();
    let lines: Vec<(jiff::Timestamp, &str)> = timed
        .lines()
        .map(|line| line.split_once(' ').map(|(time, text)| (time.parse().unwrap(), text)).unwrap())
        .collect();
    assert_eq!(lines.iter().map(|(_, text)| *text).collect::<Vec<_>>(), ["4", "5"], "{timed}");
    let since = lines[1].0 + jiff::SignedDuration::from_mins(1);
    let later = LogParams { since_seconds: None, since_time: Some(since), ..times };
    assert_eq!(workloads.logs("numbers", &later).await.unwrap(), "");
    let wrong = LogParams { since_time: None, since_seconds: Some(0), ..later };
    let refused = workloads.logs("numbers", &wrong).await.unwrap_err().to_string();
    assert!(refused.contains("sinceSeconds: Invalid value: 0"), "{refused}");

    let command = ["sh", "-c", "read word; echo said $word; echo oops >&2; exit 7"];
    let with = AttachParams::default().container(copy).stdin(true);
    let mut running = workloads.exec("numbers", command, &with).await.unwrap();
    let (mut out, mut err) = (running.stdout().unwrap(), running.stderr().unwrap());
    running.stdin().unwrap().write_all(b"hello\n").await.unwrap();
    let mut said = (String::new(), String::new());
    let reading = async {
        out.read_to_string(&mut said.0).await.unwrap();
        err.read_to_string(&mut said.1).await.unwrap();
    };
    tokio::time::timeout(PATIENCE, reading).await.expect("it ends");
    assert_eq!((said.0.as_str(), said.1.as_str()), ("said hello\n", "oops\n"));
    let status = running.take_status().unwrap().await.unwrap();
    let causes = status.details.unwrap().causes.unwrap();
    assert_eq!(causes[0].message.as_deref(), Some("7"));

    let with = AttachParams::interactive_tty().container(copy);
    let mut running = workloads.exec("numbers", ["sh"], &with).await.unwrap();
    let mut sizes = running.terminal_size().unwrap();
    sizes.try_send(TerminalSize { width: 97, height: 31 }).unwrap();
    let mut typed = running.stdin().unwrap();
    let mut out = running.stdout().unwrap();
    // The client sends the two in any order.
    let text = b"while stty size | grep -qx '0 0'; do sleep 0.01; done; stty size; exit\n";
    typed.write_all(text).await.unwrap();
    let mut said = String::new();
    tokio::time::timeout(PATIENCE, out.read_to_string(&mut said)).await.expect("it ends").unwrap();
    assert!(said.contains("31 97"), "{said}");
}
