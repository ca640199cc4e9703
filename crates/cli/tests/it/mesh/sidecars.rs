//! Envoys that nobody starts by hand: beside the instances of services that ask for them.
mod nodes;

use super::{PROJECT, apply, envoy, free_port, get, service};
use crate::harness::{Asked, Home, ORRERY, Process, alive, repository, signal, until};
use crate::tls::{authority, identity};
use nodes::Network;
use orrery_pki::Role;
use serde_json::{Value, json};
use std::net::SocketAddr;
use std::process::{Command, Stdio};

/// Answers every request with its node, on loopback only.
const BOOKS: &str = "import http.server as h, os
class A(h.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        self.wfile.write(('books ' + os.environ['ORRERY_NODE']).encode())
    def log_message(self, *a): pass
h.HTTPServer(('127.0.0.1', int(os.environ['PORT'])), A).serve_forever()";

/// Asks the books for every request, through the Envoy of its node, and answers what they say.
const WEB: &str = "import http.server as h, os, urllib.request as u, urllib.error as e
class A(h.BaseHTTPRequestHandler):
    def do_GET(self):
        ask = u.Request('http://127.0.0.1:' + os.environ['OUTBOUND'] + self.path, headers={'Host': 'books'})
        try:
            with u.urlopen(ask) as answer: status, body = answer.status, answer.read()
        except e.HTTPError as error: status, body = error.code, error.read()
        except OSError as error: status, body = 599, str(error).encode()
        self.send_response(status)
        self.end_headers()
        self.wfile.write(body)
    def log_message(self, *a): pass
h.HTTPServer(('0.0.0.0', int(os.environ['PORT'])), A).serve_forever()";

fn workload(name: &str, program: &str, env: &Value, more: &Value) -> String {
    let mut spec = json!({"process": {"command": "python3", "args": ["-c", program], "env": env}});
    let fields = spec.as_object_mut().expect("it is an object");
    fields.extend(more.as_object().expect("an object").clone());
    let metadata = json!({"name": name, "project": "shop"});
    let whole = json!({"apiVersion": "apps.orrery.dev/v1", "kind": "Workload", "metadata": metadata, "spec": spec});
    format!("{whole}\n---\n")
}

fn path_with_envoy() -> String {
    let folder = envoy().parent().expect("it is in a folder").display().to_string();
    format!("{folder}:{}", std::env::var("PATH").unwrap_or_default())
}

/// An agent on whose node there is an Envoy.
fn agent(mut command: Command, home: &Home, name: &str, more: &[&str]) -> Asked {
    command.env("PATH", path_with_envoy());
    command.args(["agent", "--name", name, "--stop-workloads", "--data-dir"]);
    command.arg(home.path(&format!("agent-{name}"))).args(more);
    Asked(Process(command.stderr(Stdio::null()).spawn().expect("start an agent")))
}

/// What the command line shows of one thing.
struct Shown<'a> {
    home: &'a Home,
    at: &'a [&'a str],
}

