//! `csi.v1.Node`, with real devices, file systems and mounts.
use super::world::{Csi, NODE, SIZE, block, csi, csi_with, mount, mount_as, new_volume};
use crate::world::{code, run};
use orrery_proto::csi::v1::{
    CapacityRange, ControllerExpandVolumeRequest, CreateVolumeRequest, NodeExpandVolumeRequest,
    NodeGetCapabilitiesRequest, NodeGetInfoRequest, NodeGetVolumeStatsRequest,
    NodeGetVolumeStatsResponse, NodePublishVolumeRequest, NodeStageVolumeRequest,
    NodeUnpublishVolumeRequest, NodeUnstageVolumeRequest, volume_capability::access_mode::Mode,
};
use std::{
    fs,
    os::unix::fs::{FileExt, FileTypeExt},
    path::Path,
};
use tonic::{
    Code::{AlreadyExists, FailedPrecondition, InvalidArgument, NotFound, Ok, OutOfRange},
    Status,
};

const UNKNOWN: &str = "vol-00000000000000000000000000000000";

/// proves: VOL-08
#[tokio::test]
async fn the_node_says_who_it_is() {
    let csi = csi_with(|mut config| {
        config.volumes_max = 7;
        config
    })
    .await;
    let info = csi.node.clone().node_get_info(NodeGetInfoRequest {}).await.unwrap().into_inner();
    assert_eq!((info.node_id.as_str(), info.max_volumes_per_node), (NODE, 7));
    assert_eq!(info.accessible_topology.unwrap().segments["storage.orrery.dev/node"], NODE);
    let found =
        csi.node.clone().node_get_capabilities(NodeGetCapabilitiesRequest {}).await.unwrap();
    assert_eq!(found.into_inner().capabilities.len(), 5);
}

/// proves: VOL-08
#[tokio::test]
async fn a_file_system_is_staged_published_and_taken_away_and_keeps_its_files() {
    let csi = csi().await;
    let id = csi.create("a").await.volume_id;
    for round in ["first", "second"] {
        for _ in 0..2 {
            csi.stage(csi.stage_request(&id)).await.unwrap();
        }
        for _ in 0..2 {
            csi.node_publish(csi.node_publish_request(&id)).await.unwrap();
        }
        let file = csi.target().join("file");
        if round == "second" {
            assert_eq!(fs::read_to_string(&file).unwrap(), "first", "formatted once, not twice");
        }
        fs::write(&file, round).unwrap();
        assert_eq!(code(csi.unstage(&id).await), FailedPrecondition, "it is still published");
        for _ in 0..2 {
            csi.unpublish(&id).await.unwrap();
        }
        assert!(!csi.target().exists(), "the target is removed");
        for _ in 0..2 {
            csi.unstage(&id).await.unwrap();
        }
        assert_eq!(csi.disk.devices().len(), 0, "no device is left");
    }
    csi.delete(&id).await.unwrap();
}

/// proves: VOL-08
#[tokio::test]
async fn a_block_device_is_published_as_such() {
    let csi = csi().await;
    let raw = Some(block(Mode::SingleNodeMultiWriter));
    let id = csi.create("a").await.volume_id;
    let stage = NodeStageVolumeRequest { volume_capability: raw.clone(), ..csi.stage_request(&id) };
    csi.stage(stage).await.unwrap();
    let publish = || NodePublishVolumeRequest {
        volume_capability: raw.clone(),
        ..csi.node_publish_request(&id)
    };
    for _ in 0..2 {
        csi.node_publish(publish()).await.unwrap();
    }
    let target = csi.target();
    assert!(fs::metadata(&target).unwrap().file_type().is_block_device());
    let device = fs::OpenOptions::new().write(true).open(&target).unwrap();
    device.write_all_at(b"raw", 1 << 20).unwrap();
    drop(device);
    let second = target.with_file_name("second").to_str().unwrap().to_owned();
    csi.node_publish(NodePublishVolumeRequest { target_path: second.clone(), ..publish() })
        .await
        .unwrap();
    let reader = NodePublishVolumeRequest { readonly: true, ..publish() };
    assert_eq!(code(csi.node_publish(reader.clone()).await), AlreadyExists);
    let unpublish = NodeUnpublishVolumeRequest { volume_id: id.clone(), target_path: second };
    csi.node.clone().node_unpublish_volume(unpublish).await.unwrap();
    csi.unpublish(&id).await.unwrap();
    assert!(!target.exists());

    csi.node_publish(reader).await.unwrap();
    let refused = fs::OpenOptions::new()
        .write(true)
        .open(&target)
        .map(|file| file.write_all_at(b"no", 0).and_then(|()| file.sync_all()));
    assert!(!matches!(refused, Result::Ok(Result::Ok(()))), "a read-only device was written to");
    csi.unpublish(&id).await.unwrap();
    csi.unstage(&id).await.unwrap();

    let status = csi.stage(csi.stage_request(&id)).await.unwrap_err();
    assert_eq!(status.code(), FailedPrecondition, "raw data is not formatted away: {status}");
}

