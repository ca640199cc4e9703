//! The driver on a controller that it reaches through the registry's proxy.
use super::world::{Far, NODE, new_volume, start};
use crate::world::{Disk, code};
use orrery_proto::csi::v1::ProbeRequest;
use orrery_storage_node::service::{Endpoint, RemotePool};
use std::{fs, sync::Arc};
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
    let request = new_volume("a");
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

/// People read these words; what a library calls its errors helps nobody.
#[tokio::test]
async fn who_is_away_is_said_in_words() {
    let disk = Disk::new();
    let far = Far::start(&disk).await;
    let csi = start(disk, far.pool(), |config| config);
    let said = csi.create_with(new_volume("a")).await.unwrap_err();
    let begins = "the storage controller cannot be asked: ";
    assert!(said.message().starts_with(begins), "{}", said.message());
    assert!(!said.message().contains("code:"), "{}", said.message());

    // No process listens on this port of ours.
    let nobody = RemotePool::new(&Endpoint::new("127.0.0.1:1", None), NODE).unwrap();
    let csi = start(Disk::new(), Arc::new(nobody), |config| config);
    let said = csi.create_with(new_volume("a")).await.unwrap_err();
    assert_eq!(said.code(), Code::Unavailable);
    let expect = "the storage registry cannot be reached: Connection refused (os error 111)";
    assert_eq!(said.message(), expect);
}
