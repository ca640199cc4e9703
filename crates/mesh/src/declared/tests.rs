//! Manifests as people write them, and what they mean.
use super::{Declarations, Reading, Subject};
use orrery_api::Scheme;
use orrery_hub::ObjectName;
use std::sync::LazyLock;

static SCHEME: LazyLock<Scheme> = LazyLock::new(|| {
    let builder = Scheme::builder().descriptors(orrery_proto::FILE_DESCRIPTOR_SET);
    crate::smi::register(builder).build().unwrap_or_else(|error| panic!("{error}"))
});

const WORLD: &str = "
{apiVersion: mesh.orrery.dev/v1, kind: MeshService, metadata: {name: books, project: shop, labels: {app: books}},
 spec: {ports: [{name: http, port: 80, targetPort: 8080}]}}
---
{apiVersion: mesh.orrery.dev/v1, kind: MeshService, metadata: {name: v2, project: shop},
 spec: {serviceAccount: books, ports: [{name: http, port: 80}]}}
---
{apiVersion: mesh.orrery.dev/v1, kind: MeshService, metadata: {name: db, project: shop},
 spec: {fronting: {port: 15006}, ports: [{name: http, port: 80}, {name: grpc, port: 81, protocol: http2},
   {name: pg, port: 5432, targetPort: 15432, protocol: tcp, frontingPort: 15007}]}}
---
{apiVersion: specs.smi-spec.io/v1alpha2, kind: HTTPRouteGroup, metadata: {name: routes, project: shop},
 matches: [{name: read, pathRegex: /books, methods: [GET]}, {name: beta, headers: [{x-beta: '1'}]}]}
---
{apiVersion: specs.smi-spec.io/v1alpha4, kind: HTTPRouteGroup, metadata: {name: empty, project: shop}, spec: {}}
---
{apiVersion: specs.smi-spec.io/v1alpha4, kind: TCPRoute, metadata: {name: all, project: shop}, spec: {}}
---
{apiVersion: specs.smi-spec.io/v1alpha4, kind: TCPRoute, metadata: {name: web-port, project: shop},
 spec: {matches: {ports: [8080]}}}
---
{apiVersion: specs.smi-spec.io/v1alpha4, kind: TCPRoute, metadata: {name: other-port, project: shop},
 spec: {matches: {ports: [9]}}}
---
{apiVersion: specs.smi-spec.io/v1alpha4, kind: TCPRoute, metadata: {name: pg-port, project: shop},
 spec: {matches: {ports: [15432]}}}
---
{apiVersion: specs.smi-spec.io/v1alpha4, kind: UDPRoute, metadata: {name: dns, project: shop},
 spec: {matches: {ports: [53]}}}
---
{apiVersion: access.smi-spec.io/v1alpha4, kind: IdentityBinding, metadata: {name: bound, project: shop},
 spec: {schemes: {podLabelSelectors: [{matchLabels: {app: books}}], spiffeIdentities: [x.org/proxy/bank.shop]}}}
";

fn read(more: &str) -> Reading {
    let mut declared = Declarations::default();
    let text = format!("{WORLD}---\n{more}");
    let manifests = SCHEME.read_manifests("world", text.as_bytes());
    for (_, object) in manifests.unwrap_or_else(|errors| panic!("{errors}")) {
        let stored = SCHEME.to_hub(&object).expect("convertible");
        assert!(declared.put(&stored).expect("readable"), "{object:?}");
    }
    declared.read()
}

fn finding(reading: &Reading, subject: Subject) -> String {
    reading.findings.get(&subject).map(|texts| texts.join("; ")).unwrap_or_default()
}

/// A target, as `destination <- sources : paths, or *`, the ports it is limited to and `!` for
/// connections; and what is found wrong with it.
#[track_caller]
fn check_target(spec: &str, expect: &[&str], finds: &str) {
    let manifest = "{apiVersion: access.smi-spec.io/v1alpha4, kind: TrafficTarget,
        metadata: {name: t, project: shop}, spec: SPEC}";
    let reading = read(&manifest.replace("SPEC", spec));
    let shown: Vec<String> = reading
        .targets
        .iter()
        .map(|target| {
            let sources: Vec<&str> = target.sources.iter().map(|source| source.as_str()).collect();
            let rules = match &target.rules {
                None => "*".to_owned(),
                Some(rules) => rules.len().to_string(),
            };
            let ports = target.ports.iter().flatten().map(|port| format!(" {port}"));
            let connections = if target.connections { " !" } else { "" };
            let ports: String = ports.collect();
            let from = sources.join(",");
            format!("{} <- {from} : {rules}{ports}{connections}", target.destination)
        })
        .collect();
    let found = finding(&reading, Subject::Target(ObjectName::new("shop", "t")));
    assert_eq!(shown, expect, "{found}");
    assert!(found.contains(finds) && found.is_empty() == finds.is_empty(), "{found}");
}

