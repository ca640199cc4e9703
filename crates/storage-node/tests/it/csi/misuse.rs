//! Calls that would harm what is there, or leave something behind.
use super::world::{block, csi, mount_as};
use crate::world::code;
use orrery_proto::csi::v1::{
    NodePublishVolumeRequest, NodeStageVolumeRequest, NodeUnpublishVolumeRequest,
    volume_capability::access_mode::Mode,
};
use std::fs;
use tonic::Code;

/// Two that write to one device without knowing of each other destroy what is on it.
/// proves: VOL-08
#[tokio::test]
async fn a_volume_is_a_file_system_or_a_block_device_but_never_both_at_once() {
    let csi = csi().await;
    let id = csi.create("a").await.volume_id;
    let raw = Some(block(Mode::SingleNodeWriter));
    csi.stage(csi.stage_request(&id)).await.unwrap();
    let as_block =
        NodeStageVolumeRequest { volume_capability: raw.clone(), ..csi.stage_request(&id) };
    assert_eq!(code(csi.stage(as_block.clone()).await), Code::AlreadyExists);
    let shown =
        NodePublishVolumeRequest { volume_capability: raw, ..csi.node_publish_request(&id) };
    assert_eq!(code(csi.node_publish(shown.clone()).await), Code::AlreadyExists);
    assert!(!csi.target().exists(), "nothing is left of what was refused");
    csi.unstage(&id).await.unwrap();

    csi.stage(as_block).await.unwrap();
    csi.node_publish(shown).await.unwrap();
    assert_eq!(code(csi.stage(csi.stage_request(&id)).await), Code::FailedPrecondition);
    csi.unpublish(&id).await.unwrap();
    csi.stage(csi.stage_request(&id)).await.unwrap();
}

/// proves: VOL-08
#[tokio::test]
async fn a_staged_volume_is_staged_again_in_the_same_way_only() {
    let csi = csi().await;
    let id = csi.create("a").await.volume_id;
    csi.stage(csi.stage_request(&id)).await.unwrap();
    let reader = Some(mount_as("", Mode::SingleNodeReaderOnly));
    let reader = NodeStageVolumeRequest { volume_capability: reader, ..csi.stage_request(&id) };
    assert_eq!(code(csi.stage(reader.clone()).await), Code::AlreadyExists);
    csi.unstage(&id).await.unwrap();
    csi.stage(reader.clone()).await.unwrap();
    csi.stage(reader).await.unwrap();
    assert_eq!(code(csi.stage(csi.stage_request(&id)).await), Code::AlreadyExists);
}

/// Whoever is refused does not unstage, so the volume must not keep a device that nobody takes away.
/// proves: VOL-08
#[tokio::test]
async fn a_volume_that_could_not_be_staged_can_be_deleted() {
    let csi = csi().await;
    let (a, b) = (csi.create("a").await.volume_id, csi.create("b").await.volume_id);
    csi.stage(csi.stage_request(&a)).await.unwrap();
    assert_eq!(code(csi.stage(csi.stage_request(&b)).await), Code::AlreadyExists);
    assert_eq!(csi.disk.devices().len(), 1);
    csi.delete(&b).await.unwrap();
    assert_eq!(code(csi.delete(&a).await), Code::FailedPrecondition, "this one is in use");
}

/// proves: VOL-08
#[tokio::test]
async fn unpublishing_removes_nothing_but_what_publishing_made() {
    let csi = csi().await;
    let id = csi.create("a").await.volume_id;
    let precious = csi.disk.folder.path().join("precious");
    fs::write(&precious, "data").unwrap();
    let request = NodeUnpublishVolumeRequest {
        volume_id: id,
        target_path: precious.to_str().unwrap().to_owned(),
    };
    let refused = csi.node.clone().node_unpublish_volume(request).await;
    assert_eq!(code(refused), Code::FailedPrecondition);
    assert_eq!(fs::read_to_string(&precious).unwrap(), "data");
}
