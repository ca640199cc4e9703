//! The mesh in Envoy's words: the only place that knows them.
//!
//! ```text
//!   endpoints ─────> ClusterLoadAssignment   (one per service, the same for every proxy)
//!   destinations ──> Cluster                 (one per service, the same for every proxy)
//!   RoutePlan ─────> RouteConfiguration      (one per calling service)
//!   address ───────> Listener                (one per calling service and address; for connections with
//!                                             where they go, because there is no route to tell)
//!   certificate ───> Secret                  (one pair per service, for its own proxies only)
//! ```
//! Pure functions from our types to encoded resources.
mod bootstrap;
mod clusters;
mod connections;
mod endpoints;
mod files;
mod inbound;
mod listeners;
mod rbac;
mod routes;
mod secrets;
mod tls;

pub use bootstrap::{Bootstrap, ControlPlane, Mode, PortBootstrap, TlsPaths};
pub use clusters::{ClusterSettings, cluster, stand_in};
pub use connections::connection_listener;
pub use endpoints::load_assignment;
pub use files::FollowedFiles;
pub use inbound::{inbound_listener, is_local, local_cluster};
pub use listeners::{api_listener, outbound_listener};
pub use routes::{route_configuration, virtual_hosts};
pub use secrets::{CERTIFICATE_NAME, ROOTS_NAME, secrets};

use envoy_types::pb::envoy::config::core::v3 as core;
use envoy_types::pb::envoy::r#type::matcher::v3 as matcher;
use envoy_types::pb::google::protobuf;
use std::net::SocketAddr;
use std::time::Duration;

/// The route configuration that outbound listeners ask for.
pub const OUTBOUND: &str = "outbound";
/// In a node's metadata: where it listens for its own service's requests to others.
pub const OUTBOUND_KEY: &str = "orrery_outbound";
/// The cluster of the instance that a proxy fronts.
pub const LOCAL: &str = "local";
/// In a node's metadata: where it takes the requests of others.
pub const INBOUND_KEY: &str = "orrery_inbound";
/// In a node's metadata: where the instance is that it fronts.
pub const INSTANCE_KEY: &str = "orrery_instance";
/// In a node's metadata: the port under which others reach the instance it fronts.
pub const ENDPOINT_PORT_KEY: &str = "orrery_endpoint_port";

/// In a node's metadata: by port of the service, what the three above are for the first.
pub const PORTS_KEY: &str = "orrery_ports";
/// In it: where the proxy takes the traffic for that port.
pub const PORT_INBOUND_KEY: &str = "inbound";
/// In it: where the instance takes it.
pub const PORT_INSTANCE_KEY: &str = "instance";
/// In it: the port under which others reach it.
pub const PORT_ENDPOINT_KEY: &str = "announce";
/// In a node's metadata: by address, the port of a service that connections to it go to.
pub const CONNECT_KEY: &str = "orrery_connect";

/// "Ask on the stream this came on."
fn from_ads() -> core::ConfigSource {
    core::ConfigSource {
        resource_api_version: core::ApiVersion::V3.into(),
        config_source_specifier: Some(core::config_source::ConfigSourceSpecifier::Ads(
            core::AggregatedConfigSource::default(),
        )),
        ..Default::default()
    }
}

fn address(address: SocketAddr) -> core::Address {
    let socket = core::SocketAddress {
        address: address.ip().to_string(),
        port_specifier: Some(core::socket_address::PortSpecifier::PortValue(address.port().into())),
        ..Default::default()
    };
    core::Address { address: Some(core::address::Address::SocketAddress(socket)) }
}

fn duration(duration: Duration) -> protobuf::Duration {
    protobuf::Duration {
        seconds: i64::try_from(duration.as_secs()).unwrap_or(i64::MAX),
        nanos: i32::try_from(duration.subsec_nanos()).unwrap_or(0),
    }
}

fn number(value: u32) -> protobuf::UInt32Value {
    protobuf::UInt32Value { value }
}

fn inline(text: &str) -> core::DataSource {
    core::DataSource {
        specifier: Some(core::data_source::Specifier::InlineString(text.to_owned())),
        ..Default::default()
    }
}

/// The whole text must meet the expression.
fn regex_string(regex: String) -> matcher::StringMatcher {
    let regex = matcher::RegexMatcher { regex, ..Default::default() };
    matcher::StringMatcher {
        match_pattern: Some(matcher::string_matcher::MatchPattern::SafeRegex(regex)),
        ..Default::default()
    }
}

#[cfg(test)]
mod tests;