const BOOKS: &str = "destination: {kind: MeshService, name: books}";
const WEB: &str = "sources: [{kind: ServiceAccount, name: web}]";
const ROUTES: &str = "rules: [{kind: HTTPRouteGroup, name: routes}]";

fn target(parts: &[&str]) -> String {
    format!("{{{}}}", parts.join(", "))
}

#[test]
fn targets_allow_what_they_name() {
    check_target(&target(&[BOOKS, WEB, ROUTES]), &["shop/books <- shop/web : 2"], "");
    let some = "rules: [{kind: HTTPRouteGroup, name: routes, matches: [read]}]";
    check_target(&target(&[BOOKS, WEB, some]), &["shop/books <- shop/web : 1"], "");
    let tcp = "rules: [{kind: TCPRoute, name: all}]";
    check_target(&target(&[BOOKS, WEB, tcp]), &["shop/books <- shop/web : * !"], "");
    let both = "rules: [{kind: TCPRoute, name: web-port}, {kind: HTTPRouteGroup, name: routes}]";
    check_target(&target(&[BOOKS, WEB, both]), &["shop/books <- shop/web : 2 80 !"], "");
    let account = "destination: {kind: ServiceAccount, name: books}";
    let all = ["shop/books <- shop/web : 2", "shop/v2 <- shop/web : 2"];
    check_target(&target(&[account, WEB, ROUTES]), &all, "");
    let bound = "sources: [{kind: IdentityBinding, name: bound}]";
    check_target(&target(&[BOOKS, bound, ROUTES]), &["shop/books <- shop/bank,shop/books : 2"], "");
    let foreign = "sources: [{kind: ServiceAccount, name: web, namespace: office}]";
    check_target(&target(&[BOOKS, foreign, ROUTES]), &["shop/books <- office/web : 2"], "");
    let port = "destination: {kind: MeshService, name: books, port: 80}";
    check_target(&target(&[port, WEB, ROUTES]), &["shop/books <- shop/web : 2 80"], "");
    // The port of the destination limits a route that names none.
    check_target(&target(&[port, WEB, tcp]), &["shop/books <- shop/web : * 80 !"], "");
}

const DATABASE: &str = "destination: {kind: MeshService, name: db}";

#[test]
fn only_a_tcp_route_opens_a_port_that_takes_connections() {
    let route = "rules: [{kind: TCPRoute, name: pg-port}]";
    check_target(&target(&[DATABASE, WEB, route]), &["shop/db <- shop/web : * 5432 !"], "");
    let all = "rules: [{kind: TCPRoute, name: all}]";
    check_target(&target(&[DATABASE, WEB, all]), &["shop/db <- shop/web : * !"], "");
    check_target(
        &target(&[DATABASE, WEB, ROUTES]),
        &["shop/db <- shop/web : 2"],
        "which only a TCPRoute allows",
    );
    let half = "rules: [{kind: TCPRoute, name: nope}, {kind: HTTPRouteGroup, name: routes}]";
    check_target(&target(&[DATABASE, WEB, half]), &["shop/db <- shop/web : 0"], "no TCPRoute");
}

#[test]
fn ports_and_what_is_wrong_with_them() {
    let reading = read("");
    let database = reading.services.iter().find(|one| one.name.name() == "db").expect("declared");
    let shown: Vec<String> = database
        .ports
        .iter()
        .map(|port| format!("{} {} {:?}", port.name, port.label, port.protocol))
        .collect();
    assert_eq!(shown, ["80 http Http", "81 grpc Http2", "5432 pg Tcp"]);
    let found = finding(&reading, Subject::Service(ObjectName::new("shop", "db")));
    assert!(found.contains("port grpc has no frontingPort") && !found.contains("pg"), "{found}");
    let found = finding(&reading, Subject::UdpRoute(ObjectName::new("shop", "dns")));
    assert!(found.contains("datagrams are not proxied"), "{found}");
}

#[test]
fn one_port_of_a_proxy_is_for_one_port_of_the_service() {
    let check = |spec: &str, says: &str| {
        let text = format!(
            "{{apiVersion: mesh.orrery.dev/v1, kind: MeshService, metadata: {{name: a, project: shop}}, spec: {spec}}}"
        );
        let read = SCHEME.read_manifests("one", text.as_bytes());
        let object = read.unwrap_or_else(|errors| panic!("{errors}")).remove(0).1;
        let found = super::validate_service(&object, None);
        let found = found.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ");
        assert!(found.contains(says) && found.is_empty() == says.is_empty(), "{found}");
    };
    let two = "{name: a, port: 1}, {name: b, port: 2, frontingPort: 15007}";
    check(&format!("{{fronting: {{port: 15006}}, ports: [{two}]}}"), "");
    check(&format!("{{fronting: {{port: 15007}}, ports: [{two}]}}"), "unique");
    check(&format!("{{ports: [{two}]}}"), "needs spec.fronting");
    let first = "{fronting: {port: 1}, ports: [{name: a, port: 1, frontingPort: 2}]}";
    check(first, "must not be set");
}

