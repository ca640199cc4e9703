//! Identities from the command line: an authority, machines that join, people and what they may do.
use crate::harness::{Done, Home, ORRERY, Process, until};
use std::os::unix::fs::PermissionsExt as _;
use std::process::Stdio;

const UP_TLS: [&str; 4] = ["up", "--tls", "--listen", "127.0.0.1:0"];

/// The server's address, as the context that `orrery up` made has it.
fn url(home: &Home) -> String {
    let shown = home.orrery(&["context", "show", "local"]).good();
    let line = shown.lines().find_map(|line| line.strip_prefix("server: "));
    line.unwrap().trim_matches('"').to_owned()
}

fn join(home: &Home, name: &str, url: &str, token: &str) -> Process {
    let mut command = home.command(ORRERY);
    command.args(["agent", "--name", name, "--server", url, "--token", token, "--data-dir"]);
    command.arg(home.path(&format!("agent-{name}"))).stderr(Stdio::null());
    Process(command.spawn().unwrap())
}

fn nodes(home: &Home) -> String {
    home.orrery(&["get", "nodes"]).good()
}

/// proves: AGT-12, AGT-13
#[test]
fn up_with_tls_and_a_machine_that_joins_with_a_token() {
    let home = Home::new();
    let _up = home.start(&UP_TLS);
    let url = url(&home);
    assert!(url.starts_with("https://"), "{url}");
    until("the agent beside it is ready", || nodes(&home).contains("Ready").then_some(()));
    assert!(home.orrery(&["auth", "whoami"]).good().contains("orrery:admins"));
    assert!(home.orrery(&["auth", "can-i", "delete", "projects"]).good().starts_with("yes"));

    let made =
        home.orrery(&["token", "create", "--role", "agent", "--name", "edge-*", "--uses", "1"]);
    let token = made.good().trim().to_owned();
    let _edge = join(&home, "edge-1", &url, &token);
    until("it has joined", || {
        nodes(&home).lines().any(|l| l.contains("edge-1") && l.contains("Ready")).then_some(())
    });
    let listed = home.orrery(&["get", "jointokens", "-o", "wide"]).good();
    assert!(listed.contains("edge-*") && listed.contains("edge-1"), "{listed}");
    let key = home.path("agent-edge-1/identity/key.pem");
    assert_eq!(std::fs::metadata(&key).unwrap().permissions().mode() & 0o777, 0o600);
    let certificate = home.path("agent-edge-1/identity/certificate.pem").display().to_string();
    let shown = home.orrery(&["pki", "show", &certificate, &key.display().to_string()]).good();
    assert!(shown.contains("/agent/edge-1") && shown.contains("key (P-256)"), "{shown}");

    // The one use is used, and a cut token is told apart from a wrong one.
    let refused = |token: &str| {
        let mut command = home.command(ORRERY);
        command.args(["agent", "--name", "edge-2", "--server", &url, "--token", token]);
        let command = command.arg("--data-dir").arg(home.path("agent-edge-2"));
        Done::from(command.output().unwrap()).bad(1)
    };
    assert!(refused(&token).contains("as often as it may be"));
    assert!(refused(&token[..token.len() - 3]).contains("not whole"));
    assert!(refused("letmein").contains("no join token"));

    // A plain client is not answered, and neither is one without a proof.
    home.orrery(&["get", "projects", "--server", &url.replace("https", "http")]).bad(3);
}

/// What somebody else than the administrator may do, with a certificate and with a token.
#[test]
fn people_get_what_role_bindings_give() {
    let home = Home::new();
    let _up = home.start(&UP_TLS);
    let url = url(&home);
    home.orrery(&["apply", "-f", home.write("demo.yaml", DEMO).to_str().unwrap()]).good();
    let made = home.orrery(&["token", "create", "--user", "ann", "--ttl", "1h"]);
    let file = home.write("token", made.good());
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o600)).unwrap();
    let root = home.path(".local/share/orrery/pki/admin/ca.pem").display().to_string();
    let file = file.display().to_string();
    let as_ann = |arguments: &[&str]| {
        let more = ["--server", &url, "--root", &root, "--token-file", &file];
        home.orrery(&[arguments, &more].concat())
    };
    let me = as_ann(&["auth", "whoami"]).good();
    assert!(me.contains("ann") && me.contains("token"), "{me}");
    until("the binding counts", || {
        (as_ann(&["auth", "can-i", "list", "workloads", "-p", "demo"]).code == Some(0))
            .then_some(())
    });
    as_ann(&["get", "workloads", "-p", "demo"]).good();
    let said = as_ann(&["get", "workloads", "-p", "default"]).bad(1);
    assert!(said.contains("user \"ann\" cannot list workloads in project \"default\""), "{said}");
    let said = as_ann(&["auth", "can-i", "create", "workloads", "-p", "demo"]);
    assert!(said.code == Some(1) && said.out.starts_with("no"), "{said:?}");
    let listed = as_ann(&["auth", "can-i", "--list", "-p", "demo"]).good();
    assert!(listed.contains("apps") && listed.contains("get,list,watch"), "{listed}");

    // Disabled: refused at once.
    let revocation = home.write("revocation.yaml", REVOCATION);
    home.orrery(&["apply", "-f", revocation.to_str().unwrap()]).good();
    until("she is refused", || {
        (as_ann(&["get", "workloads", "-p", "demo"]).code != Some(0)).then_some(())
    });
}

