//! Calls of gRPC, by a client of another language.
use super::{Envoy, PROJECT, agent, apply, free_port, service, tools};
use crate::harness::Home;

/// A gRPC service that answers every call with its own name and its node's.
const ECHO: &str = "import grpc, os
from concurrent import futures
class H(grpc.GenericRpcHandler):
    def service(self, details):
        return grpc.unary_unary_rpc_method_handler(lambda request, context: (os.environ['ORRERY_WORKLOAD'] + ' ' + os.environ['ORRERY_NODE']).encode())
server = grpc.server(futures.ThreadPoolExecutor(4))
server.add_generic_rpc_handlers((H(),))
server.add_insecure_port(os.environ['AT'])
server.start()
server.wait_for_termination()";

/// Calls it, as its arguments say: the target, and the name that is meant.
const DIAL: &str = "import grpc, sys
options = [('grpc.default_authority', sys.argv[2])] if 2 < len(sys.argv) else []
channel = grpc.insecure_channel(sys.argv[1], options=options)
call = channel.unary_unary('/test.Echo/Who')
print(call(b'', timeout=50, wait_for_ready=True).decode())";

fn python() -> String {
    tools().join("venv/bin/python").display().to_string()
}

fn dial(home: &Home, bootstrap: Option<&std::path::Path>, arguments: &[&str]) -> String {
    let mut command = home.command(python());
    command.args(["-c", DIAL]).args(arguments);
    if let Some(bootstrap) = bootstrap {
        command.env("GRPC_XDS_BOOTSTRAP", bootstrap);
    }
    let said = command.output().expect("Python runs");
    let error = String::from_utf8_lossy(&said.stderr);
    assert!(said.status.success(), "{error}");
    String::from_utf8_lossy(&said.stdout).trim().to_owned()
}

/// A workload that answers calls on its port with its own name and its node's.
fn echo(name: &str, port: u16) -> String {
    let manifest = serde_json::json!({
        "apiVersion": "apps.orrery.dev/v1", "kind": "Workload",
        "metadata": {"name": name, "project": "shop"},
        "spec": {
            "process": {"command": python(), "args": ["-c", ECHO], "env": {"AT": format!("127.0.0.1:{port}")}},
            "placement": {"nodes": ["edgea"]},
        },
    });
    format!("{manifest}\n---\n")
}

/// Without an Envoy, and through one that speaks HTTP/2 on both sides.
///
/// proves: MSH-01, MSH-07
#[test]
fn grpc_clients_find_their_way_with_and_without_a_proxy() {
    let home = Home::new();
    let (_server, url) = home.server("data", &[]);
    let at = ["--server", url.as_str()];
    let _agent = agent(&home, "edgea", &url, "127.0.0.1");
    let (books, admin) = (free_port("127.0.0.1"), free_port("127.0.0.1"));
    let ports = format!(
        "{{workload: books, ports: [{{name: grpc, port: 80, targetPort: {books}, protocol: http2}}, \
         {{name: admin, port: 81, targetPort: {admin}, protocol: http2}}]}}"
    );
    let everything = [
        PROJECT.to_owned(),
        service("books", &ports),
        service("web", "{ports: [{name: http, port: 80}]}"),
        echo("books", books),
        echo("admin", admin),
    ];
    apply(&home, "all.yaml", &at, &everything.concat());
    let control_plane = url.strip_prefix("http://").expect("a plain server");
    let bootstrap = serde_json::json!({
        "xds_servers": [{
            "server_uri": control_plane, "channel_creds": [{"type": "insecure"}],
            "server_features": ["xds_v3"],
        }],
        "node": {"id": "python", "cluster": "shop/web"},
    });
    let file = home.write("xds.json", bootstrap.to_string());
    assert_eq!(dial(&home, Some(&file), &["xds:///books.shop"]), "books edgea");
    // Both programs run on the node, and the port of the service says which is meant.
    assert_eq!(dial(&home, Some(&file), &["xds:///books.shop:81"]), "admin edgea");
    let envoy = Envoy::start(&home, "web", &at);
    let outbound = envoy.outbound.to_string();
    assert_eq!(dial(&home, None, &[&outbound, "books.shop"]), "books edgea");
    assert_eq!(dial(&home, None, &[&outbound, "books:81"]), "admin edgea");
}
