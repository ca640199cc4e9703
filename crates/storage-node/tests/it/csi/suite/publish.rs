//! What a volume may be used for, and by which node.
use super::harness::{REPEATED, Suite, UNKNOWN, refused, secret};
use crate::csi::world::NODE;
use orrery_proto::csi::v1::{
    ControllerPublishVolumeRequest, CreateVolumeRequest, NodeGetInfoRequest, NodeGetInfoResponse,
    TopologyRequirement, ValidateVolumeCapabilitiesRequest, ValidateVolumeCapabilitiesResponse,
    VolumeCapability,
};
use tonic::{Code, Status};

const UNKNOWN_NODE: &str = "fake-node-id-7e3f";

async fn validate(
    suite: &Suite,
    id: &str,
    volume_capabilities: Vec<VolumeCapability>,
) -> Result<ValidateVolumeCapabilitiesResponse, Status> {
    let request = ValidateVolumeCapabilitiesRequest {
        volume_id: id.to_owned(),
        volume_capabilities,
        secrets: secret(),
        ..Default::default()
    };
    let reply = suite.csi.controller.clone().validate_volume_capabilities(request).await?;
    Ok(reply.into_inner())
}

pub async fn validation_needs_an_id(suite: &Suite) {
    refused(validate(suite, "", vec![]).await, Code::InvalidArgument);
}

pub async fn validation_needs_a_use(suite: &Suite) {
    let id = suite.create("validated").await;
    refused(validate(suite, &id, vec![]).await, Code::InvalidArgument);
}

pub async fn a_use_is_confirmed(suite: &Suite) {
    let id = suite.create("validated").await;
    let found = validate(suite, &id, vec![suite.access.clone()]).await.unwrap();
    assert_eq!(found.confirmed.unwrap().volume_capabilities, vec![suite.access.clone()]);
}

pub async fn what_is_not_there_is_not_validated(suite: &Suite) {
    refused(validate(suite, UNKNOWN, vec![suite.access.clone()]).await, Code::NotFound);
}

pub async fn publication_needs_an_id(suite: &Suite) {
    let request = ControllerPublishVolumeRequest { secrets: secret(), ..Default::default() };
    refused(suite.publish(request).await, Code::InvalidArgument);
}

pub async fn publication_needs_a_node(suite: &Suite) {
    let volume_id = UNKNOWN.to_owned();
    let request = ControllerPublishVolumeRequest { volume_id, ..Default::default() };
    refused(suite.publish(request).await, Code::InvalidArgument);
}

pub async fn publication_needs_a_use(suite: &Suite) {
    let request = ControllerPublishVolumeRequest {
        volume_capability: None,
        ..suite.publish_request(UNKNOWN, UNKNOWN_NODE)
    };
    refused(suite.publish(request).await, Code::InvalidArgument);
}

async fn node(suite: &Suite) -> NodeGetInfoResponse {
    let found = suite.csi.node.clone().node_get_info(NodeGetInfoRequest {}).await;
    found.unwrap().into_inner()
}

pub async fn a_node_has_a_limit(suite: &Suite) {
    let limit = node(suite).await.max_volumes_per_node;
    assert!(limit > 0);
    for number in 0..limit {
        let id = suite.create(&format!("attached-{number}")).await;
        suite.publish(suite.publish_request(&id, NODE)).await.unwrap();
    }
    let id = suite.create("one-more").await;
    refused(suite.publish(suite.publish_request(&id, NODE)).await, Code::ResourceExhausted);
}

pub async fn what_is_not_there_is_not_published(suite: &Suite) {
    let request = suite.publish_request(UNKNOWN, UNKNOWN_NODE);
    refused(suite.publish(request).await, Code::NotFound);
}

pub async fn there_is_no_such_node(suite: &Suite) {
    let request = CreateVolumeRequest { capacity_range: None, ..suite.request("wrong-node") };
    let id = suite.create_with(request).await.unwrap().volume_id;
    refused(suite.publish(suite.publish_request(&id, UNKNOWN_NODE)).await, Code::NotFound);
}

pub async fn another_way_is_in_conflict(suite: &Suite) {
    let id = suite.create("incompatible").await;
    let request = suite.publish_request(&id, NODE);
    suite.publish(request.clone()).await.unwrap();
    let read_only = ControllerPublishVolumeRequest { readonly: true, ..request };
    refused(suite.publish(read_only).await, Code::AlreadyExists);
}

/// Where it may be used is what the node says of itself.
async fn life(suite: &Suite, times: usize) {
    let here = node(suite).await;
    let requisite = vec![here.accessible_topology.clone().unwrap()];
    let request = CreateVolumeRequest {
        capacity_range: None,
        accessibility_requirements: Some(TopologyRequirement { requisite, preferred: vec![] }),
        ..suite.request("published")
    };
    let volume = suite.create_with(request).await.unwrap();
    for _ in 0..times {
        let request = ControllerPublishVolumeRequest {
            volume_context: volume.volume_context.clone(),
            ..suite.publish_request(&volume.volume_id, &here.node_id)
        };
        suite.publish(request).await.unwrap();
    }
}

pub async fn a_life(suite: &Suite) {
    life(suite, 1).await;
}

pub async fn ten_times_the_same(suite: &Suite) {
    life(suite, REPEATED).await;
}

pub async fn the_end_of_a_publication_needs_an_id(suite: &Suite) {
    refused(suite.unpublish("", "").await, Code::InvalidArgument);
}
