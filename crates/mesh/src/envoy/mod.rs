//! The mesh in Envoy's words: the only place that knows them.
//!
//! ```text
//!   endpoints ─────> ClusterLoadAssignment   (one per service, the same for every proxy)
//!   destinations ──> Cluster                 (one per service, the same for every proxy)
//!   RoutePlan ─────> RouteConfiguration      (one per calling service)
//!   address ───────> Listener                (one per calling service and address)
//!   certificate ───> Secret                  (one pair per service, for its own proxies only)
//! ```
//! Pure functions from our types to encoded resources.
mod bootstrap;
mod clusters;
mod endpoints;
mod listeners;
mod routes;
mod secrets;

pub use bootstrap::{Bootstrap, Mode, TlsPaths};
pub use clusters::cluster;
pub use endpoints::load_assignment;
pub use listeners::outbound_listener;
pub use routes::route_configuration;
pub use secrets::{CERTIFICATE_NAME, ROOTS_NAME, secrets};

use envoy_types::pb::envoy::config::core::v3 as core;
use envoy_types::pb::google::protobuf;
use std::net::SocketAddr;
use std::time::Duration;

/// The route configuration that outbound listeners ask for.
pub const OUTBOUND: &str = "outbound";
/// In a node's metadata: where it listens for its own service's requests to others.
pub const OUTBOUND_KEY: &str = "orrery_outbound";
/// In a node's metadata: the port under which others reach the instance it fronts.
pub const ENDPOINT_PORT_KEY: &str = "orrery_endpoint_port";

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

#[cfg(test)]
mod tests;