/// proves: VOL-08
#[tokio::test]
async fn what_carries_anything_is_not_formatted() {
    let csi = csi().await;
    let id = csi.create("a").await.volume_id;
    let image = csi.disk.images().join(format!("{id}.img"));
    let file = fs::OpenOptions::new().write(true).open(&image).unwrap();
    let stage = || csi.stage_request(&id);
    let refused = async |what: &str| {
        let status = csi.stage(stage()).await.unwrap_err();
        assert_eq!(status.code(), FailedPrecondition, "{what}: {status}");
        assert!(!csi.staging().join("lost+found").exists());
        csi.unstage(&id).await.unwrap();
    };
    file.write_all_at(b"something", 4096).unwrap();
    refused("unknown data at the start").await;
    file.write_all_at(&[0; 9], 4096).unwrap();
    file.write_all_at(b"something", u64::try_from(SIZE).unwrap() - 4096).unwrap();
    refused("unknown data at the end").await;
    file.write_all_at(&[0; 9], u64::try_from(SIZE).unwrap() - 4096).unwrap();
    file.write_all_at(&[0x55, 0xaa], 510).unwrap();
    file.write_all_at(&[0x80, 0, 1, 0, 0x83, 0, 2, 0, 8, 0, 0, 0, 8, 0, 0, 0], 446).unwrap();
    refused("a partition table").await;
    file.set_len(0).unwrap();
    file.set_len(u64::try_from(SIZE).unwrap()).unwrap();
    run("mkfs.ext2", &["-q", "-F", image.to_str().unwrap()]);
    let wanted = NodeStageVolumeRequest {
        volume_capability: Some(mount_as("ext4", Mode::SingleNodeWriter)),
        ..stage()
    };
    assert_eq!(code(csi.stage(wanted).await), FailedPrecondition, "another file system");
    csi.stage(stage()).await.unwrap();
    assert!(
        csi.staging().join("lost+found").exists(),
        "what is there is used if nothing is chosen"
    );
    csi.unstage(&id).await.unwrap();
}

