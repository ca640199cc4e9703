//! The driver on a controller that it reaches through the registry's proxy.
use super::world::{Far, start};
use crate::world::{Disk, code};
use orrery_proto::csi::v1::ProbeRequest;
use std::fs;
use tonic::Code;

/// proves: VOL-03
/// proves: VOL-08
#[tokio::test]
async fn a_volume_is_used_through_the_proxy_from_beginning_to_end() {
    let disk = Disk::new();
    let far = Far::start(&disk).await;
    let csi = start(disk, far.pool(), |config| config);

    let probe = csi.identity.clone().probe(ProbeRequest {}).await;
    assert_eq!(code(probe), Code::FailedPrecondition, "the controller is not registered yet");
    let request = super::world::new_volume("a");
    assert_eq!(code(csi.create_with(request).await), Code::Unavailable);
    far.register().await;

    let id = csi.create("a").await.volume_id;
    assert_eq!(csi.create("a").await.volume_id, id);
    csi.controller.clone().controller_publish_volume(csi.publish_request(&id)).await.unwrap();
    csi.stage(csi.stage_request(&id)).await.unwrap();
    csi.node_publish(csi.node_publish_request(&id)).await.unwrap();
    fs::write(csi.target().join("file"), "far away").unwrap();
    csi.unpublish(&id).await.unwrap();
    csi.unstage(&id).await.unwrap();
    csi.stage(csi.stage_request(&id)).await.unwrap();
    assert_eq!(fs::read_to_string(csi.staging().join("file")).unwrap(), "far away");
    csi.unstage(&id).await.unwrap();
    assert_eq!(
        code(csi.stage(csi.stage_request("vol-00000000000000000000000000000000")).await),
        Code::NotFound
    );
}
