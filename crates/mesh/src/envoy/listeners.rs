//! Where a proxy takes the requests of the service it fronts.
use super::{OUTBOUND, address, from_ads};
use crate::xds::{Kind, Resource};
use envoy_types::pb::envoy::config::listener::v3 as listener;
use envoy_types::pb::envoy::extensions::filters::http::router::v3::Router;
use envoy_types::pb::envoy::extensions::filters::network::http_connection_manager::v3 as hcm;
use envoy_types::pb::google::protobuf::BoolValue;
use envoy_types::util::pack_any;
use std::net::SocketAddr;

/// A plain HTTP listener whose routes come on the same stream.
pub fn outbound_listener(at: SocketAddr) -> Resource {
    let filter = listener::Filter {
        name: "envoy.filters.network.http_connection_manager".to_owned(),
        config_type: Some(listener::filter::ConfigType::TypedConfig(pack_any(manager()))),
    };
    let message = listener::Listener {
        name: OUTBOUND.to_owned(),
        address: Some(address(at)),
        filter_chains: vec![listener::FilterChain { filters: vec![filter], ..Default::default() }],
        ..Default::default()
    };
    Resource::encode(Kind::Listener, OUTBOUND.into(), &message)
}

fn manager() -> hcm::HttpConnectionManager {
    hcm::HttpConnectionManager {
        stat_prefix: OUTBOUND.to_owned(),
        route_specifier: Some(hcm::http_connection_manager::RouteSpecifier::Rds(hcm::Rds {
            config_source: Some(from_ads()),
            route_config_name: OUTBOUND.to_owned(),
        })),
        http_filters: vec![hcm::HttpFilter {
            name: "envoy.filters.http.router".to_owned(),
            config_type: Some(hcm::http_filter::ConfigType::TypedConfig(pack_any(
                Router::default(),
            ))),
            ..Default::default()
        }],
        // Rules speak of paths, so a path has one spelling.
        normalize_path: Some(BoolValue { value: true }),
        merge_slashes: true,
        ..Default::default()
    }
}