/// proves: VOL-08
#[tokio::test]
async fn stage_and_unstage_check_their_arguments() {
    let csi = csi().await;
    let id = csi.create("a").await.volume_id;
    let good = || csi.stage_request(&id);
    for (request, expect) in [
        (NodeStageVolumeRequest { volume_id: String::new(), ..good() }, InvalidArgument),
        (NodeStageVolumeRequest { staging_target_path: String::new(), ..good() }, InvalidArgument),
        (
            NodeStageVolumeRequest { staging_target_path: "some/path".into(), ..good() },
            InvalidArgument,
        ),
        (NodeStageVolumeRequest { volume_capability: None, ..good() }, InvalidArgument),
        (
            NodeStageVolumeRequest {
                volume_capability: Some(mount_as("ntfs", Mode::SingleNodeWriter)),
                ..good()
            },
            InvalidArgument,
        ),
        (NodeStageVolumeRequest { volume_id: UNKNOWN.into(), ..good() }, NotFound),
        (NodeStageVolumeRequest { volume_id: "fake".into(), ..good() }, NotFound),
    ] {
        assert_eq!(code(csi.stage(request.clone()).await), expect, "{request:?}");
    }
    assert_eq!(code(csi.unstage("").await), InvalidArgument);
    assert_eq!(code(csi.unstage(UNKNOWN).await), NotFound);
    let no_path = NodeUnstageVolumeRequest { volume_id: id.clone(), ..Default::default() };
    assert_eq!(code(csi.node.clone().node_unstage_volume(no_path).await), InvalidArgument);

    // Something else is in the way at the staging path.
    let other = csi.create("b").await.volume_id;
    csi.stage(csi.stage_request(&other)).await.unwrap();
    assert_eq!(code(csi.stage(good()).await), AlreadyExists);
    assert_eq!(code(csi.unstage(&id).await), FailedPrecondition, "not its mount");
    csi.unstage(&other).await.unwrap();
    csi.unstage(&id).await.unwrap();
}

/// proves: VOL-08
#[tokio::test]
async fn publish_and_unpublish_check_their_arguments() {
    let csi = csi().await;
    let id = csi.create("a").await.volume_id;
    let good = || csi.node_publish_request(&id);
    assert_eq!(code(csi.node_publish(good()).await), FailedPrecondition, "not staged");
    csi.stage(csi.stage_request(&id)).await.unwrap();
    let second = csi.target().with_file_name("second").to_str().unwrap().to_owned();
    let cases = [
        (NodePublishVolumeRequest { volume_id: String::new(), ..good() }, InvalidArgument),
        (NodePublishVolumeRequest { target_path: String::new(), ..good() }, InvalidArgument),
        (NodePublishVolumeRequest { target_path: "some/path".into(), ..good() }, InvalidArgument),
        (NodePublishVolumeRequest { volume_capability: None, ..good() }, InvalidArgument),
        (NodePublishVolumeRequest { volume_id: UNKNOWN.into(), ..good() }, NotFound),
        (
            NodePublishVolumeRequest { staging_target_path: String::new(), ..good() },
            FailedPrecondition,
        ),
        (
            NodePublishVolumeRequest { staging_target_path: "/nowhere".into(), ..good() },
            FailedPrecondition,
        ),
        (good(), Ok),
        (good(), Ok),
        (NodePublishVolumeRequest { readonly: true, ..good() }, AlreadyExists),
        (NodePublishVolumeRequest { target_path: second, ..good() }, FailedPrecondition),
    ];
    for (request, expect) in cases {
        assert_eq!(code(csi.node_publish(request.clone()).await), expect, "{request:?}");
    }
    assert_eq!(code(csi.unpublish("").await), InvalidArgument);
    assert_eq!(code(csi.unpublish(UNKNOWN).await), NotFound);
    let no_path = NodeUnpublishVolumeRequest { volume_id: id.clone(), ..Default::default() };
    assert_eq!(code(csi.node.clone().node_unpublish_volume(no_path).await), InvalidArgument);
    let root = NodeUnpublishVolumeRequest { volume_id: id.clone(), target_path: "/proc".into() };
    assert_eq!(code(csi.node.clone().node_unpublish_volume(root).await), FailedPrecondition);
    csi.unpublish(&id).await.unwrap();
    csi.unstage(&id).await.unwrap();
}

