//! The driver on a controller that it reaches through the registry's proxy.
use super::world::{NODE, start};
use crate::world::{Disk, code, controller};
use orrery_proto::oim::v0::{RegisterControllerRequest, registry_client::RegistryClient};
use orrery_storage_node::service::{Endpoint, RemotePool};
use orrery_volumes::{MemoryDirectory, ServeConfig, serve};
use std::{fs, sync::Arc};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use tonic::Code;

/// proves: VOL-03
/// proves: VOL-08
#[tokio::test]
async fn a_volume_is_used_through_the_proxy_from_beginning_to_end() {
    let disk = Disk::new();
    let controller = controller(&disk, None).await;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let registry = Endpoint::new(&listener.local_addr().unwrap().to_string(), None);
    let stop = CancellationToken::new();
    let _stopped = stop.clone().drop_guard();
    let directory = Arc::new(MemoryDirectory::default());
    tokio::spawn(serve(listener, ServeConfig::default(), directory, stop));
    let pool = Arc::new(RemotePool::new(&registry, NODE).unwrap());
    let csi = start(disk, pool, |config| config);

    let probe = csi.identity.clone().probe(orrery_proto::csi::v1::ProbeRequest {}).await;
    assert_eq!(code(probe), Code::FailedPrecondition, "the controller is not registered yet");
    let request = super::world::new_volume("a");
    assert_eq!(code(csi.create_with(request).await), Code::Unavailable);
    let entry = RegisterControllerRequest {
        controller_id: NODE.into(),
        address: controller.address.clone(),
        ..RegisterControllerRequest::default()
    };
    RegistryClient::new(registry.channel()).register_controller(entry).await.unwrap();

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
