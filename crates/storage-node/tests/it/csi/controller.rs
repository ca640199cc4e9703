//! `csi.v1.Controller`, without snapshots.
use super::world::{Csi, NODE, SIZE, block, csi, csi_with, mount, mount_as, new_volume};
use crate::world::code;
use orrery_proto::csi::v1::{
    CapacityRange, ControllerExpandVolumeRequest, ControllerGetCapabilitiesRequest,
    ControllerGetVolumeRequest, ControllerModifyVolumeRequest, ControllerPublishVolumeRequest,
    ControllerUnpublishVolumeRequest, CreateVolumeRequest, GetCapacityRequest, ListVolumesRequest,
    Topology, TopologyRequirement, ValidateVolumeCapabilitiesRequest,
    volume_capability::access_mode::Mode,
};
use std::collections::HashMap;
use tonic::Code::{
    self, Aborted, AlreadyExists, FailedPrecondition, InvalidArgument, NotFound, Ok, OutOfRange,
    ResourceExhausted,
};

const UNKNOWN: &str = "vol-00000000000000000000000000000000";

fn map(key: &str, value: &str) -> HashMap<String, String> {
    HashMap::from([(key.to_owned(), value.to_owned())])
}

fn range(required_bytes: i64, limit_bytes: i64) -> Option<CapacityRange> {
    Some(CapacityRange { required_bytes, limit_bytes })
}

async fn create(csi: &Csi, request: CreateVolumeRequest) -> Code {
    code(csi.create_with(request).await)
}

/// proves: VOL-08
#[tokio::test]
async fn create_volume_checks_its_arguments() {
    let csi = csi().await;
    let good = || new_volume("a");
    let cases = [
        (CreateVolumeRequest { name: String::new(), ..good() }, InvalidArgument),
        (CreateVolumeRequest { name: "x".repeat(129), ..good() }, InvalidArgument),
        (CreateVolumeRequest { name: "a\0b".into(), ..good() }, InvalidArgument),
        (CreateVolumeRequest { volume_capabilities: vec![], ..good() }, InvalidArgument),
        (
            CreateVolumeRequest {
                volume_capabilities: vec![mount(), mount_as("", Mode::MultiNodeMultiWriter)],
                ..good()
            },
            InvalidArgument,
        ),
        (CreateVolumeRequest { parameters: map("unknown", "1"), ..good() }, InvalidArgument),
        (CreateVolumeRequest { parameters: map("media", "tape"), ..good() }, InvalidArgument),
        (
            CreateVolumeRequest { mutable_parameters: map("unknown", "1"), ..good() },
            InvalidArgument,
        ),
        (CreateVolumeRequest { capacity_range: range(-1, 0), ..good() }, InvalidArgument),
        (CreateVolumeRequest { capacity_range: range(2, 1), ..good() }, InvalidArgument),
        (CreateVolumeRequest { capacity_range: range(0, 100), ..good() }, OutOfRange),
        (CreateVolumeRequest { capacity_range: range(1 << 60, 0), ..good() }, OutOfRange),
        (
            CreateVolumeRequest { volume_content_source: Some(Default::default()), ..good() },
            InvalidArgument,
        ),
        (
            CreateVolumeRequest {
                accessibility_requirements: Some(TopologyRequirement {
                    requisite: vec![Topology { segments: map("storage.orrery.dev/node", "other") }],
                    preferred: vec![],
                }),
                ..good()
            },
            ResourceExhausted,
        ),
    ];
    for (request, expect) in cases {
        let text = format!("{request:?}");
        assert_eq!(create(&csi, request).await, expect, "{text}");
    }
    let listed = csi.controller.clone().list_volumes(ListVolumesRequest::default()).await.unwrap();
    assert_eq!(listed.into_inner().entries, [], "nothing was made by the way");
}

/// proves: VOL-08
#[tokio::test]
async fn create_volume_is_idempotent_by_name() {
    let csi = csi().await;
    let first = csi.create("Ein Name / mit .. allem").await;
    assert_eq!(first.capacity_bytes, SIZE);
    let topology = Topology { segments: map("storage.orrery.dev/node", NODE) };
    assert_eq!(first.accessible_topology, std::slice::from_ref(&topology));
    assert_eq!(csi.create("Ein Name / mit .. allem").await, first);

    let same = || new_volume("Ein Name / mit .. allem");
    let wanted = TopologyRequirement { requisite: vec![topology], preferred: vec![] };
    let cases = [
        (CreateVolumeRequest { capacity_range: None, ..same() }, Ok),
        (CreateVolumeRequest { capacity_range: range(1, SIZE), ..same() }, Ok),
        (CreateVolumeRequest { accessibility_requirements: Some(wanted), ..same() }, Ok),
        (CreateVolumeRequest { capacity_range: range(2 * SIZE, 0), ..same() }, AlreadyExists),
        (CreateVolumeRequest { capacity_range: range(0, SIZE / 2), ..same() }, AlreadyExists),
        (CreateVolumeRequest { parameters: map("media", "memory"), ..same() }, AlreadyExists),
    ];
    for (request, expect) in cases {
        assert_eq!(create(&csi, request.clone()).await, expect, "{request:?}");
    }
    csi.create(&"x".repeat(128)).await;
}

