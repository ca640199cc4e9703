//! The side of a proxy that faces callers: who they are, whether they may, and on to the instance.
use super::routes::header_matchers;
use super::tls::{downstream, identity_regex};
use super::{LOCAL, address, duration, listeners, regex_string};
use crate::catalog::{Admittance, Grant, InboundPlan};
use crate::topology::HttpMatch;
use crate::xds::{Kind, Resource};
use envoy_types::pb::envoy::config::cluster::v3 as cluster;
use envoy_types::pb::envoy::config::endpoint::v3 as endpoint;
use envoy_types::pb::envoy::config::listener::v3 as listener;
use envoy_types::pb::envoy::config::rbac::v3 as rbac;
use envoy_types::pb::envoy::config::route::v3 as route;
use envoy_types::pb::envoy::extensions::filters::http::rbac::v3::Rbac;
use envoy_types::pb::envoy::r#type::matcher::v3 as matcher;
use envoy_types::util::pack_any;
use orrery_pki::TrustDomain;
use rbac::principal::Identifier;
use std::net::SocketAddr;
use std::time::Duration;

/// The listener for callers.
pub const INBOUND: &str = "inbound";
/// The instance is on the same machine.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(1);

pub fn inbound_listener(
    at: SocketAddr,
    plan: &InboundPlan,
    trust_domain: Option<&TrustDomain>,
) -> Resource {
    let filter =
        listeners::http_filter("envoy.filters.http.rbac", pack_any(guard(plan, trust_domain)));
    let routes = route::RouteConfiguration {
        name: INBOUND.to_owned(),
        virtual_hosts: vec![everything_to_the_instance()],
        ..Default::default()
    };
    let chain = listener::FilterChain {
        filters: vec![listeners::inbound_manager(INBOUND, filter, routes)],
        transport_socket: plan.encrypted.then(downstream),
        ..Default::default()
    };
    let message = listener::Listener {
        name: INBOUND.to_owned(),
        address: Some(address(at)),
        filter_chains: vec![chain],
        ..Default::default()
    };
    Resource::encode(Kind::Listener, INBOUND.into(), &message)
}

/// The instance itself.
pub fn local_cluster(app: SocketAddr) -> Resource {
    let host = endpoint::Endpoint { address: Some(address(app)), ..Default::default() };
    let one = endpoint::LbEndpoint {
        host_identifier: Some(endpoint::lb_endpoint::HostIdentifier::Endpoint(host)),
        ..Default::default()
    };
    let locality = endpoint::LocalityLbEndpoints { lb_endpoints: vec![one], ..Default::default() };
    let message = cluster::Cluster {
        name: LOCAL.to_owned(),
        cluster_discovery_type: Some(cluster::cluster::ClusterDiscoveryType::Type(
            cluster::cluster::DiscoveryType::Static.into(),
        )),
        connect_timeout: Some(duration(CONNECT_TIMEOUT)),
        load_assignment: Some(endpoint::ClusterLoadAssignment {
            cluster_name: LOCAL.to_owned(),
            endpoints: vec![locality],
            ..Default::default()
        }),
        ..Default::default()
    };
    Resource::encode(Kind::Cluster, LOCAL.into(), &message)
}

fn everything_to_the_instance() -> route::VirtualHost {
    let action = route::RouteAction {
        cluster_specifier: Some(route::route_action::ClusterSpecifier::Cluster(LOCAL.to_owned())),
        ..Default::default()
    };
    let prefix = route::route_match::PathSpecifier::Prefix("/".to_owned());
    let one = route::Route {
        r#match: Some(route::RouteMatch { path_specifier: Some(prefix), ..Default::default() }),
        action: Some(route::route::Action::Route(action)),
        ..Default::default()
    };
    route::VirtualHost {
        name: LOCAL.to_owned(),
        domains: vec!["*".to_owned()],
        routes: vec![one],
        ..Default::default()
    }
}

/// All grants are one policy, because several would be a map, and a map has no order: the same
/// rules must always be the same bytes. Without any policy the filter lets nobody through.
fn guard(plan: &InboundPlan, trust_domain: Option<&TrustDomain>) -> Rbac {
    let principals: Vec<rbac::Principal> = match &plan.admittance {
        Admittance::Anyone => vec![principal(Identifier::Any(true))],
        Admittance::Only(grants) => grants.iter().map(|one| grant(one, trust_domain)).collect(),
    };
    let policy = rbac::Policy {
        permissions: vec![rbac::Permission { rule: Some(rbac::permission::Rule::Any(true)) }],
        principals,
        ..Default::default()
    };
    let policies = Some(policy).filter(|policy| !policy.principals.is_empty());
    Rbac {
        rules: Some(rbac::Rbac {
            action: rbac::rbac::Action::Allow.into(),
            policies: policies.into_iter().map(|policy| ("grants".to_owned(), policy)).collect(),
            ..Default::default()
        }),
        ..Default::default()
    }
}

fn grant(grant: &Grant, trust_domain: Option<&TrustDomain>) -> rbac::Principal {
    let sources = grant.sources.iter().map(|source| {
        let name = regex_string(identity_regex(trust_domain, source));
        principal(Identifier::Authenticated(rbac::principal::Authenticated {
            principal_name: Some(name),
        }))
    });
    let sources = any_of(sources.collect());
    match &grant.rules {
        None => sources,
        Some(rules) => all_of(vec![sources, any_of(rules.iter().map(request).collect())]),
    }
}

/// What a request looks like; the filter takes that for a part of who asks.
fn request(one: &HttpMatch) -> rbac::Principal {
    let path = one.path_regex.as_ref().map(|regex| {
        let path = regex_string(format!("(?:{regex}).*"));
        let rule = Some(matcher::path_matcher::Rule::Path(path));
        principal(Identifier::UrlPath(matcher::PathMatcher { rule }))
    });
    let headers = header_matchers(one).into_iter().map(|one| principal(Identifier::Header(one)));
    let parts: Vec<_> = path.into_iter().chain(headers).collect();
    if parts.is_empty() { principal(Identifier::Any(true)) } else { all_of(parts) }
}

fn any_of(ids: Vec<rbac::Principal>) -> rbac::Principal {
    principal(Identifier::OrIds(rbac::principal::Set { ids }))
}

fn all_of(ids: Vec<rbac::Principal>) -> rbac::Principal {
    principal(Identifier::AndIds(rbac::principal::Set { ids }))
}

fn principal(identifier: Identifier) -> rbac::Principal {
    rbac::Principal { identifier: Some(identifier) }
}
