//! Mutual TLS for server, agent and command line, from PEM files.
use crate::harness::{Home, ORRERY, Process, until};
use orrery_pki::{ADMINS, Authority, IssueRequest, Role, Validity};
use std::io::{BufRead as _, BufReader};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

const DAY: Duration = Duration::from_secs(86_400);

#[allow(clippy::disallowed_methods, reason = "certificates must be valid now")]
fn validity() -> Validity {
    Validity::starting(std::time::SystemTime::now(), DAY)
}

pub fn authority() -> Authority {
    Authority::generate(&"test.local".parse().unwrap(), validity()).unwrap()
}

/// The three arguments for an identity, whose files lie in a folder of its own.
pub fn identity(authority: &Authority, home: &Home, role: Role, name: &str) -> Vec<String> {
    let folder = home.path(&format!("{role}-{name}"));
    std::fs::create_dir_all(&folder).unwrap();
    let request = IssueRequest::new(role, name).dns("localhost").ip([127, 0, 0, 1]).group(ADMINS);
    let files = authority.issue(&request, validity()).unwrap().write_to(&folder).unwrap();
    let text = |path: Option<std::path::PathBuf>| path.unwrap().display().to_string();
    vec![
        "--root".into(),
        text(files.root),
        "--certificate".into(),
        text(files.certificate),
        "--key".into(),
        text(files.key),
    ]
}

fn agent(home: &Home, name: &str, url: &str, tls: &[String]) -> Process {
    let mut command = home.command(ORRERY);
    command.args(["agent", "--name", name, "--server", url, "--stop-workloads", "--data-dir"]);
    command.arg(home.path(&format!("agent-{name}"))).args(tls).stderr(Stdio::null());
    Process(command.spawn().unwrap())
}

pub fn with<'a>(command: &[&'a str], tls: &'a [String]) -> Vec<&'a str> {
    command.iter().copied().chain(tls.iter().map(String::as_str)).collect()
}

/// proves: AGT-12, AGT-13
#[test]
fn server_agent_and_command_line_know_each_other_by_certificate() {
    let home = Home::new();
    let authority = authority();
    let tls = identity(&authority, &home, Role::Server, "s1");
    let (_server, url) = home.server("data", &tls);
    assert!(url.starts_with("https://"), "{url}");
    let user = identity(&authority, &home, Role::User, "alice");
    home.orrery(&with(&["get", "projects", "--server", &url], &user)).good();

    let edge = identity(&authority, &home, Role::Agent, "edge-1");
    let _agent = agent(&home, "edge-1", &url, &edge);
    let get_nodes = with(&["get", "nodes", "-o", "name", "--server", &url], &user);
    until("the agent has joined", || {
        home.orrery(&get_nodes).good().contains("node/edge-1").then_some(())
    });

    // An agent's certificate is no person's, and names no other agent.
    let said = home.orrery(&with(&["get", "projects", "--server", &url], &edge)).bad(1);
    assert!(said.contains("not for user"), "{said}");
    let mut liar = home.command(ORRERY);
    liar.args(["agent", "--name", "edge-2", "--server", &url, "--data-dir"]);
    let mut liar = liar.arg(home.path("liar")).args(&edge).stderr(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(liar.stderr.take().unwrap()).lines();
    let _liar = Process(liar);
    let refused = lines.find(|line| line.as_ref().is_ok_and(|line| line.contains("not for agent")));
    assert!(refused.is_some());

    // Another authority's user is nobody here, and so is a plain client.
    let stranger = identity(&self::authority(), &Home::new(), Role::User, "mallory");
    let said = home.orrery(&with(&["get", "projects", "--server", &url], &stranger));
    assert_ne!(said.code, Some(0), "{said:?}");
    let plain = url.replace("https", "http");
    home.orrery(&["get", "projects", "--server", &plain]).bad(3);
}

/// proves: AGT-12, AGT-13
#[test]
fn a_part_of_the_files_or_open_files_are_refused() {
    let home = Home::new();
    let files = identity(&authority(), &home, Role::User, "alice");
    let said = home
        .orrery(&with(&["get", "projects", "--server", "https://127.0.0.1:1"], &files[..4]))
        .bad(1);
    assert!(said.contains("key"), "it names what is missing: {said}");
    let key = Path::new(&files[5]);
    std::fs::set_permissions(key, std::fs::Permissions::from_mode(0o644)).unwrap();
    for command in [
        &["get", "projects", "--server", "https://127.0.0.1:1"][..],
        &["server", "--listen", "127.0.0.1:0"],
        &["agent", "--name", "edge-1", "--server", "https://127.0.0.1:1"],
    ] {
        let said = home.orrery(&with(command, &files)).bad(1);
        assert!(said.contains(&files[5]) && said.contains("chmod 600"), "{said}");
    }
}

/// proves: AGT-12
#[test]
fn plain_beyond_loopback_needs_to_be_asked_for() {
    let home = Home::new();
    let said = home.orrery(&["server", "--listen", "0.0.0.0:0"]).bad(1);
    assert!(said.contains("--allow-plain"), "{said}");
}