/// proves: VOL-08
#[tokio::test]
async fn read_only_and_shared_publications() {
    let csi = csi().await;
    let shared = mount_as("", Mode::SingleNodeMultiWriter);
    let id = csi.create("a").await.volume_id;
    let stage = NodeStageVolumeRequest {
        volume_capability: Some(shared.clone()),
        ..csi.stage_request(&id)
    };
    csi.stage(stage).await.unwrap();
    let good = || NodePublishVolumeRequest {
        volume_capability: Some(shared.clone()),
        ..csi.node_publish_request(&id)
    };
    let second = csi.target().with_file_name("second");
    let reader = NodePublishVolumeRequest {
        target_path: second.to_str().unwrap().to_owned(),
        readonly: true,
        ..good()
    };
    csi.node_publish(good()).await.unwrap();
    csi.node_publish(reader.clone()).await.unwrap();
    csi.node_publish(reader.clone()).await.unwrap();
    fs::write(csi.target().join("file"), "shared").unwrap();
    assert_eq!(fs::read_to_string(second.join("file")).unwrap(), "shared");
    assert!(fs::write(second.join("other"), "").is_err(), "it is read-only");
    let unpublish =
        NodeUnpublishVolumeRequest { volume_id: id.clone(), target_path: reader.target_path };
    csi.node.clone().node_unpublish_volume(unpublish).await.unwrap();
    csi.unpublish(&id).await.unwrap();
    csi.unstage(&id).await.unwrap();
}

async fn stats(csi: &Csi, id: &str, path: &Path) -> Result<NodeGetVolumeStatsResponse, Status> {
    let request = NodeGetVolumeStatsRequest {
        volume_id: id.into(),
        volume_path: path.to_str().unwrap().into(),
        ..Default::default()
    };
    Result::Ok(csi.node.clone().node_get_volume_stats(request).await?.into_inner())
}

/// proves: VOL-08
#[tokio::test]
async fn stats_and_condition() {
    let csi = csi().await;
    let id = csi.create("a").await.volume_id;
    let target = csi.target();
    assert_eq!(code(stats(&csi, "", &target).await), InvalidArgument);
    assert_eq!(code(stats(&csi, &id, Path::new("")).await), InvalidArgument);
    assert_eq!(code(stats(&csi, UNKNOWN, Path::new("some/path")).await), NotFound);
    assert_eq!(code(stats(&csi, &id, &target).await), NotFound, "not published");
    csi.stage(csi.stage_request(&id)).await.unwrap();
    csi.node_publish(csi.node_publish_request(&id)).await.unwrap();
    assert_eq!(code(stats(&csi, &id, Path::new("some/path")).await), NotFound);
    assert_eq!(code(stats(&csi, &id, Path::new("/proc")).await), NotFound);
    let found = stats(&csi, &id, &target).await.unwrap();
    let (bytes, inodes) = (found.usage[0], found.usage[1]);
    assert!(bytes.total > SIZE / 2 && bytes.total < SIZE, "{bytes:?}");
    assert!(bytes.available > SIZE / 2 && bytes.used + bytes.available <= bytes.total, "{bytes:?}");
    assert!(inodes.used > 0 && inodes.unit == 2, "{inodes:?}");
    assert!(!found.volume_condition.unwrap().abnormal);
    fs::remove_file(csi.disk.images().join(format!("{id}.img"))).unwrap();
    let condition = stats(&csi, &id, &target).await.unwrap().volume_condition.unwrap();
    assert!(condition.abnormal, "{condition:?}");
    csi.unpublish(&id).await.unwrap();
    csi.unstage(&id).await.unwrap();

    let raw = Some(block(Mode::SingleNodeWriter));
    let id = csi.create("b").await.volume_id;
    let stage = NodeStageVolumeRequest { volume_capability: raw.clone(), ..csi.stage_request(&id) };
    csi.stage(stage).await.unwrap();
    let publish =
        NodePublishVolumeRequest { volume_capability: raw, ..csi.node_publish_request(&id) };
    csi.node_publish(publish).await.unwrap();
    assert_eq!(stats(&csi, &id, &target).await.unwrap().usage[0].total, SIZE);
    csi.unpublish(&id).await.unwrap();
    csi.unstage(&id).await.unwrap();
}

