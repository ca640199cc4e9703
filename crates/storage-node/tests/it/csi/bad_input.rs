//! What the machine or the controller does not give.
use super::world::{Far, NODE, SIZE, csi_with, start};
use crate::qemu::{Daemon, volumes};
use crate::world::{Disk, code};
use orrery_proto::csi::v1::{
    CapacityRange, CreateVolumeRequest, ListVolumesRequest, NodePublishVolumeRequest,
};
use orrery_storage_node::backend::qemu::Export;
use std::{sync::Arc, time::Duration};
use tonic::Code;

/// An NBD export is no device of this machine, and never becomes one.
///
/// proves: VOL-08
#[tokio::test]
async fn a_device_that_never_appears_has_a_deadline_and_the_call_says_what_was_waited_for() {
    let disk = Disk::new();
    let _daemon = Daemon::start(disk.folder.path()).await;
    let socket = disk.folder.path().join("nbd.sock");
    let pool = volumes(disk.folder.path(), Export::Nbd { socket }).await;
    let csi = start(disk, pool, |mut config| {
        config.device_timeout = Duration::from_millis(300);
        config
    });
    let id = csi.create("a").await.volume_id;
    csi.controller.clone().controller_publish_volume(csi.publish_request(&id)).await.unwrap();
    for _ in 0..2 {
        let status = csi.stage(csi.stage_request(&id)).await.unwrap_err();
        assert_eq!(status.code(), Code::DeadlineExceeded, "{status}");
        let said = status.message();
        assert!(said.contains("/sys/dev/block") && said.contains(&id), "{said}");
    }
    let refused = csi.node_publish(csi.node_publish_request(&id)).await;
    assert_eq!(code(refused), Code::FailedPrecondition, "it is not staged");
    csi.unstage(&id).await.unwrap();
}

/// proves: VOL-08
#[tokio::test]
async fn one_device_too_many_is_refused_and_nothing_is_half_done() {
    let disk = Disk::new();
    let pool = Arc::new(disk.volumes(Some(1)).await);
    let csi = start(disk, pool, |config| config);
    let (a, b) = (csi.create("a").await.volume_id, csi.create("b").await.volume_id);
    csi.stage(csi.stage_request(&a)).await.unwrap();
    let mut other = csi.stage_request(&b);
    other.staging_target_path.push_str("-b");
    assert_eq!(code(csi.stage(other.clone()).await), Code::ResourceExhausted);
    assert_eq!(csi.disk.devices().len(), 1);
    assert!(!std::path::Path::new(&other.staging_target_path).exists());
    csi.unstage(&a).await.unwrap();
    csi.stage(other.clone()).await.unwrap();
    let publish = NodePublishVolumeRequest {
        staging_target_path: other.staging_target_path.clone(),
        ..csi.node_publish_request(&b)
    };
    csi.node_publish(publish).await.unwrap();
    csi.unpublish(&b).await.unwrap();
}

/// proves: VOL-08
#[tokio::test]
async fn a_controller_that_is_gone_is_unavailable_and_its_volumes_are_found_again() {
    let disk = Disk::new();
    let far = Far::start(&disk).await;
    far.register().await;
    let csi = start(disk, far.pool(), |config| config);
    let id = csi.create("a").await.volume_id;
    csi.stage(csi.stage_request(&id)).await.unwrap();
    let far = far.stop_controller();
    let status = csi.node_publish(csi.node_publish_request(&id)).await.unwrap_err();
    assert_eq!(status.code(), Code::Unavailable, "{status}");
    assert!(status.message().contains(NODE), "{status}");
    let list = csi.controller.clone().list_volumes(ListVolumesRequest::default()).await;
    assert_eq!(code(list), Code::Unavailable);

    let far = far.start_controller(&csi.disk).await;
    far.register().await;
    csi.node_publish(csi.node_publish_request(&id)).await.unwrap();
    csi.unpublish(&id).await.unwrap();
    csi.unstage(&id).await.unwrap();
}

/// proves: VOL-08
#[tokio::test]
async fn more_than_there_is_room_for_is_refused_and_nothing_is_made() {
    let csi = csi_with(|config| config).await;
    let free = rustix::fs::statvfs(csi.disk.folder.path()).unwrap();
    let free = i64::try_from(free.f_bavail * free.f_frsize).unwrap();
    // More than is free, and less than there is altogether, where that is possible.
    let range = |required_bytes| Some(CapacityRange { required_bytes, limit_bytes: 0 });
    for bytes in [free + (64 << 20), 1 << 60] {
        let request =
            CreateVolumeRequest { capacity_range: range(bytes), ..super::world::new_volume("a") };
        let found = code(csi.create_with(request).await);
        assert!(matches!(found, Code::ResourceExhausted | Code::OutOfRange), "{bytes}: {found:?}");
    }
    let list = csi.controller.clone().list_volumes(ListVolumesRequest::default()).await.unwrap();
    assert_eq!(list.into_inner().entries, []);
    assert_eq!(csi.create("a").await.capacity_bytes, SIZE);
}
