//! Where a proxy takes requests.
use super::{OUTBOUND, address, from_ads};
use crate::xds::{Kind, Resource};
use envoy_types::pb::envoy::config::listener::v3 as listener;
use envoy_types::pb::envoy::config::route::v3::RouteConfiguration;
use envoy_types::pb::envoy::extensions::filters::http::router::v3::Router;
use envoy_types::pb::envoy::extensions::filters::network::http_connection_manager::v3 as hcm;
use envoy_types::pb::google::protobuf::{Any, BoolValue};
use envoy_types::util::pack_any;
use hcm::http_connection_manager::RouteSpecifier;
use std::net::SocketAddr;

/// For requests of the service that the proxy fronts: plain HTTP, with routes that come on the same
/// stream.
pub fn outbound_listener(at: SocketAddr) -> Resource {
    let routes = RouteSpecifier::Rds(hcm::Rds {
        config_source: Some(from_ads()),
        route_config_name: OUTBOUND.to_owned(),
    });
    let filters = vec![manager(OUTBOUND, Vec::new(), routes)];
    let message = listener::Listener {
        name: OUTBOUND.to_owned(),
        address: Some(address(at)),
        filter_chains: vec![listener::FilterChain { filters, ..Default::default() }],
        ..Default::default()
    };
    Resource::encode(Kind::Listener, OUTBOUND.into(), &message)
}

/// For a gRPC client that finds its way by itself: it asks for a listener by the name it dials, and
/// wants only the routes of it.
pub fn api_listener(name: &str) -> Resource {
    let routes = RouteSpecifier::Rds(hcm::Rds {
        config_source: Some(from_ads()),
        route_config_name: OUTBOUND.to_owned(),
    });
    let manager = pack_any(manager_config(OUTBOUND, Vec::new(), routes));
    let message = listener::Listener {
        name: name.to_owned(),
        api_listener: Some(listener::ApiListener { api_listener: Some(manager) }),
        ..Default::default()
    };
    Resource::encode(Kind::Listener, name.into(), &message)
}

/// For requests of others: through `guard`, then by `routes`.
pub fn inbound_manager(
    name: &str,
    guard: hcm::HttpFilter,
    routes: RouteConfiguration,
) -> listener::Filter {
    manager(name, vec![guard], RouteSpecifier::RouteConfig(routes))
}

pub fn http_filter(name: &str, config: Any) -> hcm::HttpFilter {
    hcm::HttpFilter {
        name: name.to_owned(),
        config_type: Some(hcm::http_filter::ConfigType::TypedConfig(config)),
        ..Default::default()
    }
}

fn manager(name: &str, filters: Vec<hcm::HttpFilter>, routes: RouteSpecifier) -> listener::Filter {
    let manager = manager_config(name, filters, routes);
    listener::Filter {
        name: "envoy.filters.network.http_connection_manager".to_owned(),
        config_type: Some(listener::filter::ConfigType::TypedConfig(pack_any(manager))),
    }
}

fn manager_config(
    name: &str,
    mut filters: Vec<hcm::HttpFilter>,
    routes: RouteSpecifier,
) -> hcm::HttpConnectionManager {
    filters.push(http_filter("envoy.filters.http.router", pack_any(Router::default())));
    hcm::HttpConnectionManager {
        stat_prefix: name.to_owned(),
        route_specifier: Some(routes),
        http_filters: filters,
        // Rules speak of paths, so a path has one spelling.
        normalize_path: Some(BoolValue { value: true }),
        merge_slashes: true,
        // Browsers ask for these with a request, and then speak freely.
        upgrade_configs: vec![hcm::http_connection_manager::UpgradeConfig {
            upgrade_type: "websocket".to_owned(),
            ..Default::default()
        }],
        ..Default::default()
    }
}