impl Shown<'_> {
    fn json(&self, arguments: &[&str]) -> Option<Value> {
        let all = [&["get"], arguments, &["-p", "shop", "-o", "json"], self.at].concat();
        let done = self.home.orrery(&all);
        (done.code == Some(0)).then(|| serde_json::from_str(&done.out).expect("it is JSON"))
    }

    /// The names of all objects of a kind.
    fn names(&self, kind: &str) -> Vec<String> {
        let list = self.json(&[kind]).expect("a list");
        let items = list["items"].as_array().cloned().unwrap_or_default();
        let name = |one: &Value| one["metadata"]["name"].as_str().unwrap_or_default().to_owned();
        items.iter().map(name).collect()
    }

    /// The process of the one running copy of a workload.
    fn pid(&self, workload: &str) -> Option<u32> {
        let list = self.json(&["workloadinstances"])?;
        let of = |one: &&Value| one["spec"]["workload"] == workload;
        let copy = list["items"].as_array()?.iter().find(of)?;
        let running = copy["status"]["state"] == "Running" && copy["status"]["ready"] == true;
        running.then(|| copy["status"]["pid"].as_u64())?.and_then(|pid| u32::try_from(pid).ok())
    }

    fn condition(&self, service: &str) -> Option<(String, String)> {
        let shown = self.json(&["meshservice", service])?;
        let all = shown["status"]["conditions"].as_array()?.clone();
        let found = all.into_iter().find(|one| one["type"] == "SidecarsReady")?;
        let text = |field: &str| found[field].as_str().map(str::to_owned);
        Some((text("reason")?, text("message").unwrap_or_default()))
    }

    #[track_caller]
    fn says(&self, service: &str, reason: &str, message: &str) {
        until(&format!("{service} says {reason}"), || {
            let (said, why) = self.condition(service)?;
            (said == reason && why.contains(message)).then_some(())
        });
    }

    /// The line of a service, as people see it.
    #[track_caller]
    fn row(&self, service: &str, columns: &[&str]) {
        until(&format!("{service} is shown as {columns:?}"), || {
            let shown = [&["get", "meshservices", "-p", "shop"], self.at].concat();
            let shown = self.home.orrery(&shown).good();
            let line = shown.lines().find(|line| line.starts_with(service))?.to_owned();
            let words: Vec<&str> = line.split_whitespace().collect();
            (words[1..1 + columns.len()] == *columns).then_some(())
        });
    }

    /// Nothing of what was made for services is there any more.
    #[track_caller]
    fn nothing_is_left(&self) {
        let sidecars = |kind: &str| {
            let names = self.names(kind);
            names.iter().any(|name| name.contains("-sidecar"))
        };
        for kind in ["workloads", "secrets", "workloadinstances"] {
            until(&format!("no {kind} of sidecars are left"), || (!sidecars(kind)).then_some(()));
        }
    }
}

#[track_caller]
fn answers(at: SocketAddr, expect: (u16, &str)) {
    until(&format!("{at} answers {expect:?}"), || {
        let (status, body) = get(at, "books", "/")?;
        ((status, body.trim_end()) == expect).then_some(())
    });
}

/// proves: MSH-05, MSH-07
#[test]
fn sidecars_are_started_watched_changed_and_taken_away() {
    let home = Home::new();
    let (_server, url) = home.server("data", &[]);
    let at = ["--server", url.as_str()];
    let shown = Shown { home: &home, at: &at };
    let _agent = agent(home.command(ORRERY), &home, "edgea", &at);
    let [app, front, front_next, web_app, web, books] = [(); 6].map(|()| free_port("127.0.0.1"));
    let of_books = |front: u16| {
        let ports = format!("[{{name: http, port: 80, targetPort: {app}}}]");
        let asked = format!("fronting: {{port: {front}}}, sidecar: {{outboundPort: {books}}}");
        service("books", &format!("{{ports: {ports}, {asked}}}"))
    };
    let everything = [
        PROJECT.to_owned(),
        service("web", &format!("{{sidecar: {{outboundPort: {web}}}}}")),
        of_books(front),
        workload("books", BOOKS, &json!({"PORT": app.to_string()}), &on_edge()),
        workload(
            "web",
            WEB,
            &json!({"PORT": web_app.to_string(), "OUTBOUND": web.to_string()}),
            &json!({"placement": {"nodes": ["edgea"]}, "dependsOn": [{"workload": "web-sidecar"}]}),
        ),
    ];
    apply(&home, "all.yaml", &at, &everything.concat());
    let asked = SocketAddr::from(([127, 0, 0, 1], web_app));
    answers(asked, (200, "books edgea"));
    shown.row("books", &["Ready", "1", "1", "1/1"]);
    shown.row("web", &["Ready", "0", "1", "1/1"]);

    // It is watched.
    let of_sidecar = |name: &str| until("the sidecar runs", || shown.pid(name));
    let first = of_sidecar("books-sidecar");
    signal(first, rustix::process::Signal::KILL);
    until("another one runs", || shown.pid("books-sidecar").filter(|pid| *pid != first));
    answers(asked, (200, "books edgea"));

    // It follows what is declared.
    apply(&home, "moved.yaml", &at, &of_books(front_next));
    let moved = SocketAddr::from(([127, 0, 0, 1], front_next));
    until("it listens elsewhere", || get(moved, "books", "/"));
    answers(asked, (200, "books edgea"));
    shown.row("books", &["Ready", "1", "1", "1/1"]);

    what_cannot_be_is_said(&home, &shown, &at, web);

    // It goes when it is not asked for any more, and with its service.
    let last = of_sidecar("books-sidecar");
    apply(&home, "without.yaml", &at, &service("books", "{ports: [{name: http, port: 80}]}"));
    until("the sidecar of the books is gone", || (!alive(last)).then_some(()));
    let last = of_sidecar("web-sidecar");
    for name in ["web", "bank", "desk", "twins"] {
        delete(&home, &at, &["meshservice", name]);
    }
    shown.nothing_is_left();
    assert!(!alive(last), "its Envoy is gone");
}

