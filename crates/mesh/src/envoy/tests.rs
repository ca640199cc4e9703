use super::*;
use crate::address::Endpoint;
use crate::catalog::{Action, Host, RoutePlan, Rule, Share};
use crate::names::ServiceName;
use crate::topology::{HttpMatch, TrafficSettings};
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
    Host { service: name(service), encrypted: false, traffic: TrafficSettings::default(), rules }
}

fn forward(shares: &[(&str, u32)]) -> Action {
    let share = |(service, weight): &(&str, u32)| Share { service: name(service), weight: *weight };
    Action::Forward(shares.iter().map(share).collect())
}

fn routes(rules: Vec<Rule>) -> Vec<route::Action> {
    let plan = RoutePlan { hosts: vec![mk_host("shop/books", rules)], ..RoutePlan::default() };
    let resource = route_configuration(&name("shop/web"), &plan);
    let mut decoded: RouteConfiguration = decode(Kind::Route, &resource);
    let host = decoded.virtual_hosts.remove(0);
    assert_eq!(host.domains, ["books", "books.shop"]);
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
    let plan =
        RoutePlan { hosts: vec![mk_host("other/books", Vec::new())], ..RoutePlan::default() };
    let decoded: RouteConfiguration =
        decode(Kind::Route, &route_configuration(&name("shop/web"), &plan));
    assert_eq!(decoded.virtual_hosts[0].domains, ["books.other"]);
}

#[track_caller]
fn check_match(matches: &[HttpMatch], parts: &[&str]) {
    let rule = Rule { matches: matches.to_vec(), action: Action::Deny };
    let plan = RoutePlan { hosts: vec![mk_host("shop/books", vec![rule])], ..RoutePlan::default() };
    let decoded: RouteConfiguration =
        decode(Kind::Route, &route_configuration(&name("shop/web"), &plan));
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
    let bootstrap = Bootstrap {
        service: name("shop/web"),
        instance: "web-1".to_owned(),
        control_plane: std::net::SocketAddr::from(([127, 0, 0, 1], 7443)).into(),
        tls: Some(TlsPaths {
            root: "ca.pem".into(),
            certificate: "proxy.pem".into(),
            key: "proxy-key.pem".into(),
            server_name: "spiffe://example.org/server/one".to_owned(),
            secrets: None,
        }),
        outbound: "127.0.0.1:15001".parse().unwrap(),
        inbound: None,
        endpoint_port: Some(8080),
        admin: None,
        mode: Mode::Aggregated,
    };
    let json = bootstrap.to_json();
    assert_eq!(json["node"]["cluster"], "shop/web");
    assert_eq!(json["node"]["metadata"][ENDPOINT_PORT_KEY], 8080);
    let socket = &json["static_resources"]["clusters"][0]["transport_socket"]["typed_config"];
    let names =
        &socket["common_tls_context"]["validation_context"]["match_typed_subject_alt_names"];
    assert_eq!(names[0]["san_type"], "URI");
    assert_eq!(json["dynamic_resources"]["ads_config"]["api_type"], "GRPC");
}