const DEMO: &str = "
apiVersion: core.orrery.dev/v1
kind: Project
metadata: {name: demo}
---
apiVersion: core.orrery.dev/v1
kind: RoleBinding
metadata: {name: viewers, project: demo}
spec: {role: viewer, subjects: [{kind: User, name: ann}]}
";

const REVOCATION: &str = "
apiVersion: core.orrery.dev/v1
kind: Revocation
metadata: {name: user-ann}
spec: {role: user, peer: ann, reason: left}
";

/// proves: AGT-13
#[test]
fn certificates_by_hand() {
    let home = Home::new();
    let dir = home.path("pki").display().to_string();
    home.orrery(&["pki", "init", "--dir", &dir, "--trust-domain", "example.org"]).good();
    let said = home.orrery(&["pki", "init", "--dir", &dir]).bad(1);
    assert!(said.contains("exists already"), "{said}");
    let issue = |arguments: &[&str]| {
        let said = home.orrery(&[&["pki", "issue", "--dir", &dir], arguments].concat()).good();
        said.split_whitespace().map(str::to_owned).collect::<Vec<_>>()
    };
    let server = issue(&["--role", "server", "--name", "s1", "--ip", "127.0.0.1"]);
    let admin = issue(&["--role", "user", "--name", "root", "--group", "orrery:admins"]);
    let guest = issue(&["--role", "user", "--name", "guest"]);
    let said = home
        .orrery(&["pki", "issue", "--dir", &dir, "--role", "agent", "--name", "a", "--group", "g"]);
    assert!(said.bad(1).contains("only people"));
    let (_server, url) = home.server("data", &server);
    let with = |arguments: &[&str], tls: &[String]| {
        let tls: Vec<&str> = tls.iter().map(String::as_str).collect();
        home.orrery(&[arguments, &["--server", &url], &tls].concat())
    };
    with(&["get", "projects"], &admin).good();
    let said = with(&["get", "projects"], &guest).bad(1);
    assert!(said.contains("user \"guest\" cannot list projects everywhere"), "{said}");
    let said = with(&["token", "create", "--role", "agent", "--name", "x"], &admin).bad(1);
    assert!(said.contains("nobody can join"), "{said}");
    let shown = home.orrery(&["pki", "show", &admin[1], &admin[3], &admin[5]]).good();
    assert!(
        shown.contains("authority") && shown.contains("spiffe://example.org/user/root"),
        "{shown}"
    );
    assert!(shown.contains("orrery:admins"), "{shown}");
}

/// The authority is rotated while everything runs, and then the old one goes.
#[test]
fn the_authority_is_rotated_while_everything_runs() {
    let home = Home::new();
    let _up = home.start(&UP_TLS);
    until("the agent is ready", || nodes(&home).contains("Ready").then_some(()));
    let agent = home.path(".local/share/orrery/agents/local/identity/certificate.pem");
    let of_old = std::fs::read_to_string(&agent).unwrap();
    assert!(home.orrery(&["pki", "rotate"]).good().contains("2 authorities are trusted"));
    assert!(nodes(&home).contains("Ready"));
    let root = home.path(".local/share/orrery/pki/admin/ca.pem");
    let roots = std::fs::read_to_string(&root).unwrap();
    assert_eq!(roots.matches("BEGIN CERTIFICATE").count(), 2);

    // The administrator's own certificate is renewed, so that its owner is not locked out with the old authority.
    until("the certificate is of the new authority", || {
        let said = home.orrery(&["pki", "rotate", "--finish"]);
        assert!(
            said.code == Some(0) || said.err.contains("of an authority that would"),
            "{said:?}"
        );
        (said.code == Some(0)).then_some(())
    });
    home.orrery(&["auth", "whoami"]).good();
    let roots = std::fs::read_to_string(&root).unwrap();
    assert_eq!(roots.matches("BEGIN CERTIFICATE").count(), 1);
    assert_ne!(std::fs::read_to_string(&agent).unwrap(), of_old, "the agent's is renewed too");
    assert!(nodes(&home).contains("Ready"));
}
