//! A service as a cluster whose endpoints come on the same stream.
use super::{duration, from_ads, number};
use crate::names::ServiceName;
use crate::topology::TrafficSettings;
use crate::xds::{Kind, Resource};
use envoy_types::pb::envoy::config::cluster::v3 as cluster;
use std::time::Duration;

/// Long enough for a handshake across a continent, short enough to try another instance.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

pub fn cluster(service: &ServiceName, traffic: &TrafficSettings) -> Resource {
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
        // An endpoint that left the list is gone, whatever a health check thought of it.
        ignore_health_on_host_removal: true,
        ..Default::default()
    };
    Resource::encode(Kind::Cluster, service.shared(), &message)
}
