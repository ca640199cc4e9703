//! A route plan as a route configuration.
use super::{OUTBOUND, duration, inline, number, regex_string};
use crate::catalog::{Action, Host, Rule, Seen, Share};
use crate::names::ServiceName;
use crate::topology::{AppProtocol, HttpMatch, Retries};
use crate::xds::{Kind, Resource};
use bytes::Bytes;
use envoy_types::pb::envoy::config::route::v3 as route;
use envoy_types::pb::envoy::extensions::retry::host::previous_hosts::v3::PreviousHostsPredicate;
use envoy_types::pb::envoy::r#type::matcher::v3 as matcher;
use envoy_types::util::pack_any;
use prost::Message as _;
use route::header_matcher::HeaderMatchSpecifier;
use route::retry_policy::retry_host_predicate::ConfigType;
use route::route_action::ClusterSpecifier;
use route::route_match::PathSpecifier;
use std::time::Duration;

const FORBIDDEN: u32 = 403;
/// Failures that happened before the request was worked on, so that a repetition does no harm.
const RETRY_ON: &str = "connect-failure,refused-stream,reset-before-request";
/// An attempt that took too long counts as one that was cut off.
const RETRY_LATE: &str = ",reset";
/// How often another instance is looked for before the same is asked again.
const HOST_ATTEMPTS: i64 = 5;

/// Of virtual hosts that are encoded already.
pub fn route_configuration(hosts: &[Bytes]) -> Resource {
    let named = route::RouteConfiguration { name: OUTBOUND.to_owned(), ..Default::default() };
    let named = Bytes::from(named.encode_to_vec());
    let parts: Vec<&Bytes> = [&named].into_iter().chain(hosts).collect();
    Resource::join(Kind::Route, OUTBOUND.into(), &parts)
}

/// One for each port that takes requests, as a part of a route configuration. The first of a service is also
/// meant where no port is named, or one that it does not have. Within its project it is called by its short
/// name too.
pub fn virtual_hosts(seen: &Seen, is_short: bool) -> Bytes {
    let with_requests = seen.hosts.iter().filter(|host| host.port.protocol.has_requests());
    let hosts =
        with_requests.enumerate().map(|(index, host)| virtual_host(is_short, host, index == 0));
    let part = route::RouteConfiguration { virtual_hosts: hosts.collect(), ..Default::default() };
    part.encode_to_vec().into()
}

/// The names by which a service is known.
fn domains(is_short: bool, service: &ServiceName) -> Vec<String> {
    let (project, name) = (service.project(), service.name());
    let short = is_short.then(|| name.to_owned());
    short.into_iter().chain([format!("{name}.{project}")]).collect()
}

fn virtual_host(is_short: bool, host: &Host, is_first: bool) -> route::VirtualHost {
    let names = domains(is_short, &host.destination.service).into_iter();
    let domains = names.flat_map(|name| {
        let own = format!("{name}:{}", host.port.name);
        match is_first {
            true => vec![format!("{name}:*"), own, name],
            false => vec![own],
        }
    });
    route::VirtualHost {
        name: host.destination.to_string(),
        domains: domains.collect(),
        routes: host.rules.iter().map(|rule| one_route(rule, host)).collect(),
        ..Default::default()
    }
}

fn one_route(rule: &Rule, host: &Host) -> route::Route {
    let action = match &rule.action {
        Action::Forward(shares) => route::route::Action::Route(forward(shares, host)),
        Action::Deny => route::route::Action::DirectResponse(route::DirectResponseAction {
            status: FORBIDDEN,
            body: Some(inline("access denied by policy\n")),
            ..Default::default()
        }),
    };
    route::Route {
        r#match: Some(route_match(&rule.matches)),
        action: Some(action),
        ..Default::default()
    }
}

fn forward(shares: &[Share], host: &Host) -> route::RouteAction {
    let specifier = match shares {
        [only] => ClusterSpecifier::Cluster(only.destination.to_string()),
        shares => ClusterSpecifier::WeightedClusters(route::WeightedCluster {
            clusters: shares.iter().map(weight).collect(),
            ..Default::default()
        }),
    };
    route::RouteAction {
        cluster_specifier: Some(specifier),
        timeout: timeout(host).map(duration),
        retry_policy: host.traffic.retries.as_ref().map(retry_policy),
        ..Default::default()
    }
}

/// `None` leaves it to Envoy, which waits for 15 seconds; a stream of gRPC may go on for ever.
fn timeout(host: &Host) -> Option<Duration> {
    let by_default = match host.port.protocol {
        AppProtocol::Http2 => Some(Duration::ZERO),
        AppProtocol::Http | AppProtocol::Tcp => None,
    };
    host.traffic.timeout.or(by_default)
}

fn weight(share: &Share) -> route::weighted_cluster::ClusterWeight {
    route::weighted_cluster::ClusterWeight {
        name: share.destination.to_string(),
        weight: Some(number(share.weight)),
        ..Default::default()
    }
}

fn retry_policy(retries: &Retries) -> route::RetryPolicy {
    let late = if retries.per_try_timeout.is_some() { RETRY_LATE } else { "" };
    let elsewhere = route::retry_policy::RetryHostPredicate {
        name: "envoy.retry_host_predicates.previous_hosts".to_owned(),
        config_type: Some(ConfigType::TypedConfig(pack_any(PreviousHostsPredicate::default()))),
    };
    route::RetryPolicy {
        retry_on: format!("{RETRY_ON}{late}"),
        num_retries: Some(number(retries.attempts)),
        per_try_timeout: retries.per_try_timeout.map(duration),
        retry_host_predicate: vec![elsewhere],
        host_selection_retry_max_attempts: HOST_ATTEMPTS,
        ..Default::default()
    }
}

/// All of the matches must hold. A route has room for one path; further ones are put to the path as
/// the header it also is.
fn route_match(matches: &[HttpMatch]) -> route::RouteMatch {
    let mut paths = matches.iter().filter_map(|one| one.path_regex.as_deref()).map(from_start);
    let path = match paths.next() {
        None => PathSpecifier::Prefix("/".to_owned()),
        Some(regex) => PathSpecifier::SafeRegex(regex_matcher(regex)),
    };
    let further = paths.map(|regex| header(":path", regex));
    let others = matches.iter().flat_map(header_matchers);
    route::RouteMatch {
        path_specifier: Some(path),
        headers: further.chain(others).collect(),
        ..Default::default()
    }
}

/// Methods and headers; all must hold.
pub fn header_matchers(one: &HttpMatch) -> Vec<route::HeaderMatcher> {
    let values = one.headers.iter().map(|(name, regex)| header(name, format!("(?:{regex})")));
    methods(one).into_iter().chain(values).collect()
}

fn methods(one: &HttpMatch) -> Option<route::HeaderMatcher> {
    if one.methods.is_empty() || one.methods.contains("*") {
        return None;
    }
    let words: Vec<String> = one.methods.iter().map(|method| regex::escape(method)).collect();
    Some(header(":method", words.join("|")))
}

/// Envoy's expressions must meet the whole text, ours its start.
fn from_start(regex: &str) -> String {
    format!("(?:{regex}).*")
}

fn header(name: &str, regex: String) -> route::HeaderMatcher {
    route::HeaderMatcher {
        name: name.to_ascii_lowercase(),
        header_match_specifier: Some(HeaderMatchSpecifier::StringMatch(regex_string(regex))),
        ..Default::default()
    }
}

fn regex_matcher(regex: String) -> matcher::RegexMatcher {
    matcher::RegexMatcher { regex, ..Default::default() }
}
