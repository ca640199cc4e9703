//! What the command line says when there is no server.
use crate::harness::{Home, signal, until};
use std::collections::BTreeSet;

/// proves: AGT-04
#[test]
fn a_server_that_is_not_available_is_said_once() {
    let home = Home::new();
    // A port that was free a moment ago, and that nobody listens on.
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    drop(listener);
    for command in [&["get", "projects"][..], &["version"], &["apply", "-f", "examples/hello.yaml"]]
    {
        let arguments = [command, &["--server", &url]].concat();
        let said = home.orrery(&arguments).bad(3);
        assert!(said.contains(&format!("the server at {url} is not available")), "{said}");
        assert!(said.contains("orrery up"), "it says what to do: {said}");
    }
}

/// Whoever names a file with contexts does not want to act on the usual server.
#[test]
fn a_contexts_file_that_is_not_there_is_said() {
    let home = Home::new();
    let file = home.path("nowhere.yaml").display().to_string();
    let said = home.orrery(&["--config", &file, "get", "nodes"]).bad(1);
    assert!(said.contains(&file) && said.contains("orrery context set"), "{said}");
    let made = ["context", "set", "there", "--server", "http://127.0.0.1:1"];
    home.orrery(&[&["--config", &file][..], &made].concat()).good();
    home.orrery(&["--config", &file, "get", "nodes"]).bad(3);
}

/// Where another context is current, the first commands that are suggested must not go there.
#[test]
fn what_up_suggests_goes_to_the_server_that_it_started() {
    let home = Home::new();
    home.orrery(&["context", "set", "prod", "--server", "http://127.0.0.1:1"]).good();
    let up = home.up();
    assert!(up.said().contains("orrery --context local apply"), "{}", up.said());
    home.orrery(&["--context", "local", "get", "nodes"]).good();
}

/// proves: AGT-04
#[test]
fn a_lost_connection_is_said() {
    let home = Home::new();
    let mut up = home.up();
    let file = home.write(
        "talker.yaml",
        "apiVersion: apps.orrery.dev/v1\nkind: Workload\nmetadata: {name: talker, project: default}\n\
         spec: {process: {command: sh, args: [-c, 'echo here I am; exec sleep 600']}, placement: {nodes: [local]}}\n",
    );
    home.orrery(&["apply", "--wait", "-f", file.to_str().unwrap()]).good();
    let mut following = Following::start(&home, &["logs", "talker", "--follow"]);
    following.out.until("here I am");
    let text = "echo it runs; exec sleep 600";
    let mut running = Following::start(&home, &["exec", "talker", "--", "sh", "-c", text]);
    running.out.until("it runs");
    up.kill();
    let said = running.ended(3);
    assert!(said.contains("was lost"), "{said}");
    // What is followed can be gone on with.
    following.err.until("was lost");
}

/// A command that tells things for as long as it runs.
pub struct Following {
    child: std::process::Child,
    pub out: Lines,
    pub err: Lines,
}

/// What comes from one of its outputs.
pub struct Lines {
    lines: std::sync::mpsc::Receiver<String>,
    pub seen: Vec<String>,
}

impl Lines {
    fn of(reader: impl std::io::Read + Send + 'static) -> Self {
        let (sender, lines) = std::sync::mpsc::sync_channel(1000);
        std::thread::spawn(move || {
            for line in std::io::BufRead::lines(std::io::BufReader::new(reader)) {
                let Ok(line) = line else { return };
                if sender.send(line).is_err() {
                    return;
                }
            }
        });
        Self { lines, seen: Vec::new() }
    }

    /// Waits for a line with this text in it.
    #[track_caller]
    pub fn until(&mut self, text: &str) {
        loop {
            let line = self.lines.recv_timeout(std::time::Duration::from_secs(60));
            let line = line.unwrap_or_else(|_| panic!("no {text:?} after {:?}", self.seen));
            self.seen.push(line);
            if self.seen.last().unwrap().contains(text) {
                return;
            }
        }
    }
}

