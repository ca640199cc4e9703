//! A port of a service as a cluster whose endpoints come on the same stream.
use super::{duration, from_ads, number, tls};
use crate::names::{Destination, ServiceName};
use crate::topology::{AppProtocol, HealthCheck, Revoked, TrafficSettings};
use crate::xds::{Kind, Resource};
use envoy_types::pb::envoy::config::cluster::v3 as cluster;
use envoy_types::pb::envoy::config::core::v3 as core;
use envoy_types::pb::envoy::extensions::upstreams::http::v3 as http;
use envoy_types::pb::envoy::r#type::v3::CodecClientType;
use envoy_types::pb::google::protobuf::{Any, BoolValue};
use envoy_types::util::pack_any;
use http::http_protocol_options::UpstreamProtocolOptions;
use http::http_protocol_options::explicit_http_config::ProtocolConfig;
use orrery_pki::TrustDomain;
use std::collections::HashMap;
use std::time::Duration;

/// The name under which a cluster finds what it must know of HTTP.
const PROTOCOL_OPTIONS: &str = "envoy.extensions.upstreams.http.v3.HttpProtocolOptions";
/// Envoy's own limit for an instance that fails again and again.
const EJECTION_MAX: Duration = Duration::from_secs(300);

/// What a cluster depends on, besides its name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClusterSettings {
    pub encrypted: bool,
    /// Who calls, where that is told apart before the handshake.
    pub caller: Option<ServiceName>,
    /// Which of its proxies are disabled.
    pub revoked: Revoked,
    pub protocol: AppProtocol,
    pub traffic: TrafficSettings,
}

/// Long enough for a handshake across a continent, short enough to try another instance.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// An instance that fails is taken out even where there are few others, but never more than half of them:
/// then it is not the instances that fail.
const EJECTED_PERCENT_MAX: u32 = 50;

/// How to reach the instances of a service.
pub fn cluster(
    destination: &Destination,
    settings: &ClusterSettings,
    trust_domain: Option<&TrustDomain>,
) -> Resource {
    let traffic = &settings.traffic;
    let outlier = traffic.outlier_detection.as_ref();
    let message = cluster::Cluster {
        name: destination.to_string(),
        cluster_discovery_type: Some(cluster::cluster::ClusterDiscoveryType::Type(
            cluster::cluster::DiscoveryType::Eds.into(),
        )),
        eds_cluster_config: Some(cluster::cluster::EdsClusterConfig {
            eds_config: Some(from_ads()),
            service_name: destination.to_string(),
        }),
        connect_timeout: Some(duration(traffic.connect_timeout.unwrap_or(CONNECT_TIMEOUT))),
        outlier_detection: outlier.map(|outlier| cluster::OutlierDetection {
            consecutive_5xx: Some(number(outlier.consecutive_failures)),
            base_ejection_time: Some(duration(outlier.ejection_time)),
            max_ejection_time: Some(duration(outlier.ejection_time.max(EJECTION_MAX))),
            max_ejection_percent: Some(number(EJECTED_PERCENT_MAX)),
            always_eject_one_host: Some(BoolValue { value: true }),
            ..Default::default()
        }),
        health_checks: traffic
            .health_check
            .iter()
            .map(|check| health_check(check, settings.protocol, &destination.service))
            .collect(),
        typed_extension_protocol_options: protocol_options(settings.protocol),
        transport_socket: settings.encrypted.then(|| {
            let caller = settings.caller.as_ref();
            tls::upstream(trust_domain, &destination.service, caller, &settings.revoked)
        }),
        // An endpoint that left the list is gone, whatever a health check thought of it.
        ignore_health_on_host_removal: true,
        ..Default::default()
    };
    Resource::encode(Kind::Cluster, destination.shared(), &message)
}

/// A cluster without a setting; `None` where that is not how clusters of this destination are called.
pub fn stand_in(destination: &Destination, called: &str) -> Option<Resource> {
    let is_name = destination.to_string() == called;
    is_name.then(|| cluster(destination, &ClusterSettings::default(), None))
}

/// What a cluster whose instances speak HTTP/2 must be told; others are not.
pub fn protocol_options(protocol: AppProtocol) -> HashMap<String, Any> {
    let options = match protocol {
        AppProtocol::Http | AppProtocol::Tcp => return HashMap::new(),
        AppProtocol::Http2 => http::HttpProtocolOptions {
            upstream_protocol_options: Some(UpstreamProtocolOptions::ExplicitHttpConfig(
                http::http_protocol_options::ExplicitHttpConfig {
                    protocol_config: Some(ProtocolConfig::Http2ProtocolOptions(
                        core::Http2ProtocolOptions::default(),
                    )),
                },
            )),
            ..Default::default()
        },
    };
    [(PROTOCOL_OPTIONS.to_owned(), pack_any(options))].into()
}

fn health_check(
    check: &HealthCheck,
    protocol: AppProtocol,
    service: &ServiceName,
) -> core::HealthCheck {
    use core::health_check::{HealthChecker, HttpHealthCheck, TcpHealthCheck};
    let codec = match protocol {
        AppProtocol::Http2 => CodecClientType::Http2,
        AppProtocol::Http | AppProtocol::Tcp => CodecClientType::Http1,
    };
    let checker = match check.path.as_ref().filter(|_| protocol.has_requests()) {
        Some(path) => HealthChecker::HttpHealthCheck(HttpHealthCheck {
            // Envoy would name the cluster, whose name is none of a host.
            host: tls::spoken_name(service),
            path: path.clone(),
            codec_client_type: codec.into(),
            ..Default::default()
        }),
        None => HealthChecker::TcpHealthCheck(TcpHealthCheck::default()),
    };
    core::HealthCheck {
        timeout: Some(duration(check.timeout)),
        interval: Some(duration(check.interval)),
        unhealthy_threshold: Some(number(check.unhealthy_threshold)),
        healthy_threshold: Some(number(check.healthy_threshold)),
        // Without traffic too: whoever calls first must not find out for the others.
        no_traffic_interval: Some(duration(check.interval)),
        health_checker: Some(checker),
        ..Default::default()
    }
}
