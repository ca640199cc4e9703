//! Who the driver is; making, listing, growing and deleting volumes.
use super::harness::{GROWN, NAME_LENGTH_MAX, SIZE, Suite, UNKNOWN, refused, secret};
use orrery_proto::csi::v1::{
    CapacityRange, ControllerExpandVolumeRequest, ControllerGetCapabilitiesRequest,
    CreateVolumeRequest, GetCapacityRequest, GetPluginCapabilitiesRequest, GetPluginInfoRequest,
    ListVolumesRequest, ListVolumesResponse, ProbeRequest,
    controller_service_capability::{Type as ControllerType, rpc},
    plugin_capability::{Type, service, volume_expansion},
};
use std::collections::BTreeSet;
use tonic::{Code, Status};

pub async fn plugin_capabilities_are_known(suite: &Suite) {
    let mut identity = suite.csi.identity.clone();
    let found = identity.get_plugin_capabilities(GetPluginCapabilitiesRequest {}).await;
    for capability in found.unwrap().into_inner().capabilities {
        match capability.r#type.expect("a capability has a type") {
            Type::Service(found) => {
                let kind = service::Type::try_from(found.r#type).unwrap();
                let known = [
                    service::Type::ControllerService,
                    service::Type::VolumeAccessibilityConstraints,
                ];
                assert!(known.contains(&kind), "{kind:?} is served by none of our services");
            }
            Type::VolumeExpansion(found) => {
                let kind = volume_expansion::Type::try_from(found.r#type).unwrap();
                assert_ne!(kind, volume_expansion::Type::Unknown);
            }
        }
    }
}

pub async fn the_driver_is_ready(suite: &Suite) {
    let found = suite.csi.identity.clone().probe(ProbeRequest {}).await.unwrap();
    assert_eq!(found.into_inner().ready, Some(true));
}

pub async fn the_name_is_a_domain_name(suite: &Suite) {
    let found = suite.csi.identity.clone().get_plugin_info(GetPluginInfoRequest {}).await.unwrap();
    let name = found.into_inner().name;
    let letter = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_alphabetic);
    let inner = |byte: &u8| byte.is_ascii_alphanumeric() || b"-._".contains(byte);
    let bytes = name.as_bytes();
    assert!(bytes.len() <= 63 && letter(bytes.first()) && letter(bytes.last()), "{name}");
    assert!(bytes.iter().all(inner), "{name}");
}