impl Following {
    pub fn start(home: &Home, arguments: &[&str]) -> Self {
        let piped = std::process::Stdio::piped;
        let mut command = home.command(crate::harness::ORRERY);
        let mut child = command.args(arguments).stdout(piped()).stderr(piped()).spawn().unwrap();
        let (out, err) = (child.stdout.take().unwrap(), child.stderr.take().unwrap());
        Self { child, out: Lines::of(out), err: Lines::of(err) }
    }

    /// What it complained about; it must end by itself with this code.
    #[track_caller]
    fn ended(mut self, code: i32) -> String {
        let status = until("it has ended", || self.child.try_wait().unwrap());
        let said = self.err.seen.drain(..).chain(self.err.lines.iter()).collect::<Vec<_>>();
        assert_eq!(status.code(), Some(code), "{said:?}");
        said.join("\n")
    }
}

impl Drop for Following {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// What is followed goes on over a restart of the server, and tells what has changed meanwhile.
#[test]
fn watches_go_on_over_a_restart_of_the_server() {
    let home = Home::new();
    let (mut server, url) = home.server("data", &[]);
    let at = ["--listen".to_owned(), url.strip_prefix("http://").unwrap().to_owned()];
    let run = |words: &[&str]| home.orrery(&[words, &["--server", &url]].concat());
    let project = |name: &str| {
        let text =
            format!("apiVersion: core.orrery.dev/v1\nkind: Project\nmetadata: {{name: {name}}}\n");
        let file = home.write(&format!("{name}.yaml"), text);
        run(&["apply", "-f", file.to_str().unwrap()]).good();
    };
    project("before");
    let mut watching = Following::start(&home, &["get", "projects", "--watch", "--server", &url]);
    let waiting = Following::start(
        &home,
        &["wait", "project/after", "--for=create", "--timeout=5m", "--server", &url],
    );
    let events = ["events", "--all-projects", "--watch", "--server", &url];
    let mut events = Following::start(&home, &events);
    watching.out.until("system");
    // A second one in which things change is opened before the first is lost.
    project("while");
    watching.out.until("while");
    // First it is asked to end, as for an upgrade, then it is cut off.
    signal(server.0.id(), rustix::process::Signal::INT);
    until("the server has ended", || server.0.try_wait().unwrap());
    watching.err.until("trying to reach it again");
    (server, _) = home.server_at("data", &at);
    watching.err.until("connected again");
    server.kill();
    for following in [&mut watching, &mut events] {
        following.err.until("trying to reach it again");
    }
    let told = watching.out.seen.len();
    let (restarted, again) = home.server_at("data", &at);
    assert_eq!(again, url);
    watching.err.until("connected again");
    run(&["delete", "project", "before"]).good();
    project("after");
    watching.out.until("after");
    let rows: BTreeSet<&str> = watching.out.seen[told..]
        .iter()
        .filter_map(|line| line.split_whitespace().next())
        .collect();
    let told = |name: &str| rows.contains(name);
    assert!(told("before") && told("after"), "{rows:?}");
    assert!(!told("NAME") && !told("system"), "what is as it was is not told again: {rows:?}");
    events.err.until("connected again");
    let said = waiting.ended(0);
    assert!(said.contains("trying to reach it") && said.contains("connected again"), "{said}");
    // Whoever only asks is not kept waiting.
    drop(restarted);
    assert!(run(&["get", "projects"]).bad(3).contains("is not available"));
}

#[test]
fn an_address_that_is_none_is_said() {
    let home = Home::new();
    for (address, problem) in [
        ("127.0.0.1:7443", "it must begin with http:// or https://"),
        ("ftp://host:1", "it must begin with http:// or https://"),
        ("http://host", "host or port is missing"),
        ("https://host:1", "https needs --root, --certificate and --key"),
    ] {
        let said = home.orrery(&["get", "projects", "--server", address]).bad(1);
        assert!(said.contains(problem), "{address}: {said}");
    }
}

#[test]
fn wrong_usage_is_explained_and_has_a_code_of_its_own() {
    let home = Home::new();
    let said = home.orrery(&["aply"]).bad(2);
    assert!(said.contains("apply"), "{said}");
    let said = home.orrery(&["get"]).bad(2);
    assert!(said.contains("KIND"), "{said}");
}