fn on_edge() -> Value {
    json!({"placement": {"nodes": ["edgea"]}})
}

fn delete(home: &Home, at: &[&str], what: &[&str]) {
    home.orrery(&[&["delete"], what, &["-p", "shop"], at].concat()).good();
}

/// What cannot be as asked for says so, and takes nothing from others. The sidecar of `web` has the port `web`.
fn what_cannot_be_is_said(home: &Home, shown: &Shown<'_>, at: &[&str], web: u16) {
    let bank = format!("{{workload: web, sidecar: {{outboundPort: {web}}}}}");
    let by_hand = workload("desk-sidecar", BOOKS, &json!({"PORT": "0"}), &on_edge());
    let desk = service("desk", "{sidecar: {}}");
    apply(home, "more.yaml", at, &[service("bank", &bank), by_hand, desk].concat());
    shown.says(
        "bank",
        "PortTaken",
        &format!("port {web} of node edgea is taken by the sidecar of shop/web"),
    );
    shown.says("desk", "NameTaken", "there is a workload \"desk-sidecar\" already");
    assert!(!shown.names("workloads").contains(&"bank-sidecar".to_owned()));
    let [front, outbound] = [(); 2].map(|()| free_port("127.0.0.1"));
    let twins = format!(
        "{{ports: [{{name: http, port: 80}}], fronting: {{port: {front}}}, sidecar: {{outboundPort: {outbound}}}}}"
    );
    let two = json!({"placement": {"selector": {}, "replicas": 2}});
    let two = workload("twins", "import time; time.sleep(3600)", &json!({}), &two);
    apply(home, "twins.yaml", at, &[service("twins", &twins), two].concat());
    shown.says("twins", "SeveralCopies", "node edgea has 2 copies of the workload");
    delete(home, at, &["workload", "desk-sidecar"]);
    until("it is made when the name is free", || {
        (shown.condition("desk")?.0 != "NameTaken").then_some(())
    });
}

/// The commands of docs/mesh.md, on a machine of their own: the ports of the example are free there.
#[test]
fn the_example_runs() {
    let home = Home::new();
    let network = Network::new(1);
    let on_node = |arguments: &[&str]| {
        let mut command = home.command(ORRERY);
        command.args(arguments);
        network.inside(0, &command)
    };
    let mut up = on_node(&["up"]);
    up.env("PATH", path_with_envoy()).stdout(Stdio::null()).stderr(Stdio::null());
    let _up = Asked(Process(up.spawn().expect("start orrery up")));
    let run = |arguments: &[&str]| on_node(arguments).output().expect("run orrery");
    let example = repository().join("examples/sidecars.yaml").display().to_string();
    until("the example is applied", || {
        run(&["apply", "-f", &example]).status.success().then_some(())
    });
    until("the services are shown with their sidecars", || {
        let shown = run(&["get", "meshservices", "-p", "shop"]).stdout;
        let shown = String::from_utf8_lossy(&shown).into_owned();
        let ready = |name: &str| {
            let of = shown.lines().find(|line| line.starts_with(name));
            of.is_some_and(|line| line.contains("Ready") && line.contains("1/1"))
        };
        (ready("books") && ready("web")).then_some(())
    });
    let ask = "import urllib.request as u
print(u.urlopen(u.Request('http://127.0.0.1:15001/', headers={'Host': 'books'})).status)";
    let mut python = home.command("python3");
    python.args(["-c", ask]);
    until("the books answer", || {
        let said = network.inside(0, &python).output().expect("run python").stdout;
        said.starts_with(b"200").then_some(())
    });
}

