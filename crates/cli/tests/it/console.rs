//! The console's logs and its terminal, in a real browser and with a real agent.
use crate::harness::{Home, repository, until};
use crate::storage::tools;
use std::process::Command;

const TALKER: &str = r#"
apiVersion: apps.orrery.dev/v1
kind: Workload
metadata: {name: talker, project: default}
spec:
  process:
    command: sh
    args: [-c, 'printf "\033]0;pwned\007\033[32mgreen\033[0m <img src=x onerror=alert(1)>\n"; i=0; while :; do i=$((i+1)); echo "line $i"; sleep 0.1; done']
  placement: {selector: {}, replicas: 2}
  stopGraceSeconds: 0
"#;

/// Does what the script calls by this name, with a workload of two copies that run.
fn browse(options: &[&str], what: &str, token: impl FnOnce(&Home) -> String) {
    let home = Home::new();
    let up = home.start(&[&["up", "--listen", "127.0.0.1:0"], options].concat());
    let file = home.write("talker.yaml", TALKER);
    home.orrery(&["apply", "-f", file.to_str().unwrap()]).good();
    until("both copies have written", || {
        let said = home.orrery(&["logs", "talker"]);
        (said.out.matches("green").count() == 2).then_some(())
    });
    let token = token(&home);
    let mut command = Command::new("node");
    command.arg(repository().join("crates/cli/tests/clients/console.mjs"));
    command.arg(tools().join("npm/node_modules/playwright-core/index.mjs"));
    let said = command.args([&up.server(), what, &token]).output().unwrap();
    let (out, err) = (String::from_utf8_lossy(&said.stdout), String::from_utf8_lossy(&said.stderr));
    assert!(said.status.success() && out.ends_with("all good\n"), "{out}{err}");
}

#[test]
fn logs_are_followed_and_found() {
    browse(&[], "logs", |_| String::new());
}

#[test]
fn a_terminal_runs_a_shell() {
    browse(&[], "terminal", |_| String::new());
}

/// A page cannot set headers on a socket: the token goes another way.
#[test]
fn a_terminal_is_for_who_has_signed_in() {
    browse(&["--tls"], "signed_in", |home| {
        let make = ["token", "create", "--user", "root", "--group", "orrery:admins", "--ttl", "1h"];
        home.orrery(&make).good().trim().to_owned()
    });
}

#[test]
fn other_pages_open_no_terminal() {
    browse(&[], "foreign", |_| String::new());
}
