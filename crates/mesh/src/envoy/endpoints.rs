//! Endpoints as a load assignment.
use super::{address, number};
use crate::address::Endpoint;
use crate::xds::{Kind, Resource};
use envoy_types::pb::envoy::config::core::v3::Locality;
use envoy_types::pb::envoy::config::endpoint::v3 as endpoint;
use std::sync::Arc;

/// All endpoints of a service, in one locality of full weight. No endpoints make an empty
/// assignment, which a proxy answers with 503 at once instead of waiting.
pub fn load_assignment(name: &Arc<str>, endpoints: &[Endpoint]) -> Resource {
    let locality = endpoint::LocalityLbEndpoints {
        // gRPC clients insist on both.
        locality: Some(Locality::default()),
        load_balancing_weight: Some(number(1)),
        lb_endpoints: endpoints.iter().map(lb_endpoint).collect(),
        ..Default::default()
    };
    let assignment = endpoint::ClusterLoadAssignment {
        cluster_name: name.to_string(),
        endpoints: if endpoints.is_empty() { Vec::new() } else { vec![locality] },
        ..Default::default()
    };
    Resource::encode(Kind::Endpoints, Arc::clone(name), &assignment)
}

fn lb_endpoint(one: &Endpoint) -> endpoint::LbEndpoint {
    let host =
        endpoint::Endpoint { address: Some(address(one.socket_addr())), ..Default::default() };
    endpoint::LbEndpoint {
        host_identifier: Some(endpoint::lb_endpoint::HostIdentifier::Endpoint(host)),
        ..Default::default()
    }
}