#[test]
fn a_node_without_an_envoy_says_so() {
    let home = Home::new();
    let (_server, url) = home.server("data", &[]);
    let at = ["--server", url.as_str()];
    let mut command = home.command(ORRERY);
    command.env("PATH", "/usr/bin:/bin").args(["agent", "--name", "bare", "--stop-workloads"]);
    command.args(at).arg("--data-dir").arg(home.path("agent")).stderr(Stdio::null());
    let _agent = Asked(Process(command.spawn().expect("start an agent")));
    let on_bare = json!({"placement": {"nodes": ["bare"]}});
    let web = workload("web", "import time; time.sleep(3600)", &json!({}), &on_bare);
    apply(
        &home,
        "all.yaml",
        &at,
        &[PROJECT.to_owned(), service("web", "{sidecar: {}}"), web].concat(),
    );
    let shown = Shown { home: &home, at: &at };
    shown.says("web", "Starting", "0 of 1 sidecars take traffic; node bare: ");
    shown.says("web", "Starting", "127");
    shown.row("web", &["Waiting", "0", "0", "0/1"]);
}

/// proves: MSH-03
#[test]
fn without_an_authority_sidecars_say_what_to_do() {
    let home = Home::new();
    let (_plain, url) = home.server("plain", &[]);
    let at = ["--server", url.as_str()];
    let port = "ports: [{name: http, port: 80}], fronting: {port: 15006}, sidecar: {}";
    let encrypted = service("books", &format!("{{encrypted: true, {port}}}"));
    apply(&home, "plain.yaml", &at, &[PROJECT.to_owned(), encrypted].concat());
    let shown = Shown { home: &home, at: &at };
    shown.says("books", "NoAuthority", "start it with --tls, or with --mesh-authority");
    shown.row("books", &["Incomplete", "0", "0", "0/0"]);

    // Its certificates come from elsewhere, so it can give nobody any.
    let authority = authority();
    let tls = identity(&authority, &home, Role::Server, "s1");
    let (_server, url) = home.server("brought", &tls);
    let user = identity(&authority, &home, Role::User, "alice");
    let mut at = vec!["--server", url.as_str()];
    at.extend(user.iter().map(String::as_str));
    let plain = service("books", &format!("{{{port}}}"));
    apply(&home, "brought.yaml", &at, &[PROJECT.to_owned(), plain].concat());
    let shown = Shown { home: &home, at: &at };
    shown.says("books", "NoAuthority", "start the server with --tls, or give it --authority");
    assert!(shown.names("workloads").is_empty() && shown.names("secrets").is_empty());
}

const TARGET: &str = "{apiVersion: access.smi-spec.io/v1alpha4, kind: TrafficTarget, metadata: {name: readers, project: shop},
    spec: {destination: {kind: ServiceAccount, name: books}, sources: [{kind: ServiceAccount, name: WHO}],
    rules: [{kind: HTTPRouteGroup, name: all}]}}\n---\n
{apiVersion: specs.smi-spec.io/v1alpha4, kind: HTTPRouteGroup, metadata: {name: all, project: shop},
    spec: {matches: [{name: all, pathRegex: '.*', methods: ['*']}]}}\n";

