//! What the specification says in tables and in passing, across the calls: second publications, uses
//! that are not supported, limits, and a driver that can only grow what nobody uses.
use super::world::{
    Csi, NODE, SIZE, block, capability, csi, csi_with, mount, mount_as, new_volume,
};
use crate::world::code;
use orrery_proto::csi::v1::{
    CapacityRange, ControllerExpandVolumeRequest, ControllerExpandVolumeResponse,
    ControllerPublishVolumeRequest, CreateSnapshotRequest, CreateVolumeRequest,
    GetPluginCapabilitiesRequest, ListSnapshotsRequest, ListVolumesRequest,
    NodeGetCapabilitiesRequest, NodePublishVolumeRequest, NodeStageVolumeRequest,
    NodeUnpublishVolumeRequest, VolumeCapability, VolumeContentSource,
    node_service_capability::{Type as NodeType, rpc},
    plugin_capability::{Type, volume_expansion},
    volume_capability::{AccessType, MountVolume, access_mode::Mode},
    volume_content_source::{Type as SourceType, VolumeSource},
};
use tonic::{
    Code::{self, AlreadyExists, FailedPrecondition, InvalidArgument, Ok},
    Status,
};

async fn stage_as(csi: &Csi, id: &str, capability: &VolumeCapability) {
    let volume_capability = Some(capability.clone());
    csi.stage(NodeStageVolumeRequest { volume_capability, ..csi.stage_request(id) }).await.unwrap();
}

/// The second `NodePublishVolume` of a volume: T1 and T2 are its targets, P1 and P2 its arguments.
///
/// proves: VOL-08
#[tokio::test]
async fn a_second_publication_follows_the_table_of_the_specification() {
    let csi = csi().await;
    let target = csi.target().to_str().unwrap().to_owned();
    let other = csi.target().with_file_name("other").to_str().unwrap().to_owned();
    // T1=T2,P1=P2; T1=T2,P1!=P2; T1!=T2,P1=P2; T1!=T2,P1!=P2
    let alone = [Ok, AlreadyExists, FailedPrecondition, FailedPrecondition];
    let shared = [Ok, AlreadyExists, Ok, Ok];
    for (mode, expect) in [
        (Mode::SingleNodeWriter, alone),
        (Mode::SingleNodeSingleWriter, alone),
        (Mode::SingleNodeMultiWriter, shared),
    ] {
        let name = mode.as_str_name();
        let wanted = mount_as("", mode);
        let id = csi.create(name).await.volume_id;
        stage_as(&csi, &id, &wanted).await;
        let publish = |target_path: &str, readonly| NodePublishVolumeRequest {
            target_path: target_path.to_owned(),
            readonly,
            volume_capability: Some(wanted.clone()),
            ..csi.node_publish_request(&id)
        };
        let unpublish = async |target_path: &str| {
            let (volume_id, target_path) = (id.clone(), target_path.to_owned());
            let request = NodeUnpublishVolumeRequest { volume_id, target_path };
            csi.node.clone().node_unpublish_volume(request).await.unwrap();
        };
        csi.node_publish(publish(&target, false)).await.unwrap();
        let second = [(&target, false), (&target, true), (&other, false), (&other, true)];
        for ((target_path, readonly), expect) in second.into_iter().zip(expect) {
            let found = code(csi.node_publish(publish(target_path, readonly)).await);
            assert_eq!(found, expect, "{name} again at {target_path}, readonly: {readonly}");
            if *target_path == other {
                unpublish(&other).await;
            }
        }
        unpublish(&target).await;
        csi.unstage(&id).await.unwrap();
    }
}

