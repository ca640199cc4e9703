//! An Envoy that runs as a workload, and copies that say whether they are ready.
use super::{PROJECT, agent, apply, envoy, free_port, get, service};
use crate::harness::{Home, repository, until};
use std::net::SocketAddr;

/// Answers every request with its name; says on `/ready` whether a file is there.
const PROGRAM: &str = "import http.server as h, os
class A(h.BaseHTTPRequestHandler):
    def do_GET(self):
        ready = self.path != '/ready' or os.path.exists(os.environ['FLAG'])
        self.send_response(200 if ready else 503)
        self.end_headers()
        self.wfile.write(os.environ['ORRERY_WORKLOAD'].encode())
    def log_message(self, *a): pass
h.HTTPServer(('127.0.0.1', int(os.environ['PORT'])), A).serve_forever()";

/// proves: MSH-05, MSH-07
#[test]
fn an_envoy_runs_as_a_workload_and_leaves_out_copies_that_are_not_ready() {
    let home = Home::new();
    let (_server, url) = home.server("data", &[]);
    let at = ["--server", url.as_str()];
    let _agent = agent(&home, "edgea", &url, "127.0.0.1");
    let (port, outbound) = (free_port("127.0.0.1"), free_port("127.0.0.1"));
    let flag = home.path("ready");
    let workload = serde_json::json!({
        "apiVersion": "apps.orrery.dev/v1", "kind": "Workload",
        "metadata": {"name": "books", "project": "shop"},
        "spec": {
            "process": {"command": "python3", "args": ["-c", PROGRAM],
                "env": {"PORT": port.to_string(), "FLAG": flag.display().to_string()}},
            "placement": {"nodes": ["edgea"]},
            "readinessProbe": {"http": {"port": port, "path": "/ready"}, "periodSeconds": 1, "failureThreshold": 1},
        },
    });
    let route = "{apiVersion: specs.smi-spec.io/v1alpha4, kind: UDPRoute, metadata: {name: dns, project: shop},
        spec: {matches: {ports: [53]}}}\n---\n";
    let everything = [
        PROJECT.to_owned(),
        service("web", "{ports: [{name: http, port: 80}]}"),
        service("books", &format!("{{ports: [{{name: http, port: 80, targetPort: {port}}}]}}")),
        route.to_owned(),
        workload.to_string(),
    ];
    apply(&home, "all.yaml", &at, &everything.concat());
    let outbound = SocketAddr::from(([127, 0, 0, 1], outbound));
    let program = envoy().display().to_string();
    let listen = outbound.to_string();
    let print = ["mesh", "bootstrap", "-p", "shop", "--service", "web", "--outbound", &listen];
    let print =
        [&print[..], &["-o", "workload", "--node", "edgea", "--envoy", &program], &at].concat();
    let printed = home.orrery(&print).good();
    apply(&home, "proxy.yaml", &at, &printed);

    let answers = |what: &str, expect: u16| {
        until(what, || (get(outbound, "books", "/")?.0 == expect).then_some(()));
    };
    answers("a copy that is not ready takes no requests", 503);
    std::fs::write(&flag, "").expect("written");
    answers("it takes them when it is ready", 200);
    std::fs::remove_file(&flag).expect("removed");
    answers("and no longer when it is not", 503);

    let list = |what: &str| home.orrery(&[&["mesh", what, "-p", "shop"], &at[..]].concat()).good();
    until("the proxy is known by where it runs", || {
        list("proxies").contains("web-proxy@edgea").then_some(())
    });
    until("what is not proxied says so", || {
        list("status").contains("UDPRoute shop/dns: datagrams are not proxied").then_some(())
    });
}

/// What people apply is what is printed for them.
#[test]
fn the_example_is_what_is_printed() {
    let home = Home::new();
    let print = ["mesh", "bootstrap", "--service", "web", "-p", "shop", "-o", "workload"];
    let more = ["--node", "local", "--server", "http://127.0.0.1:7443"];
    let printed = home.orrery(&[&print[..], &more].concat()).good();
    let example = std::fs::read_to_string(repository().join("examples/mesh-proxy.yaml"));
    let example = example.expect("the example is there");
    let lines: Vec<&str> = example.lines().filter(|line| !line.starts_with('#')).collect();
    assert_eq!(lines.join("\n"), printed.trim_end());
}
