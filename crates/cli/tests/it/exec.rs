//! `orrery exec` and `orrery top`.
use crate::harness::{Home, ORRERY, until};
use std::io::Write as _;
use std::process::Stdio;

fn running() -> (Home, crate::harness::Up) {
    let home = Home::new();
    let up = home.up();
    home.orrery(&["apply", "-f", "examples/hello.yaml"]).good();
    until("it runs", || {
        let table = home.orrery(&["get", "workloads", "-p", "hello"]).good();
        table.contains("Running").then_some(())
    });
    (home, up)
}

/// proves: AGT-15
#[test]
fn a_command_runs_beside_a_copy_and_its_code_is_ours() {
    let (home, _up) = running();
    let command =
        ["exec", "hello", "-p", "hello", "--", "sh", "-c", "echo $ORRERY_WORKLOAD; exit 7"];
    let done = home.orrery(&command);
    assert_eq!((done.code, done.out.as_str()), (Some(7), "hello\n"));
    let copies = home.orrery(&["get", "workloadinstances", "-p", "hello", "-o", "name"]).good();
    let copy = copies.trim().rsplit('/').next().unwrap().to_owned();
    let name = format!("hello/{copy}");
    let mut child = home
        .command(ORRERY)
        .args(["exec", "-i", &name, "-p", "hello", "--", "cat"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    // More than fits into any one message or pipe on the way.
    let text = "many words\n".repeat(50_000);
    let mut stdin = child.stdin.take().unwrap();
    let typed = text.clone();
    let typing = std::thread::spawn(move || stdin.write_all(typed.as_bytes()));
    let output = child.wait_with_output().unwrap();
    typing.join().unwrap().unwrap();
    assert!(output.status.success());
    assert_eq!(output.stdout.len(), text.len());
    assert!(output.stdout == text.as_bytes());

    let said = home.orrery(&["exec", "hello/nobody", "-p", "hello", "--", "true"]).bad(1);
    assert!(said.contains("hello/hello has no copy \"nobody\""), "{said}");
    let said = home.orrery(&["exec", "-t", "hello", "-p", "hello", "--", "true"]).bad(1);
    assert!(said.contains("no terminal"), "{said}");
    let said = home.orrery(&["exec", "hello"]).bad(2);
    assert!(said.contains("COMMAND"), "{said}");
}

#[test]
fn a_command_has_a_terminal_when_asked_for() {
    let (home, _up) = running();
    // script(1) gives our side a terminal, of the size that stty says.
    let inner = format!("stty rows 31 cols 97; {ORRERY} exec -i -t hello -p hello -- stty size");
    let output = home
        .command("script")
        .args(["--quiet", "--return", "--command", &inner, "/dev/null"])
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success() && text.contains("31 97"), "{text}");
}

#[test]
fn what_is_used_is_shown() {
    let (home, _up) = running();
    let nodes = home.orrery(&["top", "nodes"]).good();
    let row = nodes.lines().nth(1).unwrap();
    assert!(row.starts_with("local") && row.contains('%'), "{nodes}");
    let copies = home.orrery(&["top", "workloads", "-p", "hello"]).good();
    let cells: Vec<&str> = copies.lines().nth(1).unwrap().split_whitespace().collect();
    assert_eq!((cells[0], cells[2]), ("hello", "local"), "{copies}");
    assert!(cells[4].parse::<u64>().is_ok(), "{copies}");
}