/// proves: MSH-02, MSH-03, MSH-05, MSH-07
#[test]
fn sidecars_prove_who_they_are_and_follow_the_copies_over_nodes() {
    let home = Home::new();
    let network = Network::new(2);
    let listen = format!("{}:0", network.host());
    let _up = home.start(&["up", "--tls", "--listen", &listen]);
    let context = home.orrery(&["context", "show", "local"]).good();
    let url = context.lines().find_map(|line| line.strip_prefix("server: "));
    let url = url.expect("the context names it").trim_matches('"').to_owned();
    let made = ["token", "create", "--role", "agent", "--name", "edge*", "--uses", "2"];
    let token = home.orrery(&made).good().trim().to_owned();
    let start = |(number, name): (usize, &&str)| {
        let command = network.inside(number, &home.command(ORRERY));
        let more = ["--server", &url, "--token", &token, "--label", "zone=edge"];
        agent(command, &home, name, &more)
    };
    let _agents: Vec<Asked> = ["edgea", "edgeb"].iter().enumerate().map(start).collect();
    let shown = Shown { home: &home, at: &[] };

    let web =
        json!({"placement": {"nodes": ["edgea"]}, "dependsOn": [{"workload": "web-sidecar"}]});
    let of_books = "{encrypted: true, ports: [{name: http, port: 80, targetPort: 8080}],
        fronting: {port: 15006}, sidecar: {outboundPort: 15011}}";
    let everything = [
        PROJECT.to_owned(),
        service("web", "{sidecar: {}}"),
        service("books", of_books),
        books(1),
        workload("web", WEB, &json!({"PORT": "8000", "OUTBOUND": "15001"}), &web),
        TARGET.replace("WHO", "web"),
    ];
    apply(&home, "all.yaml", &[], &everything.concat());
    let asked = SocketAddr::from((network.node(0), 8000));
    until("the books answer", || is_book(&get(asked, "web", "/")).then_some(()));
    shown.row("books", &["Ready", "1", "1", "1/1"]);

    // The key is in a secret, and nowhere else.
    assert_eq!(shown.names("secrets").len(), 2, "one for each service");
    for kind in ["workloads", "workloadinstances", "meshservices", "events"] {
        let all = shown.json(&[kind]).expect("a list").to_string();
        assert!(!all.contains("PRIVATE KEY"), "{kind} show the key");
    }

    sidecars_follow_the_copies(&home, &network, &shown);

    // They get other certificates when the authority rotates, and nobody is left with one of the old.
    home.orrery(&["pki", "rotate"]).good();
    until("no sidecar would be locked out", || {
        let refused = home.orrery(&["pki", "rotate", "--finish"]);
        assert!(refused.code == Some(0) || refused.err.contains("agent/edge"), "{refused:?}");
        (!refused.err.contains("proxy/")).then_some(())
    });
    shown.row("books", &["Ready", "1", "1", "1/1"]);
    until("the books answer", || is_book(&get(asked, "web", "/")).then_some(()));

    // Who asks is proven.
    apply(&home, "closed.yaml", &[], &TARGET.replace("WHO", "bank"));
    until("web is kept out", || (get(asked, "web", "/")?.0 == 403).then_some(()));

    for kind in ["meshservice", "workload"] {
        for name in ["web", "books"] {
            home.orrery(&["delete", kind, name, "-p", "shop"]).good();
        }
    }
    shown.nothing_is_left();
}

/// The books on so many of the edge's nodes.
fn books(replicas: usize) -> String {
    let selector = json!({"matchLabels": {"zone": "edge"}});
    let placement = json!({"placement": {"selector": selector, "replicas": replicas}});
    workload("books", BOOKS, &json!({"PORT": "8080"}), &placement)
}

fn is_book(said: &Option<(u16, String)>) -> bool {
    let nodes = ["books edgea", "books edgeb"];
    said.as_ref().is_some_and(|(status, body)| *status == 200 && nodes.contains(&body.as_str()))
}

/// One copy more has its own, before anything is sent to it; one less takes it along.
fn sidecars_follow_the_copies(home: &Home, network: &Network, shown: &Shown<'_>) {
    let asked = SocketAddr::from((network.node(0), 8000));
    apply(home, "two.yaml", &[], &books(2));
    let mut seen = std::collections::BTreeSet::new();
    until("both copies answer", || {
        let said = get(asked, "web", "/");
        assert!(is_book(&said), "{said:?}");
        seen.insert(said?.1);
        (seen.len() == 2).then_some(())
    });
    shown.row("books", &["Ready", "2", "2", "2/2"]);
    let inbound = SocketAddr::from((network.node(1), 15_006));
    assert_eq!(get(inbound, "books", "/"), None, "plain text is not heard");
    apply(home, "one.yaml", &[], &books(1));
    shown.row("books", &["Ready", "1", "1", "1/1"]);
    let listed = shown.names("workloadinstances");
    let sidecars = listed.iter().filter(|name| name.starts_with("books-sidecar"));
    assert_eq!(sidecars.count(), 1, "{listed:?}");
    until("the books answer", || is_book(&get(asked, "web", "/")).then_some(()));
}
