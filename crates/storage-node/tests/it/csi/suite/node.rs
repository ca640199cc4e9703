//! Staging, publishing, statistics and growth on the node.
use super::harness::{GROWN, REPEATED, SIZE, Suite, UNKNOWN, refused, secret};
use crate::csi::world::NODE;
use orrery_proto::csi::v1::{
    CapacityRange, ControllerExpandVolumeRequest, CreateVolumeRequest, NodeExpandVolumeRequest,
    NodeGetCapabilitiesRequest, NodeGetInfoRequest, NodeGetVolumeStatsRequest,
    NodeGetVolumeStatsResponse, NodePublishVolumeRequest, NodeStageVolumeRequest,
    TopologyRequirement,
    node_service_capability::{Type, rpc},
};
use std::{collections::HashMap, path::Path};
use tonic::{Code, Status};

pub async fn capabilities_are_known(suite: &Suite) {
    let request = NodeGetCapabilitiesRequest {};
    let found = suite.csi.node.clone().node_get_capabilities(request).await.unwrap();
    for capability in found.into_inner().capabilities {
        let Type::Rpc(found) = capability.r#type.expect("a capability has a type");
        assert_ne!(rpc::Type::try_from(found.r#type).unwrap(), rpc::Type::Unknown);
    }
}

pub async fn the_node_says_where_it_is(suite: &Suite) {
    let found = suite.csi.node.clone().node_get_info(NodeGetInfoRequest {}).await;
    let found = found.unwrap().into_inner();
    assert_eq!(found.node_id, NODE);
    assert!(found.max_volumes_per_node >= 0 && found.accessible_topology.is_some());
}

pub async fn publication_needs_its_arguments(suite: &Suite) {
    let whole = suite.node_publish_request(UNKNOWN);
    for part in [
        NodePublishVolumeRequest { secrets: secret(), ..Default::default() },
        NodePublishVolumeRequest { target_path: String::new(), ..whole.clone() },
        NodePublishVolumeRequest { volume_capability: None, ..whole.clone() },
    ] {
        refused(suite.csi.node_publish(part).await, Code::InvalidArgument);
    }
    refused(suite.csi.node_publish(whole).await, Code::NotFound);
}

pub async fn the_end_of_a_publication_needs_its_arguments(suite: &Suite) {
    refused(suite.node_unpublish("", "").await, Code::InvalidArgument);
    refused(suite.node_unpublish("", &suite.target()).await, Code::InvalidArgument);
    refused(suite.node_unpublish(UNKNOWN, "").await, Code::InvalidArgument);
}

pub async fn the_target_is_made_and_removed(suite: &Suite) {
    let id = suite.create("shown").await;
    suite.bring(&id, 1).await;
    let target = suite.target();
    assert!(Path::new(&target).exists());
    suite.node_unpublish(&id, &target).await.unwrap();
    assert!(!Path::new(&target).exists());
}

pub async fn staging_needs_its_arguments(suite: &Suite) {
    let device = HashMap::from([("device".to_owned(), "/dev/mock".to_owned())]);
    let whole = NodeStageVolumeRequest { publish_context: device, ..suite.stage_request(UNKNOWN) };
    for part in [
        NodeStageVolumeRequest { volume_id: String::new(), ..whole.clone() },
        NodeStageVolumeRequest { staging_target_path: String::new(), ..whole.clone() },
    ] {
        refused(suite.csi.stage(part).await, Code::InvalidArgument);
    }
    refused(suite.csi.stage(whole).await, Code::NotFound);
}

pub async fn staging_needs_a_use(suite: &Suite) {
    let id = suite.create("unused").await;
    let request = NodeStageVolumeRequest { volume_capability: None, ..suite.stage_request(&id) };
    refused(suite.csi.stage(request).await, Code::InvalidArgument);
}

pub async fn unstaging_needs_its_arguments(suite: &Suite) {
    refused(suite.unstage("", &suite.staging()).await, Code::InvalidArgument);
    refused(suite.unstage(UNKNOWN, "").await, Code::InvalidArgument);
}

async fn stats(suite: &Suite, id: &str, path: &str) -> Result<NodeGetVolumeStatsResponse, Status> {
    let request = NodeGetVolumeStatsRequest {
        volume_id: id.to_owned(),
        volume_path: path.to_owned(),
        ..Default::default()
    };
    Ok(suite.csi.node.clone().node_get_volume_stats(request).await?.into_inner())
}

pub async fn stats_need_their_arguments(suite: &Suite) {
    refused(stats(suite, "", "some/path").await, Code::InvalidArgument);
    refused(stats(suite, UNKNOWN, "").await, Code::InvalidArgument);
}

pub async fn what_is_not_there_has_no_stats(suite: &Suite) {
    refused(stats(suite, UNKNOWN, "some/path").await, Code::NotFound);
}

pub async fn a_path_without_the_volume_has_no_stats(suite: &Suite) {
    let id = suite.create("elsewhere").await;
    suite.bring(&id, 1).await;
    refused(stats(suite, &id, "some/path").await, Code::NotFound);
    refused(stats(suite, &id, "/").await, Code::NotFound);
}

async fn expand(suite: &Suite, id: &str, path: &str) -> Result<i64, Status> {
    let request = NodeExpandVolumeRequest {
        volume_id: id.to_owned(),
        volume_path: path.to_owned(),
        capacity_range: Some(CapacityRange { required_bytes: GROWN, limit_bytes: 0 }),
        ..Default::default()
    };
    let found = suite.csi.node.clone().node_expand_volume(request).await?;
    Ok(found.into_inner().capacity_bytes)
}

pub async fn expansion_needs_its_arguments(suite: &Suite) {
    refused(expand(suite, "", &suite.target()).await, Code::InvalidArgument);
    let id = suite.create("pathless").await;
    refused(expand(suite, &id, "").await, Code::InvalidArgument);
}

pub async fn what_is_not_there_does_not_grow(suite: &Suite) {
    refused(expand(suite, UNKNOWN, "some/path").await, Code::NotFound);
}

/// The controller is not told what the volume is used for, and grows it all the same.
pub async fn a_grown_volume_is_published_and_expanded(suite: &Suite) {
    let id = suite.create("grown").await;
    let request = ControllerExpandVolumeRequest {
        volume_id: id.clone(),
        capacity_range: Some(CapacityRange { required_bytes: GROWN, limit_bytes: 0 }),
        secrets: secret(),
        volume_capability: None,
    };
    let grown = suite.csi.controller.clone().controller_expand_volume(request).await;
    assert_eq!(grown.unwrap().into_inner().capacity_bytes, GROWN);
    suite.bring(&id, 1).await;
    assert_eq!(expand(suite, &id, &suite.target()).await.unwrap(), GROWN);
}

async fn life(suite: &Suite, times: usize) {
    let here = suite.csi.node.clone().node_get_info(NodeGetInfoRequest {}).await;
    let requisite = vec![here.unwrap().into_inner().accessible_topology.unwrap()];
    let request = CreateVolumeRequest {
        accessibility_requirements: Some(TopologyRequirement { requisite, preferred: vec![] }),
        ..suite.request("full")
    };
    let id = suite.create_with(request).await.unwrap().volume_id;
    suite.bring(&id, times).await;
    let usage = stats(suite, &id, &suite.target()).await.unwrap().usage;
    assert!(usage.iter().any(|usage| usage.total > 0 && usage.total <= SIZE), "{usage:?}");
}

pub async fn a_life(suite: &Suite) {
    life(suite, 1).await;
}

pub async fn ten_times_the_same(suite: &Suite) {
    life(suite, REPEATED).await;
}
