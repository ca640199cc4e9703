//! `orrery logs`.
use crate::harness::{Asked, Home, ORRERY, Process, signal, until};
use crate::reachability::Following;
use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader};
use std::process::Stdio;

const NUMBERS: &str = "seq 1 5; echo oops >&2; sleep 60";

/// Two copies of a program in words of a shell, applied.
fn declare(home: &Home, name: &str, script: &str, options: &[&str]) {
    let text = format!(
        "
apiVersion: apps.orrery.dev/v1
kind: Workload
metadata: {{name: {name}, project: default}}
spec:
  process: {{command: sh, args: [-c, '{script}']}}
  placement: {{selector: {{}}, replicas: 2}}
  stopGraceSeconds: 0
"
    );
    let file = home.write(&format!("{name}.yaml"), &text);
    home.orrery(&[&["apply", "-f", file.to_str().unwrap()], options].concat()).good();
}

/// Both copies have written their numbers.
fn numbers(home: &Home) {
    declare(home, "numbers", NUMBERS, &[]);
    until("both have written", || {
        let said = home.orrery(&["logs", "numbers"]);
        (said.code == Some(0) && said.out.matches(": oops").count() == 2).then_some(())
    });
}

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
    numbers(&home);
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

/// Lines are had since a time, and show theirs.
///
/// proves: AGT-15
#[test]
fn lines_have_their_times() {
    let home = Home::new();
    let _up = home.up();
    numbers(&home);
    let said = home.orrery(&["logs", "numbers", "--timestamps", "--tail", "1"]).good();
    let times: Vec<(&str, &str)> = said
        .lines()
        .filter_map(|line| line.split_once(": ")?.1.strip_suffix(" oops").map(|time| (line, time)))
        .collect();
    assert_eq!(times.len(), 2, "{said}");
    let latest = times.iter().map(|(_, time)| *time).max().unwrap();
    for (line, time) in &times {
        let moment: jiff::Timestamp = time.parse().expect(line);
        assert!(time.len() == "2026-11-19T12:00:00.000000000Z".len(), "{line}");
        assert!(moment.as_second() > 1_700_000_000, "{line}");
    }
    let since = |option: &str, time: &str| home.orrery(&["logs", "numbers", option, time]).good();
    assert_eq!(since("--since", "1h").lines().count(), 12);
    let found = since("--since-time", latest);
    assert!(found.contains(": oops") && found.lines().count() <= 12, "{found}");
    assert_eq!(since("--since-time", "2100-01-01T00:00:00+01:00"), "");
    for (options, words) in [
        (&["--since-time", "yesterday"][..], "write it as 2026-11-19T12:00:00Z"),
        (&["--since", "soon"], "write it as 90s, 5m, 1h30m or 7d"),
        (&["--since", "0s"], "longer than nothing"),
        (&["--since", "5m", "--since-time", latest], "cannot be used with"),
    ] {
        let said = home.orrery(&[&["logs", "numbers"], options].concat()).bad(2);
        assert!(said.contains(words), "{said}");
    }
}

const COUNTER: &str = "i=0; while [ -d $PWD ]; do echo line $i; i=$((i+1)); sleep 0.02; done";

/// What is followed goes on over the end of the server and of the agent with it: every line is there, and
/// none of them twice.
///
/// proves: AGT-15
#[test]
fn following_goes_on_where_it_stopped() {
    let home = Home::new();
    let (mut server, url) = home.server("data", &[]);
    let at = ["--listen".to_owned(), url.strip_prefix("http://").unwrap().to_owned()];
    let agent = || {
        let mut command = home.command(ORRERY);
        command.args(["agent", "--name", "edge-1", "--server", &url, "--data-dir"]);
        command.arg(home.path("agent")).stderr(Stdio::null());
        Process(command.spawn().unwrap())
    };
    let mut running = agent();
    let on = ["--server", &url];
    declare(&home, "counter", COUNTER, &[&["--wait"][..], &on].concat());
    let mut following =
        Following::start(&home, &[&["logs", "counter", "--follow"][..], &on].concat());
    following.out.until("line 20");
    // The agent is killed, and its workload runs on.
    running.kill();
    following.err.until("trying to reach it again");
    running = agent();
    following.err.until("connected again");
    following.out.until("line 40");
    server.kill();
    following.err.until("was lost");
    let (mut server, _) = home.server_at("data", &at);
    following.err.until("connected again");
    following.out.until("line 60");
    // Both at once.
    server.kill();
    running.kill();
    following.err.until("was lost");
    let (_server, _) = home.server_at("data", &at);
    let _running = Asked(agent());
    following.out.until("line 200");
    let mut copies: BTreeMap<&str, usize> = BTreeMap::new();
    for line in &following.out.seen {
        let (copy, text) = line.split_once(": ").expect("each line says whose it is");
        let number = copies.entry(copy).or_default();
        assert_eq!(text, format!("line {number}"), "{copy}");
        *number += 1;
    }
    assert_eq!(copies.len(), 2, "{copies:?}");
    home.orrery(&[&["delete", "workload", "counter"][..], &on].concat()).good();
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
