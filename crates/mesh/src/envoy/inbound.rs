//! The side of a proxy that faces callers: who they are, whether they may, and on to the instance.
use super::clusters::protocol_options;
use super::connections::{self, network_filter, pass_on};
use super::tls::{all_but_revoked, downstream, proxies_of, spoken_name};
use super::{LOCAL, address, duration, listeners, rbac};
use crate::catalog::{Admittance, Grant, InboundPlan};
use crate::names::{PortName, ServiceName};
use crate::topology::AppProtocol;
use crate::xds::{Kind, Resource};
use envoy_types::pb::envoy::config::cluster::v3 as cluster;
use envoy_types::pb::envoy::config::endpoint::v3 as endpoint;
use envoy_types::pb::envoy::config::listener::v3 as listener;
use envoy_types::pb::envoy::config::route::v3 as route;
use envoy_types::pb::envoy::extensions::filters::http::rbac::v3::Rbac as RequestRbac;
use envoy_types::pb::envoy::extensions::filters::network::rbac::v3::Rbac as ConnectionRbac;
use envoy_types::pb::envoy::extensions::filters::network::tcp_proxy::v3::tcp_proxy::ClusterSpecifier;
use envoy_types::util::pack_any;
use listener::FilterChain;
use orrery_pki::TrustDomain;
use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::time::Duration;

/// The listener for callers of the first port.
pub const INBOUND: &str = "inbound";
/// A cluster that is not there: connections that nobody may make end at it.
const NOBODY: &str = "nobody";
/// The instance is on the same machine.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(1);

/// Takes the traffic of others for one port; `None` is the first.
pub fn inbound_listener(
    at: SocketAddr,
    port: Option<&PortName>,
    plan: &InboundPlan,
    trust_domain: Option<&TrustDomain>,
) -> Resource {
    let name = of_port(INBOUND, port);
    let (filter_chains, listener_filters) = match plan.protocol {
        AppProtocol::Http | AppProtocol::Http2 => {
            let filters = vec![requests(&name, port, plan, trust_domain)];
            let transport_socket = plan.encrypted.then(|| downstream(Vec::new()));
            let chain = FilterChain { filters, transport_socket, ..Default::default() };
            (vec![chain], Vec::new())
        }
        AppProtocol::Tcp => {
            let inspector = plan.encrypted.then(connections::read_spoken_name);
            let chains = connections(&name, port, plan, trust_domain);
            (chains, inspector.into_iter().collect())
        }
    };
    let message = listener::Listener {
        name: name.clone(),
        address: Some(address(at)),
        filter_chains,
        listener_filters,
        ..Default::default()
    };
    Resource::encode(Kind::Listener, name.into(), &message)
}

fn of_port(name: &str, port: Option<&PortName>) -> String {
    port.map_or_else(|| name.to_owned(), |port| format!("{name}:{port}"))
}

fn requests(
    name: &str,
    port: Option<&PortName>,
    plan: &InboundPlan,
    trust_domain: Option<&TrustDomain>,
) -> listener::Filter {
    let rules = Some(rbac::rules(&plan.admittance, trust_domain, &plan.revoked));
    let guard = pack_any(RequestRbac { rules, ..Default::default() });
    let filter = listeners::http_filter("envoy.filters.http.rbac", guard);
    let routes = route::RouteConfiguration {
        name: name.to_owned(),
        virtual_hosts: vec![everything_to(&of_port(LOCAL, port))],
        ..Default::default()
    };
    listeners::inbound_manager(name, filter, routes)
}

/// Each caller has a chain of its own, which it finds by the name it speaks before the handshake: so whoever is
/// no longer allowed loses its connections when its chain is drained, and nobody else does. An instance may
/// speak first, so whoever may not connect must not even reach it: a stranger does not get through the handshake.
fn connections(
    name: &str,
    port: Option<&PortName>,
    plan: &InboundPlan,
    trust_domain: Option<&TrustDomain>,
) -> Vec<FilterChain> {
    let callers: BTreeSet<&ServiceName> = match &plan.admittance {
        Admittance::Anyone => plan.neighbours.iter().collect(),
        Admittance::Only(grants) => {
            let proven = grants.iter().filter(|_| plan.encrypted);
            proven.flat_map(|grant| &grant.sources).collect()
        }
    };
    let chain = |caller: &ServiceName| FilterChain {
        name: caller.to_string(),
        filter_chain_match: Some(listener::FilterChainMatch {
            server_names: vec![spoken_name(caller)],
            ..Default::default()
        }),
        filters: vec![guard(name, caller, plan, trust_domain), pass_to(name, of_port(LOCAL, port))],
        transport_socket: Some(downstream(vec![proxies_of(caller, trust_domain, &plan.revoked)])),
        ..Default::default()
    };
    let others = match &plan.admittance {
        Admittance::Anyone => Some(strangers(name, port, plan)),
        Admittance::Only(_) if callers.is_empty() => Some(nobody(name, plan)),
        Admittance::Only(_) => None,
    };
    callers.into_iter().map(chain).chain(others).collect()
}

