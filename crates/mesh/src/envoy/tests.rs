use super::*;
use crate::address::Endpoint;
use crate::catalog::{Action, Host, Rule, Seen, Share};
use crate::names::{Destination, ServiceName};
use crate::topology::{AppProtocol, HttpMatch, ServicePort, TrafficSettings};
use crate::xds::{Kind, Resource};
use envoy_types::pb::envoy::config::endpoint::v3::ClusterLoadAssignment;
use envoy_types::pb::envoy::config::route::v3::{RouteConfiguration, route};
use envoy_types::pb::google::protobuf::Any;
use prost::Message as _;

fn name(text: &str) -> ServiceName {
    text.parse().unwrap()
}

#[track_caller]
fn decode<T: prost::Message + prost::Name + Default>(kind: Kind, resource: &Resource) -> T {
    let any = Any::decode(&*resource.any).expect("an Any");
    assert_eq!((any.type_url.as_str(), T::type_url().as_str()), (kind.type_url(), kind.type_url()));
    T::decode(&*any.value).expect("the message")
}

/// proves: MSH-01
#[test]
fn endpoints_become_an_assignment_of_the_same_name() {
    let at = |text: &str| Endpoint::of(text.parse().unwrap()).unwrap();
    let resource = load_assignment(&"shop/books".into(), &[at("10.0.0.1:80"), at("[::1]:81")]);
    let decoded: ClusterLoadAssignment = decode(Kind::Endpoints, &resource);
    assert_eq!(decoded.cluster_name, "shop/books");
    let shown = format!("{:?}", decoded.endpoints[0].lb_endpoints);
    for part in ["\"10.0.0.1\"", "PortValue(80)", "\"::1\"", "PortValue(81)"] {
        assert!(shown.contains(part), "{part} in {shown}");
    }
    let empty: ClusterLoadAssignment =
        decode(Kind::Endpoints, &load_assignment(&"shop/books".into(), &[]));
    assert!(empty.endpoints.is_empty());
}

#[test]
fn equal_content_has_equal_versions_and_other_content_has_others() {
    let at = |text: &str| Endpoint::of(text.parse().unwrap()).unwrap();
    let one = load_assignment(&"a/b".into(), &[at("10.0.0.1:80")]);
    assert_eq!(one, load_assignment(&"a/b".into(), &[at("10.0.0.1:80")]));
    assert_ne!(one.version, load_assignment(&"a/b".into(), &[at("10.0.0.1:81")]).version);
    assert_ne!(one.version, load_assignment(&"a/c".into(), &[at("10.0.0.1:80")]).version);
}

fn mk_host(service: &str, rules: Vec<Rule>) -> Host {
    Host {
        destination: Destination::first(&name(service)),
        port: "80".into(),
        encrypted: false,
        traffic: TrafficSettings::default(),
        rules,
    }
}

fn forward(shares: &[(&str, u32)]) -> Action {
    let share = |(service, weight): &(&str, u32)| Share {
        destination: Destination::within("shop", service).unwrap(),
        weight: *weight,
    };
    Action::Forward(shares.iter().map(share).collect())
}

/// As proxies of the project `shop` get it.
fn configuration(hosts: Vec<Host>) -> RouteConfiguration {
    let service = hosts[0].destination.service.clone();
    let is_short = service.project() == "shop";
    let seen = Seen { service, hosts, closed: Vec::new(), problems: Vec::new() };
    decode(Kind::Route, &route_configuration(&[virtual_hosts(&seen, is_short)]))
}

fn routes(rules: Vec<Rule>) -> Vec<route::Action> {
    let mut decoded = configuration(vec![mk_host("shop/books", rules)]);
    assert_eq!(decoded.name, OUTBOUND);
    let host = decoded.virtual_hosts.remove(0);
    let domains = ["books:*", "books:80", "books", "books.shop:*", "books.shop:80", "books.shop"];
    assert_eq!(host.domains, domains);
    host.routes.into_iter().filter_map(|one| one.action).collect()
}

#[test]
fn shares_become_weighted_clusters_and_denials_answers() {
    let rule = |action| Rule { matches: Vec::new(), action };
    let actions =
        routes(vec![rule(forward(&[("shop/v1", 9), ("shop/v2", 1)])), rule(Action::Deny)]);
    let shown = format!("{actions:?}");
    for part in ["WeightedClusters", "\"shop/v1\"", "value: 9", "\"shop/v2\"", "status: 403"] {
        assert!(shown.contains(part), "{part} in {shown}");
    }
    let single = format!("{:?}", routes(vec![rule(forward(&[("shop/v1", 9)]))]));
    assert!(single.contains("Cluster(\"shop/v1\")"), "{single}");
}

#[test]
fn a_service_of_another_project_has_its_long_name_only() {
    let decoded = configuration(vec![mk_host("other/books", Vec::new())]);
    let domains = ["books.other:*", "books.other:80", "books.other"];
    assert_eq!(decoded.virtual_hosts[0].domains, domains);
}

