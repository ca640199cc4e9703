//! Connections that are passed on as they are.
use super::{address, number};
use crate::catalog::{Action, Host, Share};
use crate::names::Destination;
use crate::xds::{Kind, Resource};
use envoy_types::pb::envoy::config::listener::v3 as listener;
use envoy_types::pb::envoy::extensions::filters::listener::tls_inspector::v3::TlsInspector;
use envoy_types::pb::envoy::extensions::filters::network::tcp_proxy::v3 as tcp;
use envoy_types::util::pack_any;
use std::net::SocketAddr;
use tcp::tcp_proxy::{ClusterSpecifier, WeightedCluster, weighted_cluster::ClusterWeight};

/// Takes connections of the service's own for one port of another; `None` where that is closed to it.
pub fn connection_listener(at: SocketAddr, to: &Destination, host: &Host) -> Option<Resource> {
    let shares = host.rules.iter().find_map(|rule| match &rule.action {
        Action::Forward(shares) if rule.matches.is_empty() => Some(shares),
        Action::Forward(_) | Action::Deny => None,
    })?;
    let attempts = host.traffic.retries.as_ref().map(|retries| retries.attempts.saturating_add(1));
    let name = format!("connect/{to}/{at}");
    let message = listener::Listener {
        name: name.clone(),
        address: Some(address(at)),
        filter_chains: vec![listener::FilterChain {
            filters: vec![pass_on(&to.to_string(), specifier(shares), attempts)],
            ..Default::default()
        }],
        ..Default::default()
    };
    Some(Resource::encode(Kind::Listener, name.into(), &message))
}

/// The filter at the end of a chain: what comes goes to these clusters.
pub fn pass_on(stat: &str, to: ClusterSpecifier, attempts: Option<u32>) -> listener::Filter {
    let proxy = tcp::TcpProxy {
        stat_prefix: stat.to_owned(),
        max_connect_attempts: attempts.map(number),
        cluster_specifier: Some(to),
        ..Default::default()
    };
    network_filter("envoy.filters.network.tcp_proxy", pack_any(proxy))
}

/// Reads the name that a caller speaks before the handshake, for chains to match it.
pub fn read_spoken_name() -> listener::ListenerFilter {
    listener::ListenerFilter {
        name: "envoy.filters.listener.tls_inspector".to_owned(),
        config_type: Some(listener::listener_filter::ConfigType::TypedConfig(pack_any(
            TlsInspector::default(),
        ))),
        ..Default::default()
    }
}

pub fn network_filter(
    name: &str,
    config: envoy_types::pb::google::protobuf::Any,
) -> listener::Filter {
    listener::Filter {
        name: name.to_owned(),
        config_type: Some(listener::filter::ConfigType::TypedConfig(config)),
    }
}

fn specifier(shares: &[Share]) -> ClusterSpecifier {
    match shares {
        [only] => ClusterSpecifier::Cluster(only.destination.to_string()),
        shares => {
            let weight = |share: &Share| ClusterWeight {
                name: share.destination.to_string(),
                weight: share.weight,
                ..Default::default()
            };
            let clusters = shares.iter().map(weight).collect();
            ClusterSpecifier::WeightedClusters(WeightedCluster { clusters })
        }
    }
}
