//! A service as a cluster whose endpoints come on the same stream.
use super::{duration, from_ads, number, tls};
use crate::names::ServiceName;
use crate::topology::{HealthCheck, TrafficSettings};
use crate::xds::{Kind, Resource};
use envoy_types::pb::envoy::config::cluster::v3 as cluster;
use envoy_types::pb::envoy::config::core::v3 as core;
use orrery_pki::TrustDomain;
use std::time::Duration;

/// What a cluster depends on, besides its name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClusterSettings {
    pub encrypted: bool,
    pub traffic: TrafficSettings,
}

/// Long enough for a handshake across a continent, short enough to try another instance.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// How to reach the instances of a service.
pub fn cluster(
    service: &ServiceName,
    settings: &ClusterSettings,
    trust_domain: Option<&TrustDomain>,
) -> Resource {
    let traffic = &settings.traffic;
    let outlier = traffic.outlier_detection.as_ref();
    let message = cluster::Cluster {
        name: service.to_string(),
        cluster_discovery_type: Some(cluster::cluster::ClusterDiscoveryType::Type(
            cluster::cluster::DiscoveryType::Eds.into(),
        )),
        eds_cluster_config: Some(cluster::cluster::EdsClusterConfig {
            eds_config: Some(from_ads()),
            service_name: service.to_string(),
        }),
        connect_timeout: Some(duration(traffic.connect_timeout.unwrap_or(CONNECT_TIMEOUT))),
        outlier_detection: outlier.map(|outlier| cluster::OutlierDetection {
            consecutive_5xx: Some(number(outlier.consecutive_failures)),
            base_ejection_time: Some(duration(outlier.ejection_time)),
            ..Default::default()
        }),
        health_checks: traffic.health_check.iter().map(health_check).collect(),
        transport_socket: settings.encrypted.then(|| tls::upstream(trust_domain, service)),
        // An endpoint that left the list is gone, whatever a health check thought of it.
        ignore_health_on_host_removal: true,
        ..Default::default()
    };
    Resource::encode(Kind::Cluster, service.shared(), &message)
}

fn health_check(check: &HealthCheck) -> core::HealthCheck {
    use core::health_check::{HealthChecker, HttpHealthCheck, TcpHealthCheck};
    let checker = match &check.path {
        Some(path) => HealthChecker::HttpHealthCheck(HttpHealthCheck {
            path: path.clone(),
            ..Default::default()
        }),
        None => HealthChecker::TcpHealthCheck(TcpHealthCheck::default()),
    };
    core::HealthCheck {
        timeout: Some(duration(check.timeout)),
        interval: Some(duration(check.interval)),
        unhealthy_threshold: Some(number(check.unhealthy_threshold)),
        healthy_threshold: Some(number(check.healthy_threshold)),
        health_checker: Some(checker),
        ..Default::default()
    }
}