/// proves: VOL-08
#[tokio::test]
async fn a_use_that_is_not_supported_is_refused_by_every_call() {
    let csi = csi().await;
    let id = csi.create("a").await.volume_id;
    let flags = |mount_flags: Vec<String>| {
        let mount = MountVolume { mount_flags, ..MountVolume::default() };
        capability(AccessType::Mount(mount), Mode::SingleNodeWriter)
    };
    let group = MountVolume { volume_mount_group: "staff".into(), ..MountVolume::default() };
    for wrong in [
        mount_as("", Mode::MultiNodeReaderOnly),
        mount_as("", Mode::MultiNodeSingleWriter),
        mount_as("", Mode::MultiNodeMultiWriter),
        block(Mode::MultiNodeMultiWriter),
        mount_as("", Mode::Unknown),
        mount_as("ntfs", Mode::SingleNodeWriter),
        flags(vec!["x".repeat(4097)]),
        flags(vec![String::new()]),
        capability(AccessType::Mount(group), Mode::SingleNodeWriter),
        VolumeCapability { access_mode: None, ..mount() },
        VolumeCapability { access_type: None, ..mount() },
    ] {
        let volume_capability = Some(wrong.clone());
        let create =
            CreateVolumeRequest { volume_capabilities: vec![wrong.clone()], ..new_volume("b") };
        let publish = ControllerPublishVolumeRequest {
            volume_capability: volume_capability.clone(),
            ..csi.publish_request(&id)
        };
        let expand = ControllerExpandVolumeRequest {
            volume_capability: volume_capability.clone(),
            ..expand_request(&id, 2 * SIZE)
        };
        let stage = NodeStageVolumeRequest {
            volume_capability: volume_capability.clone(),
            ..csi.stage_request(&id)
        };
        let show = NodePublishVolumeRequest { volume_capability, ..csi.node_publish_request(&id) };
        let mut controller = csi.controller.clone();
        for (call, found) in [
            ("CreateVolume", code(csi.create_with(create).await)),
            ("ControllerPublishVolume", code(controller.controller_publish_volume(publish).await)),
            ("ControllerExpandVolume", code(controller.controller_expand_volume(expand).await)),
            ("NodeStageVolume", code(csi.stage(stage).await)),
            ("NodePublishVolume", code(csi.node_publish(show).await)),
        ] {
            assert_eq!(found, InvalidArgument, "{call} with {wrong:?}");
        }
    }
    assert_eq!(csi.disk.devices().len(), 0, "nothing was mapped by the way");
}