/// One that a caller of the released interface does not know makes it refuse the whole driver.
pub async fn capabilities_are_known(suite: &Suite) {
    let request = ControllerGetCapabilitiesRequest {};
    let found = suite.csi.controller.clone().controller_get_capabilities(request).await.unwrap();
    let found = found.into_inner().capabilities;
    assert!(!found.is_empty());
    for capability in found {
        let ControllerType::Rpc(found) = capability.r#type.expect("a capability has a type");
        let kind = rpc::Type::try_from(found.r#type).unwrap();
        let released = !matches!(kind, rpc::Type::Unknown | rpc::Type::GetSnapshot);
        assert!(released, "{kind:?}");
    }
}

pub async fn capacity_can_be_asked_for_without_saying_anything(suite: &Suite) {
    let found = suite.csi.controller.clone().get_capacity(GetCapacityRequest::default()).await;
    assert!(found.unwrap().into_inner().available_capacity > 0);
}

async fn list(suite: &Suite, max: i32, token: &str) -> Result<ListVolumesResponse, Status> {
    let request = ListVolumesRequest { max_entries: max, starting_token: token.to_owned() };
    Ok(suite.csi.controller.clone().list_volumes(request).await?.into_inner())
}

fn ids(list: &ListVolumesResponse) -> BTreeSet<String> {
    list.entries.iter().map(|entry| entry.volume.clone().unwrap().volume_id).collect()
}

pub async fn all_volumes_have_ids(suite: &Suite) {
    suite.create("listed").await;
    let found = ids(&list(suite, 0, "").await.unwrap());
    assert!(found.len() == 1 && !found.contains(""));
}

pub async fn a_strange_token_is_aborted(suite: &Suite) {
    refused(list(suite, 0, "invalid-token").await, Code::Aborted);
}

pub async fn lists_follow_creation_and_deletion(suite: &Suite) {
    let before = ids(&list(suite, 0, "").await.unwrap());
    let request = CreateVolumeRequest { capacity_range: None, ..suite.request("sanity") };
    let id = suite.create_with(request).await.unwrap().volume_id;
    let during = ids(&list(suite, 0, "").await.unwrap());
    assert_eq!(during.difference(&before).collect::<Vec<_>>(), [&id]);
    suite.delete(&id).await.unwrap();
    assert_eq!(ids(&list(suite, 0, "").await.unwrap()), before);
}

/// The volumes of the first page go, the last of them being the token of the second, and one is added.
pub async fn pages_bear_changes_in_between(suite: &Suite) {
    for name in ["one", "two", "three"] {
        suite.create(name).await;
    }
    let all = ids(&list(suite, 0, "").await.unwrap());
    let first = list(suite, 2, "").await.unwrap();
    assert_eq!(first.entries.len(), 2);
    let shown = ids(&first);
    for id in &shown {
        suite.delete(id).await.unwrap();
    }
    let added = suite.create("new-addition").await;
    let rest = ids(&list(suite, 0, &first.next_token).await.unwrap());
    let left: BTreeSet<String> = all.difference(&shown).cloned().collect();
    assert!(left.is_subset(&rest), "{left:?} {rest:?}");
    assert!(rest.iter().all(|id| left.contains(id) || *id == added), "{rest:?}");
}

pub async fn a_volume_needs_a_name(suite: &Suite) {
    let request = CreateVolumeRequest { secrets: secret(), ..Default::default() };
    refused(suite.create_with(request).await, Code::InvalidArgument);
}

pub async fn a_volume_needs_a_use(suite: &Suite) {
    let request = CreateVolumeRequest { volume_capabilities: vec![], ..suite.request("unused") };
    refused(suite.create_with(request).await, Code::InvalidArgument);
}

pub async fn a_volume_may_leave_its_size_open(suite: &Suite) {
    let request = CreateVolumeRequest { capacity_range: None, ..suite.request("open") };
    assert!(suite.create_with(request).await.unwrap().capacity_bytes > 0);
}

pub async fn a_volume_has_the_size_asked_for(suite: &Suite) {
    let range = CapacityRange { required_bytes: SIZE, limit_bytes: 0 };
    let request = CreateVolumeRequest { capacity_range: Some(range), ..suite.request("sized") };
    let volume = suite.create_with(request).await.unwrap();
    assert!(!volume.volume_id.is_empty() && volume.capacity_bytes >= SIZE);
}

pub async fn the_same_again_is_the_same_volume(suite: &Suite) {
    let range = CapacityRange { required_bytes: SIZE, limit_bytes: 0 };
    let request = CreateVolumeRequest { capacity_range: Some(range), ..suite.request("twice") };
    let first = suite.create_with(request.clone()).await.unwrap();
    assert_eq!(suite.create_with(request).await.unwrap(), first);
}

pub async fn the_name_with_another_size_is_taken(suite: &Suite) {
    suite.create("different").await;
    let range = CapacityRange { required_bytes: 2 * SIZE, limit_bytes: 2 * SIZE };
    let request = CreateVolumeRequest { capacity_range: Some(range), ..suite.request("different") };
    refused(suite.create_with(request).await, Code::AlreadyExists);
}

pub async fn the_longest_name_is_fine(suite: &Suite) {
    suite.create(&"n".repeat(NAME_LENGTH_MAX)).await;
}

pub async fn deletion_needs_an_id(suite: &Suite) {
    refused(suite.delete("").await, Code::InvalidArgument);
}

pub async fn deleting_what_never_was_is_fine(suite: &Suite) {
    suite.delete("reallyfakevolumeid").await.unwrap();
    suite.delete(UNKNOWN).await.unwrap();
}

pub async fn a_volume_is_deleted(suite: &Suite) {
    let id = suite.create("deleted").await;
    suite.delete(&id).await.unwrap();
}

fn expansion(suite: &Suite, id: &str) -> ControllerExpandVolumeRequest {
    ControllerExpandVolumeRequest {
        volume_id: id.to_owned(),
        capacity_range: Some(CapacityRange { required_bytes: GROWN, limit_bytes: 0 }),
        secrets: secret(),
        volume_capability: Some(suite.access.clone()),
    }
}

pub async fn expansion_needs_an_id(suite: &Suite) {
    let request = expansion(suite, "");
    let found = suite.csi.controller.clone().controller_expand_volume(request).await;
    refused(found, Code::InvalidArgument);
}

pub async fn expansion_needs_a_range(suite: &Suite) {
    for id in ["", &suite.create("rangeless").await] {
        let request = ControllerExpandVolumeRequest {
            volume_id: id.to_owned(),
            secrets: secret(),
            ..Default::default()
        };
        let found = suite.csi.controller.clone().controller_expand_volume(request).await;
        refused(found, Code::InvalidArgument);
    }
}

pub async fn a_volume_grows_to_the_byte(suite: &Suite) {
    let id = suite.create("grown").await;
    let found = suite.csi.controller.clone().controller_expand_volume(expansion(suite, &id)).await;
    assert_eq!(found.unwrap().into_inner().capacity_bytes, GROWN);
}