/// For everybody without a chain of their own: proxies of other projects, of this service and of those that are too many, and
/// whoever is no proxy. They share one, and lose their connections together when another proxy is disabled.
fn strangers(name: &str, port: Option<&PortName>, plan: &InboundPlan) -> FilterChain {
    let Some(names) = all_but_revoked(&plan.revoked) else { return nobody(name, plan) };
    FilterChain {
        filters: vec![pass_to(name, of_port(LOCAL, port))],
        transport_socket: plan.encrypted.then(|| downstream(names)),
        ..Default::default()
    }
}

fn nobody(name: &str, plan: &InboundPlan) -> FilterChain {
    FilterChain {
        filters: vec![pass_to(name, NOBODY.to_owned())],
        transport_socket: plan.encrypted.then(|| downstream(Vec::new())),
        ..Default::default()
    }
}

fn pass_to(name: &str, cluster: String) -> listener::Filter {
    pass_on(name, ClusterSpecifier::Cluster(cluster), None)
}

/// Lets one caller through, whom the handshake has proven already.
fn guard(
    name: &str,
    caller: &ServiceName,
    plan: &InboundPlan,
    trust_domain: Option<&TrustDomain>,
) -> listener::Filter {
    let grant = Grant { sources: [caller.clone()].into(), rules: None };
    let rules = rbac::rules(&Admittance::Only(vec![grant]), trust_domain, &plan.revoked);
    let guard =
        ConnectionRbac { rules: Some(rules), stat_prefix: name.to_owned(), ..Default::default() };
    network_filter("envoy.filters.network.rbac", pack_any(guard))
}

/// The instance itself, at one of its ports; `None` is the first.
pub fn local_cluster(app: SocketAddr, port: Option<&PortName>, protocol: AppProtocol) -> Resource {
    let name = of_port(LOCAL, port);
    let host = endpoint::Endpoint { address: Some(address(app)), ..Default::default() };
    let one = endpoint::LbEndpoint {
        host_identifier: Some(endpoint::lb_endpoint::HostIdentifier::Endpoint(host)),
        ..Default::default()
    };
    let locality = endpoint::LocalityLbEndpoints { lb_endpoints: vec![one], ..Default::default() };
    let message = cluster::Cluster {
        name: name.clone(),
        cluster_discovery_type: Some(cluster::cluster::ClusterDiscoveryType::Type(
            cluster::cluster::DiscoveryType::Static.into(),
        )),
        connect_timeout: Some(duration(CONNECT_TIMEOUT)),
        typed_extension_protocol_options: protocol_options(protocol),
        load_assignment: Some(endpoint::ClusterLoadAssignment {
            cluster_name: name.clone(),
            endpoints: vec![locality],
            ..Default::default()
        }),
        ..Default::default()
    };
    Resource::encode(Kind::Cluster, name.into(), &message)
}

/// Whether a cluster is the instance itself, at whichever port.
pub fn is_local(cluster: &str) -> bool {
    cluster.strip_prefix(LOCAL).is_some_and(|rest| rest.is_empty() || rest.starts_with(':'))
}

/// Without a limit of time: the side of the caller knows how long a request may take.
fn everything_to(cluster: &str) -> route::VirtualHost {
    let action = route::RouteAction {
        cluster_specifier: Some(route::route_action::ClusterSpecifier::Cluster(cluster.to_owned())),
        timeout: Some(duration(Duration::ZERO)),
        ..Default::default()
    };
    let prefix = route::route_match::PathSpecifier::Prefix("/".to_owned());
    let one = route::Route {
        r#match: Some(route::RouteMatch { path_specifier: Some(prefix), ..Default::default() }),
        action: Some(route::route::Action::Route(action)),
        ..Default::default()
    };
    route::VirtualHost {
        name: cluster.to_owned(),
        domains: vec!["*".to_owned()],
        routes: vec![one],
        ..Default::default()
    }
}

#[cfg(test)]
mod tests;