/// proves: VOL-08
#[tokio::test]
async fn delete_volume_is_idempotent_and_spares_what_is_published() {
    let csi = csi().await;
    assert_eq!(code(csi.delete("").await), InvalidArgument);
    assert_eq!(code(csi.delete("reallyfakevolumeid").await), Ok);
    assert_eq!(code(csi.delete(UNKNOWN).await), Ok);
    let id = csi.create("a").await.volume_id;
    csi.controller.clone().controller_publish_volume(csi.publish_request(&id)).await.unwrap();
    assert_eq!(code(csi.delete(&id).await), FailedPrecondition);
    unpublish(&csi, &id, NODE).await;
    assert_eq!(code(csi.delete(&id).await), Ok);
    assert_eq!(code(csi.delete(&id).await), Ok);
}

async fn publish(csi: &Csi, request: ControllerPublishVolumeRequest) -> Code {
    code(csi.controller.clone().controller_publish_volume(request).await)
}

async fn unpublish(csi: &Csi, volume_id: &str, node_id: &str) -> Code {
    let request = ControllerUnpublishVolumeRequest {
        volume_id: volume_id.into(),
        node_id: node_id.into(),
        ..Default::default()
    };
    code(csi.controller.clone().controller_unpublish_volume(request).await)
}

/// proves: VOL-08
#[tokio::test]
async fn controller_publish_and_unpublish() {
    let csi = csi().await;
    let id = csi.create("a").await.volume_id;
    let good = || csi.publish_request(&id);
    let cases = [
        (ControllerPublishVolumeRequest { volume_id: String::new(), ..good() }, InvalidArgument),
        (ControllerPublishVolumeRequest { node_id: String::new(), ..good() }, InvalidArgument),
        (ControllerPublishVolumeRequest { volume_capability: None, ..good() }, InvalidArgument),
        (ControllerPublishVolumeRequest { volume_id: UNKNOWN.into(), ..good() }, NotFound),
        (ControllerPublishVolumeRequest { volume_id: "fake".into(), ..good() }, NotFound),
        (ControllerPublishVolumeRequest { node_id: "other".into(), ..good() }, NotFound),
        (good(), Ok),
        (good(), Ok),
        (ControllerPublishVolumeRequest { readonly: true, ..good() }, AlreadyExists),
        (
            ControllerPublishVolumeRequest {
                volume_capability: Some(block(Mode::SingleNodeWriter)),
                ..good()
            },
            AlreadyExists,
        ),
    ];
    for (request, expect) in cases {
        assert_eq!(publish(&csi, request.clone()).await, expect, "{request:?}");
    }
    assert_eq!(published(&csi, &id).await, [NODE]);
    assert_eq!(unpublish(&csi, "", "").await, InvalidArgument);
    assert_eq!(unpublish(&csi, UNKNOWN, NODE).await, Ok);
    assert_eq!(unpublish(&csi, "fake", "").await, Ok);
    assert_eq!(unpublish(&csi, &id, "other").await, Ok);
    assert_eq!(published(&csi, &id).await, [NODE]);
    assert_eq!(unpublish(&csi, &id, "").await, Ok);
    assert_eq!(unpublish(&csi, &id, NODE).await, Ok);
    assert_eq!(published(&csi, &id).await, [] as [&str; 0]);
    assert_eq!(
        publish(&csi, ControllerPublishVolumeRequest { readonly: true, ..good() }).await,
        Ok
    );
}

async fn published(csi: &Csi, id: &str) -> Vec<String> {
    let request = ControllerGetVolumeRequest { volume_id: id.into() };
    let found = csi.controller.clone().controller_get_volume(request).await.unwrap().into_inner();
    found.status.unwrap().published_node_ids
}

