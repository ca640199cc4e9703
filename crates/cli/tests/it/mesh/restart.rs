//! A server that is killed, and traffic that goes on.
use super::{Envoy, PROJECT, agent, apply, free_port, service, workload};
use crate::harness::Home;

/// proves: MSH-01, MSH-07
#[test]
fn traffic_goes_on_while_the_server_is_dead_and_follows_when_it_is_back() {
    let home = Home::new();
    let address = format!("127.0.0.1:{}", free_port("127.0.0.1"));
    let listen = ["--listen", &address, "--drivers-listen", "off", "--storage-listen", "off"];
    let listen = listen.map(str::to_owned);
    let (mut server, url) = home.server_at("data", &listen);
    let at = ["--server", url.as_str()];
    let _agent = agent(&home, "edgea", &url, "127.0.0.1");
    let (books, next) = (free_port("127.0.0.1"), free_port("127.0.0.1"));
    let ports = |port: u16| format!("{{ports: [{{name: http, port: 80, targetPort: {port}}}]}}");
    let node = [("edgea", "127.0.0.1")];
    let everything = [
        PROJECT.to_owned(),
        service("web", "{ports: [{name: http, port: 80}]}"),
        service("books", &ports(books)),
        service("next", &ports(next)),
        workload("books", &node, books),
        "---\n".to_owned(),
        workload("next", &node, next),
    ];
    apply(&home, "all.yaml", &at, &everything.concat());
    let envoy = Envoy::start(&home, "web", &[&at[..], &["--delta"]].concat());
    envoy.answers("/", (200, "books edgea"));

    server.kill();
    let expect = Some((200, "books edgea".to_owned()));
    for _ in 0..50 {
        assert_eq!(envoy.get("/"), expect, "on the last good configuration");
    }
    let (_server, _) = home.server_at("data", &listen);
    let split = "{apiVersion: split.smi-spec.io/v1alpha3, kind: TrafficSplit, metadata: {name: all, project: shop},
        spec: {service: books, backends: [{service: next, weight: 1}]}}";
    apply(&home, "split.yaml", &at, split);
    envoy.answers("/", (200, "next edgea"));
}