/// proves: VOL-08
#[tokio::test]
async fn a_file_system_grows_while_it_is_used() {
    let csi = csi().await;
    let id = csi.create("a").await.volume_id;
    let target = csi.target();
    let grow = |volume_id: &str, volume_path: &str, required_bytes| NodeExpandVolumeRequest {
        volume_id: volume_id.into(),
        volume_path: volume_path.into(),
        capacity_range: Some(CapacityRange { required_bytes, limit_bytes: 0 }),
        ..Default::default()
    };
    let expand = async |request| csi.node.clone().node_expand_volume(request).await;
    let path = target.to_str().unwrap();
    assert_eq!(code(expand(grow("", path, SIZE)).await), InvalidArgument);
    assert_eq!(code(expand(grow(&id, "", SIZE)).await), InvalidArgument);
    assert_eq!(code(expand(grow(UNKNOWN, "some/path", SIZE)).await), NotFound);
    assert_eq!(code(expand(grow(&id, path, SIZE)).await), NotFound, "not published");
    csi.stage(csi.stage_request(&id)).await.unwrap();
    csi.node_publish(csi.node_publish_request(&id)).await.unwrap();
    assert_eq!(
        code(expand(grow(&id, path, 4 * SIZE)).await),
        OutOfRange,
        "the controller comes first"
    );
    let controller = ControllerExpandVolumeRequest {
        volume_id: id.clone(),
        capacity_range: Some(CapacityRange { required_bytes: 4 * SIZE, limit_bytes: 0 }),
        ..Default::default()
    };
    csi.controller.clone().controller_expand_volume(controller).await.unwrap();
    if !crate::machine::may_grow_mounted() {
        let status = expand(grow(&id, path, 4 * SIZE)).await.unwrap_err();
        assert_eq!(status.code(), FailedPrecondition);
        assert!(status.message().contains("CAP_SYS_RESOURCE"), "{status}");
        // It grows when it is brought to the node the next time.
        csi.unpublish(&id).await.unwrap();
        csi.unstage(&id).await.unwrap();
        csi.stage(csi.stage_request(&id)).await.unwrap();
        csi.node_publish(csi.node_publish_request(&id)).await.unwrap();
    }
    for _ in 0..2 {
        let done = expand(grow(&id, path, 4 * SIZE)).await.unwrap().into_inner();
        assert_eq!(done.capacity_bytes, 4 * SIZE);
    }
    let total = stats(&csi, &id, &target).await.unwrap().usage[0].total;
    assert!(total > 3 * SIZE, "{total}");
    csi.unpublish(&id).await.unwrap();
    csi.unstage(&id).await.unwrap();
}

/// proves: VOL-08
#[tokio::test]
async fn mount_flags_and_reader_only_volumes() {
    let csi = csi().await;
    let id = csi.create("a").await.volume_id;
    csi.stage(csi.stage_request(&id)).await.unwrap();
    csi.unstage(&id).await.unwrap();
    let reader = Some(mount_as("", Mode::SingleNodeReaderOnly));
    let stage = NodeStageVolumeRequest { volume_capability: reader, ..csi.stage_request(&id) };
    csi.stage(stage.clone()).await.unwrap();
    assert!(fs::write(csi.staging().join("file"), "").is_err(), "read-only");
    csi.unstage(&id).await.unwrap();

    let mut flags = mount();
    if let Some(orrery_proto::csi::v1::volume_capability::AccessType::Mount(mount)) =
        &mut flags.access_type
    {
        mount.mount_flags = vec!["noatime".into(), "no-such-option".into()];
    }
    let wrong = NodeStageVolumeRequest { volume_capability: Some(flags), ..stage };
    assert_eq!(code(csi.stage(wrong).await), tonic::Code::Internal, "the kernel refuses it");
    csi.unstage(&id).await.unwrap();
}

/// A volume in memory works like any other.
#[tokio::test]
async fn memory_is_a_medium_too() {
    let csi = csi().await;
    let request = CreateVolumeRequest {
        parameters: [("media".to_owned(), "memory".to_owned())].into(),
        ..new_volume("a")
    };
    let id = csi.create_with(request).await.unwrap().volume_id;
    assert!(csi.disk.memory().join(format!("{id}.img")).exists());
    csi.stage(csi.stage_request(&id)).await.unwrap();
    fs::write(csi.staging().join("file"), "x").unwrap();
    csi.unstage(&id).await.unwrap();
    csi.delete(&id).await.unwrap();
}