/// proves: VOL-08
#[tokio::test]
async fn a_node_has_only_so_many_volumes() {
    let csi = csi_with(|mut config| {
        config.volumes_max = 1;
        config
    })
    .await;
    let (a, b) = (csi.create("a").await.volume_id, csi.create("b").await.volume_id);
    assert_eq!(publish(&csi, csi.publish_request(&a)).await, Ok);
    assert_eq!(publish(&csi, csi.publish_request(&a)).await, Ok);
    assert_eq!(publish(&csi, csi.publish_request(&b)).await, ResourceExhausted);
    unpublish(&csi, &a, NODE).await;
    assert_eq!(publish(&csi, csi.publish_request(&b)).await, Ok);
}

/// proves: VOL-08
#[tokio::test]
async fn validate_volume_capabilities() {
    let csi = csi().await;
    let id = csi.create("a").await.volume_id;
    let good = || ValidateVolumeCapabilitiesRequest {
        volume_id: id.clone(),
        volume_capabilities: vec![mount(), block(Mode::SingleNodeMultiWriter)],
        ..Default::default()
    };
    let validate =
        async |request| csi.controller.clone().validate_volume_capabilities(request).await;
    let confirmed = validate(good()).await.unwrap().into_inner().confirmed.unwrap();
    assert_eq!(confirmed.volume_capabilities, good().volume_capabilities);
    for request in [
        ValidateVolumeCapabilitiesRequest {
            volume_capabilities: vec![mount_as("", Mode::MultiNodeReaderOnly)],
            ..good()
        },
        ValidateVolumeCapabilitiesRequest { volume_context: map("a", "b"), ..good() },
        ValidateVolumeCapabilitiesRequest { parameters: map("media", "memory"), ..good() },
        ValidateVolumeCapabilitiesRequest { mutable_parameters: map("a", "b"), ..good() },
    ] {
        let answer = validate(request).await.unwrap().into_inner();
        assert!(answer.confirmed.is_none() && !answer.message.is_empty(), "{answer:?}");
    }
    for (request, expect) in [
        (ValidateVolumeCapabilitiesRequest { volume_id: String::new(), ..good() }, InvalidArgument),
        (
            ValidateVolumeCapabilitiesRequest { volume_capabilities: vec![], ..good() },
            InvalidArgument,
        ),
        (ValidateVolumeCapabilitiesRequest { volume_id: UNKNOWN.into(), ..good() }, NotFound),
        (ValidateVolumeCapabilitiesRequest { volume_id: "some-vol-id".into(), ..good() }, NotFound),
    ] {
        assert_eq!(code(validate(request).await), expect);
    }
}

/// proves: VOL-08
#[tokio::test]
async fn list_volumes_in_pages() {
    let csi = csi().await;
    let mut ids = Vec::new();
    for name in ["a", "b", "c", "d", "e"] {
        ids.push(csi.create(name).await.volume_id);
    }
    ids.sort();
    let list = async |max_entries, starting_token: &str| {
        let request = ListVolumesRequest { max_entries, starting_token: starting_token.into() };
        let found = csi.controller.clone().list_volumes(request).await?.into_inner();
        let id = |entry: orrery_proto::csi::v1::list_volumes_response::Entry| {
            let condition = entry.status.unwrap().volume_condition.unwrap();
            assert!(!condition.abnormal, "{condition:?}");
            entry.volume.unwrap().volume_id
        };
        let page: Vec<String> = found.entries.into_iter().map(id).collect();
        Result::<_, tonic::Status>::Ok((page, found.next_token))
    };
    assert_eq!(list(0, "").await.unwrap(), (ids.clone(), String::new()));
    let (page, token) = list(2, "").await.unwrap();
    assert_eq!(page, ids[..2]);
    csi.delete(&ids[1]).await.unwrap();
    let (page, token) = list(2, &token).await.unwrap();
    assert_eq!(page, ids[2..4], "a token outlives the volume it names");
    assert_eq!(list(2, &token).await.unwrap(), (ids[4..].to_vec(), String::new()));
    assert_eq!(code(list(0, "invalid-token").await), Aborted);
    assert_eq!(code(list(-1, "").await), InvalidArgument);
}

/// proves: VOL-08
#[tokio::test]
async fn get_volume_and_its_condition() {
    let csi = csi().await;
    let id = csi.create("a").await.volume_id;
    let get = async |id: &str| {
        let request = ControllerGetVolumeRequest { volume_id: id.into() };
        csi.controller.clone().controller_get_volume(request).await
    };
    let found = get(&id).await.unwrap().into_inner();
    assert_eq!(found.volume.unwrap().volume_id, id);
    assert_eq!(code(get("").await), InvalidArgument);
    assert_eq!(code(get(UNKNOWN).await), NotFound);
    std::fs::remove_file(csi.disk.images().join(format!("{id}.img"))).unwrap();
    let condition = get(&id).await.unwrap().into_inner().status.unwrap().volume_condition.unwrap();
    assert!(condition.abnormal && condition.message.contains("missing"), "{condition:?}");
}