/// What is wrong with a target closes the door, and is said.
#[test]
fn mistakes_allow_nothing_and_are_said() {
    check_target(&target(&[BOOKS, ROUTES]), &["shop/books <-  : 2"], "allows nobody");
    check_target(&target(&[BOOKS, WEB]), &["shop/books <- shop/web : 0"], "no rule");
    let missing = "rules: [{kind: HTTPRouteGroup, name: nope}]";
    check_target(
        &target(&[BOOKS, WEB, missing]),
        &["shop/books <- shop/web : 0"],
        "no HTTPRouteGroup",
    );
    let half = "rules: [{kind: TCPRoute, name: all}, {kind: HTTPRouteGroup, name: nope}]";
    check_target(
        &target(&[BOOKS, WEB, half]),
        &["shop/books <- shop/web : 0 !"],
        "no HTTPRouteGroup",
    );
    let unknown = "rules: [{kind: HTTPRouteGroup, name: routes, matches: [nope]}]";
    check_target(
        &target(&[BOOKS, WEB, unknown]),
        &["shop/books <- shop/web : 0"],
        "no match \"nope\"",
    );
    let port = "rules: [{kind: TCPRoute, name: other-port}]";
    check_target(
        &target(&[BOOKS, WEB, port]),
        &["shop/books <- shop/web : 0 !"],
        "none of its ports",
    );
    let udp = "rules: [{kind: UDPRoute, name: dns}]";
    check_target(&target(&[BOOKS, WEB, udp]), &["shop/books <- shop/web : 0"], "not proxied");
    let group = "sources: [{kind: Group, name: all}]";
    check_target(&target(&[BOOKS, group, ROUTES]), &["shop/books <-  : 2"], "means nobody");
    let elsewhere = "destination: {kind: ServiceAccount, name: books, namespace: office}";
    check_target(&target(&[elsewhere, WEB, ROUTES]), &[], "another project");
    let nowhere = "destination: {kind: MeshService, name: nope}";
    check_target(
        &target(&[nowhere, WEB, ROUTES]),
        &["shop/nope <- shop/web : 2"],
        "no service shop/nope",
    );
}

#[track_caller]
fn check_split(spec: &str, expect: Option<usize>, finds: &str) {
    let manifest = "{apiVersion: split.smi-spec.io/v1alpha4, kind: TrafficSplit,
        metadata: {name: s, project: shop}, spec: SPEC}";
    let reading = read(&manifest.replace("SPEC", spec));
    let found = finding(&reading, Subject::Split(ObjectName::new("shop", "s")));
    assert_eq!(reading.splits.first().map(|split| split.matches.len()), expect, "{found}");
    assert!(found.contains(finds) && found.is_empty() == finds.is_empty(), "{found}");
}

#[test]
fn splits_and_their_routes() {
    let backends = "backends: [{service: v2, weight: 1}]";
    check_split(&format!("{{service: books, {backends}}}"), Some(0), "");
    let matches = "matches: [{kind: HTTPRouteGroup, name: routes}]";
    check_split(&format!("{{service: books, {backends}, {matches}}}"), Some(2), "");
    let missing = "matches: [{kind: HTTPRouteGroup, name: nope}]";
    check_split(&format!("{{service: books, {backends}, {missing}}}"), None, "no HTTPRouteGroup");
    let empty = "matches: [{kind: HTTPRouteGroup, name: empty}]";
    check_split(&format!("{{service: books, {backends}, {empty}}}"), None, "match nothing");
    check_split(&format!("{{service: nope, {backends}}}"), Some(0), "no service \"nope\"");
}

#[test]
fn what_is_declared_twice_counts_once() {
    let (mut one, mut other) = (Declarations::default(), Declarations::default());
    let service = |account: &str| {
        let text = format!(
            "{{apiVersion: mesh.orrery.dev/v1, kind: MeshService, metadata: {{name: a, project: shop}},
              spec: {{serviceAccount: {account}}}}}"
        );
        let read = SCHEME.read_manifests("one", text.as_bytes());
        read.unwrap_or_else(|errors| panic!("{errors}")).remove(0).1
    };
    one.put(&service("first")).expect("readable");
    other.put(&service("second")).expect("readable");
    one.add(&other);
    let kept = one.services[&ObjectName::new("shop", "a")].spec.clone().expect("a spec");
    assert_eq!((one.services.len(), kept.service_account()), (1, "first"));
}

#[test]
fn services_are_as_old_as_what_declares_them() {
    let reading = read(
        "{apiVersion: mesh.orrery.dev/v1, kind: MeshService, spec: {},
          metadata: {name: old, project: shop, creationTimestamp: '2001-09-09T01:46:40Z'}}",
    );
    let age = |name: &str| {
        let found = reading.services.iter().find(|one| one.name.name() == name);
        found.expect("declared").declared_s
    };
    assert_eq!((age("old"), age("books")), (1_000_000_000, 0));
}