/// proves: MSH-07
#[test]
fn further_ports_are_named_and_those_without_requests_have_no_routes() {
    let mk = |port: &str, protocol| {
        let destination = Destination::within("shop", &format!("books:{port}")).unwrap();
        let port = ServicePort { protocol, ..port.into() };
        Host { destination, port, ..mk_host("shop/books", Vec::new()) }
    };
    let tcp = mk("5432", AppProtocol::Tcp);
    let hosts = vec![tcp.clone(), mk_host("shop/books", Vec::new()), mk("81", AppProtocol::Http2)];
    let decoded = configuration(hosts);
    let domains: Vec<_> = decoded.virtual_hosts.iter().map(|host| host.domains.len()).collect();
    assert_eq!(domains, [6, 2]);
    assert_eq!(decoded.virtual_hosts[1].domains, ["books:81", "books.shop:81"]);

    let at = "127.0.0.1:1".parse().unwrap();
    let closed = Rule { matches: Vec::new(), action: Action::Deny };
    let closed = Host { rules: vec![closed], ..tcp.clone() };
    assert_eq!(connection_listener(at, &tcp.destination, &closed), None);
    let action = forward(&[("shop/v1:5432", 3), ("shop/v2", 1)]);
    let open = Host { rules: vec![Rule { matches: Vec::new(), action }], ..tcp.clone() };
    let resource = connection_listener(at, &tcp.destination, &open).expect("open");
    assert_eq!(&*resource.name, "connect/shop/books:5432/127.0.0.1:1");
    let text = String::from_utf8_lossy(&resource.any).into_owned();
    assert!(text.contains("shop/v1:5432") && text.contains("shop/v2"), "{text}");
}

#[track_caller]
fn check_match(matches: &[HttpMatch], parts: &[&str]) {
    let rule = Rule { matches: matches.to_vec(), action: Action::Deny };
    let decoded = configuration(vec![mk_host("shop/books", vec![rule])]);
    let shown = format!("{:?}", decoded.virtual_hosts[0].routes[0].r#match);
    for part in parts {
        assert!(shown.contains(part), "{part} in {shown}");
    }
}

#[test]
fn matches() {
    let path = |regex: &str| HttpMatch { path_regex: Some(regex.into()), ..HttpMatch::default() };
    let methods = |list: &[&str]| HttpMatch {
        methods: list.iter().map(|one| (*one).to_owned()).collect(),
        ..HttpMatch::default()
    };
    check_match(&[], &["Prefix(\"/\")", "headers: []"]);
    check_match(&[methods(&["*"])], &["headers: []"]);
    check_match(&[path("/a|/b")], &["\"(?:/a|/b).*\""]);
    check_match(&[path("/a"), path("/b")], &["\"(?:/a).*\"", "\":path\"", "\"(?:/b).*\""]);
    check_match(&[methods(&["GET", "PUT"])], &["\":method\"", "\"GET|PUT\""]);
    let header = HttpMatch { headers: [("X-User".into(), "a|b".into())].into(), ..path("/") };
    check_match(&[header], &["\"x-user\"", "\"(?:a|b)\""]);
}

#[test]
fn a_bootstrap_names_the_service_and_demands_the_servers_identity() {
    let at = |port: u16| std::net::SocketAddr::from(([127, 0, 0, 1], port));
    let bootstrap = Bootstrap {
        service: name("shop/web"),
        instance: "web-1".to_owned(),
        control_plane: std::net::SocketAddr::from(([127, 0, 0, 1], 7443)).into(),
        tls: Some(TlsPaths {
            root: "ca.pem".into(),
            certificate: "proxy.pem".into(),
            key: "proxy-key.pem".into(),
            followed: None,
            server_name: "spiffe://example.org/server/one".to_owned(),
        }),
        outbound: "127.0.0.1:15001".parse().unwrap(),
        first: PortBootstrap { inbound: None, announce: Some(8080) },
        ports: [(
            "5432".into(),
            PortBootstrap { inbound: Some((at(1), at(2))), announce: Some(1) },
        )]
        .into(),
        connect: [(at(3), Destination::within("shop", "db:5432").unwrap())].into(),
        admin: None,
        mode: Mode::Aggregated,
    };
    let json = bootstrap.to_json();
    assert_eq!(json["node"]["cluster"], "shop/web");
    assert_eq!(json["node"]["metadata"][ENDPOINT_PORT_KEY], 8080);
    let port = &json["node"]["metadata"][PORTS_KEY]["5432"];
    let expect = serde_json::json!(
        {"inbound": "127.0.0.1:1", "instance": "127.0.0.1:2", "announce": 1}
    );
    assert_eq!(*port, expect);
    assert_eq!(json["node"]["metadata"][CONNECT_KEY]["127.0.0.1:3"], "shop/db:5432");
    let socket = &json["static_resources"]["clusters"][0]["transport_socket"]["typed_config"];
    let names =
        &socket["common_tls_context"]["validation_context"]["match_typed_subject_alt_names"];
    assert_eq!(names[0]["san_type"], "URI");
    let followed = FollowedFiles::in_folder(std::path::Path::new("/tls"));
    let tls = bootstrap.tls.clone().map(|tls| TlsPaths { followed: Some(followed), ..tls });
    let followed = Bootstrap { tls, ..bootstrap.clone() }.to_json();
    let context = &followed["static_resources"]["clusters"][0]["transport_socket"]["typed_config"];
    let context = &context["common_tls_context"];
    assert!(context["tls_certificates"].is_null() && context["validation_context"].is_null());
    let combined = &context["combined_validation_context"];
    assert_eq!(
        combined["default_validation_context"]["match_typed_subject_alt_names"][0]["san_type"],
        "URI",
        "the server is still held to its name"
    );
    let path = "/validation_context_sds_secret_config/sds_config/path_config_source/path";
    assert_eq!(
        combined.pointer(path).and_then(|path| path.as_str()),
        Some("/tls/envoy-roots.json")
    );
    assert_eq!(json["dynamic_resources"]["ads_config"]["api_type"], "GRPC");
}