/// proves: VOL-08
#[tokio::test]
async fn get_capacity() {
    let csi = csi().await;
    let get = async |request| {
        let found = csi.controller.clone().get_capacity(request).await;
        found.map(|response| response.into_inner().available_capacity)
    };
    assert!(get(GetCapacityRequest::default()).await.unwrap() > 0);
    let memory = GetCapacityRequest { parameters: map("media", "memory"), ..Default::default() };
    assert!(get(memory).await.unwrap() > 0);
    let unsupported = GetCapacityRequest {
        volume_capabilities: vec![mount_as("", Mode::MultiNodeMultiWriter)],
        ..Default::default()
    };
    assert_eq!(get(unsupported).await.unwrap(), 0);
    let elsewhere = Topology { segments: map("storage.orrery.dev/node", "other") };
    let elsewhere =
        GetCapacityRequest { accessible_topology: Some(elsewhere), ..Default::default() };
    assert_eq!(get(elsewhere).await.unwrap(), 0);
    let unknown = GetCapacityRequest { parameters: map("a", "b"), ..Default::default() };
    assert_eq!(code(get(unknown).await), InvalidArgument);
}

/// proves: VOL-08
#[tokio::test]
async fn expand_volume() {
    let csi = csi().await;
    let id = csi.create("a").await.volume_id;
    let expand = async |volume_id: &str, capacity_range, capability| {
        let request = ControllerExpandVolumeRequest {
            volume_id: volume_id.into(),
            capacity_range,
            volume_capability: capability,
            ..Default::default()
        };
        let found = csi.controller.clone().controller_expand_volume(request).await?.into_inner();
        Result::<_, tonic::Status>::Ok((found.capacity_bytes, found.node_expansion_required))
    };
    assert_eq!(expand(&id, range(2 * SIZE, 0), Some(mount())).await.unwrap(), (2 * SIZE, true));
    let raw = Some(block(Mode::SingleNodeWriter));
    assert_eq!(expand(&id, range(2 * SIZE, 0), raw).await.unwrap(), (2 * SIZE, false));
    assert_eq!(expand(&id, range(SIZE, 0), None).await.unwrap(), (2 * SIZE, true));
    assert_eq!(code(expand(&id, range(0, SIZE), None).await), OutOfRange);
    assert_eq!(code(expand(&id, range(1 << 60, 0), None).await), ResourceExhausted);
    assert_eq!(code(expand("", range(SIZE, 0), None).await), InvalidArgument);
    assert_eq!(code(expand(&id, None, None).await), InvalidArgument);
    assert_eq!(code(expand(&id, range(0, 0), None).await), InvalidArgument);
    assert_eq!(code(expand(UNKNOWN, range(SIZE, 0), None).await), NotFound);
}

/// proves: VOL-08
#[tokio::test]
async fn modify_volume() {
    let csi = csi().await;
    let id = csi.create("a").await.volume_id;
    let modify = async |volume_id: &str, mutable_parameters| {
        let request = ControllerModifyVolumeRequest {
            volume_id: volume_id.into(),
            mutable_parameters,
            ..Default::default()
        };
        code(csi.controller.clone().controller_modify_volume(request).await)
    };
    assert_eq!(modify(&id, HashMap::new()).await, Ok);
    assert_eq!(modify(&id, map("readAheadKb", "64")).await, Ok);
    assert_eq!(modify(&id, map("XXX_FakeKey", "XXX_FakeValue")).await, InvalidArgument);
    assert_eq!(modify("", HashMap::new()).await, InvalidArgument);
    assert_eq!(modify("non-existing-volume-id", HashMap::new()).await, NotFound);

    let read_ahead = || {
        let device = csi.disk.devices().pop().unwrap();
        let name = device.file_name().unwrap().to_str().unwrap();
        let text = std::fs::read_to_string(format!("/sys/block/{name}/queue/read_ahead_kb"));
        text.unwrap().trim().to_owned()
    };
    csi.stage(csi.stage_request(&id)).await.unwrap();
    assert_eq!(read_ahead(), "64", "applied when staged");
    assert_eq!(modify(&id, map("readAheadKb", "256")).await, Ok);
    assert_eq!(read_ahead(), "256", "applied at once");
    csi.unstage(&id).await.unwrap();
}

/// proves: VOL-08
#[tokio::test]
async fn capabilities_are_those_of_a_full_driver() {
    let csi = csi().await;
    let request = ControllerGetCapabilitiesRequest {};
    let found = csi.controller.clone().controller_get_capabilities(request).await.unwrap();
    assert_eq!(found.into_inner().capabilities.len(), 14);
}