/// proves: VOL-08
#[tokio::test]
async fn lists_show_sources_and_the_nodes_that_volumes_are_published_to() {
    let csi = csi().await;
    let id = csi.create("a").await.volume_id;
    let source = VolumeSource { volume_id: id.clone() };
    let source = Some(VolumeContentSource { r#type: Some(SourceType::Volume(source)) });
    let larger = CreateVolumeRequest {
        volume_content_source: source.clone(),
        capacity_range: Some(CapacityRange { required_bytes: 2 * SIZE, limit_bytes: 2 * SIZE }),
        ..new_volume("clone")
    };
    let clone = csi.create_with(larger.clone()).await.unwrap();
    assert_eq!((clone.capacity_bytes, &clone.content_source), (2 * SIZE, &source));
    assert_eq!(csi.create_with(larger).await.unwrap(), clone, "asked for twice, made once");
    csi.controller.clone().controller_publish_volume(csi.publish_request(&id)).await.unwrap();
    let listed = csi.controller.clone().list_volumes(ListVolumesRequest::default()).await.unwrap();
    let mut seen: Vec<_> = listed
        .into_inner()
        .entries
        .into_iter()
        .map(|entry| {
            let volume = entry.volume.unwrap();
            let nodes = entry.status.unwrap().published_node_ids;
            (volume.volume_id, volume.capacity_bytes, volume.content_source, nodes)
        })
        .collect();
    let mut expect = vec![
        (id, SIZE, None, vec![NODE.to_owned()]),
        (clone.volume_id, 2 * SIZE, source, Vec::new()),
    ];
    seen.sort_by(|one, other| one.0.cmp(&other.0));
    expect.sort_by(|one, other| one.0.cmp(&other.0));
    assert_eq!(seen, expect);
}

/// proves: VOL-08
#[tokio::test]
async fn names_of_snapshots_and_their_pages_have_limits() {
    let csi = csi().await;
    let id = csi.create("a").await.volume_id;
    let take = async |name: &str| {
        let (name, source_volume_id) = (name.to_owned(), id.clone());
        let request = CreateSnapshotRequest { name, source_volume_id, ..Default::default() };
        csi.controller.clone().create_snapshot(request).await.map(|_| ())
    };
    assert_eq!(code(take(&"x".repeat(129)).await), InvalidArgument);
    assert_eq!(code(take("a\0b").await), InvalidArgument);
    assert_eq!(code(take("../../a name / with . everything").await), Ok);
    let wrong = ListSnapshotsRequest { max_entries: -1, ..Default::default() };
    assert_eq!(code(csi.controller.clone().list_snapshots(wrong).await), InvalidArgument);
}

fn expand_request(id: &str, required_bytes: i64) -> ControllerExpandVolumeRequest {
    ControllerExpandVolumeRequest {
        volume_id: id.to_owned(),
        capacity_range: Some(CapacityRange { required_bytes, limit_bytes: 0 }),
        ..Default::default()
    }
}

async fn expand(
    csi: &Csi,
    request: ControllerExpandVolumeRequest,
) -> Result<ControllerExpandVolumeResponse, Status> {
    csi.controller.clone().controller_expand_volume(request).await.map(tonic::Response::into_inner)
}

/// Where the kernel does not let file systems grow while they are mounted, volumes grow in between,
/// and callers are told so before they try.
///
/// proves: VOL-08
#[tokio::test]
async fn a_driver_that_cannot_grow_what_is_in_use_says_so() {
    let csi = csi_with(|mut config| {
        config.grows_online = false;
        config
    })
    .await;
    let mut identity = csi.identity.clone();
    let found = identity.get_plugin_capabilities(GetPluginCapabilitiesRequest {});
    let offline = |kind: &Type| match kind {
        Type::VolumeExpansion(found) => found.r#type == i32::from(volume_expansion::Type::Offline),
        Type::Service(_) => false,
    };
    let capabilities = found.await.unwrap().into_inner().capabilities;
    assert!(capabilities.iter().filter_map(|one| one.r#type.as_ref()).any(offline));
    let found = csi.node.clone().node_get_capabilities(NodeGetCapabilitiesRequest {}).await;
    for capability in found.unwrap().into_inner().capabilities {
        let Some(NodeType::Rpc(found)) = capability.r#type else { panic!("{capability:?}") };
        assert_ne!(found.r#type, i32::from(rpc::Type::ExpandVolume));
    }

    let id = csi.create("a").await.volume_id;
    csi.stage(csi.stage_request(&id)).await.unwrap();
    let status = expand(&csi, expand_request(&id, 4 * SIZE)).await.unwrap_err();
    assert_eq!(status.code(), FailedPrecondition);
    assert!(status.message().contains("CAP_SYS_RESOURCE"), "{status}");
    let same = expand(&csi, expand_request(&id, SIZE)).await;
    assert_eq!(code(same), Code::Ok, "it is large enough already");
    csi.unstage(&id).await.unwrap();

    let grown = expand(&csi, expand_request(&id, 4 * SIZE)).await.unwrap();
    assert_eq!((grown.capacity_bytes, grown.node_expansion_required), (4 * SIZE, false));
    csi.stage(csi.stage_request(&id)).await.unwrap();
    let found = rustix::fs::statvfs(csi.staging()).unwrap();
    let total = i64::try_from(found.f_blocks * found.f_frsize).unwrap();
    assert!(total > 3 * SIZE, "the file system has {total} bytes");
    csi.unstage(&id).await.unwrap();
}
