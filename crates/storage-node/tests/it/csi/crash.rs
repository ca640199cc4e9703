//! A driver that dies between any two steps, and comes back.
use super::world::{csi, start};
use crate::world::{Disk, code};
use orrery_proto::csi::v1::ControllerPublishVolumeRequest;
use std::{fs, sync::Arc};
use tonic::Code;

/// Stops the driver and its controller, and starts others on the same disk.
async fn restart(csi: super::world::Csi) -> super::world::Csi {
    drop(csi.stop);
    let disk: Disk = csi.disk;
    let pool = Arc::new(disk.volumes(None).await);
    start(disk, pool, |config| config)
}

/// proves: VOL-08
#[tokio::test]
async fn every_step_is_remembered_by_the_disk_or_the_kernel() {
    let mut csi = csi().await;
    let volume = csi.create("a").await;
    let id = volume.volume_id.clone();
    csi = restart(csi).await;
    assert_eq!(csi.create("a").await, volume);
    let publish = csi.publish_request(&id);
    csi.controller.clone().controller_publish_volume(publish.clone()).await.unwrap();
    csi = restart(csi).await;
    let other = ControllerPublishVolumeRequest { readonly: true, ..publish };
    assert_eq!(
        code(csi.controller.clone().controller_publish_volume(other).await),
        Code::AlreadyExists
    );
    csi.stage(csi.stage_request(&id)).await.unwrap();
    csi = restart(csi).await;
    csi.stage(csi.stage_request(&id)).await.unwrap();
    csi.node_publish(csi.node_publish_request(&id)).await.unwrap();
    csi = restart(csi).await;
    csi.node_publish(csi.node_publish_request(&id)).await.unwrap();
    fs::write(csi.target().join("file"), "kept").unwrap();
    csi.unpublish(&id).await.unwrap();
    csi = restart(csi).await;
    csi.unpublish(&id).await.unwrap();
    assert_eq!(fs::read_to_string(csi.staging().join("file")).unwrap(), "kept");
    csi.unstage(&id).await.unwrap();
    csi = restart(csi).await;
    csi.unstage(&id).await.unwrap();
    assert_eq!(csi.disk.devices().len(), 0);
}

/// The label is written before formatting starts and removed before the first mount, so with it on the
/// disk there can only be the remains of our own formatting.
/// proves: VOL-08
#[tokio::test]
async fn a_crash_in_the_middle_of_formatting_is_made_good() {
    let mut csi = csi().await;
    let id = csi.create("a").await.volume_id;
    let entry = csi.disk.folder.path().join(format!("books/volumes/{id}.json"));
    let text = fs::read_to_string(&entry).unwrap();
    fs::write(&entry, text.replace("\"csi.name\"", "\"csi.formatting\": \"ext4\", \"csi.name\""))
        .unwrap();
    let image = csi.disk.images().join(format!("{id}.img"));
    use std::os::unix::fs::FileExt;
    fs::OpenOptions::new()
        .write(true)
        .open(image)
        .unwrap()
        .write_all_at(b"half an ext4", 2048)
        .unwrap();
    csi = restart(csi).await;
    csi.stage(csi.stage_request(&id)).await.unwrap();
    assert!(csi.staging().join("lost+found").exists());
    assert!(!fs::read_to_string(&entry).unwrap().contains("formatting"));
    csi.unstage(&id).await.unwrap();
}

/// Two mounts of the same path by two callers at once do not stack up.
#[tokio::test]
async fn concurrent_calls_for_one_volume_take_turns() {
    let csi = csi().await;
    let id = csi.create("a").await.volume_id;
    let stage = || csi.stage(csi.stage_request(&id));
    let results = futures::future::join_all((0..8).map(|_| stage())).await;
    assert!(results.iter().all(Result::is_ok), "{results:?}");
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap();
    let place = csi.staging().to_str().unwrap().to_owned();
    assert_eq!(mounts.lines().filter(|line| line.contains(&place)).count(), 1);
    csi.unstage(&id).await.unwrap();
}
