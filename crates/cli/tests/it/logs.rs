//! `orrery logs`.
use crate::harness::{Home, ORRERY, signal, until};
use std::io::{BufRead as _, BufReader};
use std::process::Stdio;

const NUMBERS: &str = "
apiVersion: apps.orrery.dev/v1
kind: Workload
metadata: {name: numbers, project: default}
spec:
  process: {command: sh, args: [-c, 'seq 1 5; echo oops >&2; sleep 60']}
  placement: {selector: {}, replicas: 2}
  stopGraceSeconds: 0
";

/// proves: AGT-15
#[test]
fn output_is_shown_and_followed() {
    let home = Home::new();
    let _up = home.up();
    home.orrery(&["apply", "-f", "examples/hello.yaml"]).good();
    let hello = "hello from local\n";
    until("it has said hello", || {
        let said = home.orrery(&["logs", "hello", "-p", "hello"]);
        (said.code == Some(0) && said.out.starts_with(hello)).then_some(())
    });
    let mut following = home
        .command(ORRERY)
        .args(["logs", "-f", "--tail", "1", "hello", "-p", "hello"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(following.stdout.take().unwrap()).lines();
    let lines: Vec<String> = lines.take(2).map(Result::unwrap).collect();
    assert_eq!(lines, [hello.trim(), hello.trim()], "one that was there, one that came");
    signal(following.id(), rustix::process::Signal::INT);
    assert_eq!(following.wait().unwrap().code(), Some(130));
}

#[test]
fn the_lines_of_several_copies_say_whose_they_are() {
    let home = Home::new();
    let _up = home.up();
    let file = home.write("numbers.yaml", NUMBERS);
    home.orrery(&["apply", "-f", file.to_str().unwrap()]).good();
    until("both have written", || {
        let said = home.orrery(&["logs", "numbers"]);
        (said.code == Some(0) && said.out.matches(": oops").count() == 2).then_some(())
    });
    // What is written while the last lines are looked for is told as well, so all of it is there by now.
    let said = home.orrery(&["logs", "numbers", "--tail", "2"]).good();
    assert_eq!((said.lines().count(), said.matches(": 5").count()), (4, 2), "{said}");
    let one = said.split(':').next().unwrap();
    let alone = home.orrery(&["logs", one]).good();
    assert_eq!(alone, "1\n2\n3\n4\n5\noops\n");
    assert_eq!(home.orrery(&["logs", &format!("numbers/{one}")]).good(), alone);
    let said = home.orrery(&["logs", "numbers/nobody"]).bad(1);
    assert!(said.contains("default/numbers has no copy \"nobody\""), "{said}");
}

#[test]
fn what_is_not_there_is_said() {
    let home = Home::new();
    let _up = home.up();
    let said = home.orrery(&["logs", "ghost"]).bad(1);
    assert!(said.contains("\"ghost\" not found in project \"default\""), "{said}");
    let said = home.orrery(&["logs", "ghost", "--tail=-1"]).bad(2);
    assert!(said.contains("--tail"), "{said}");
}
