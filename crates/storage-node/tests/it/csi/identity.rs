//! `csi.v1.Identity`.
use super::world::csi;
use orrery_proto::csi::v1::{
    GetPluginCapabilitiesRequest, GetPluginInfoRequest, ProbeRequest,
    plugin_capability::{Type, service, volume_expansion},
};

/// proves: VOL-08
#[tokio::test]
async fn the_driver_says_who_it_is_and_what_it_can_do() {
    let csi = csi().await;
    let mut identity = csi.identity.clone();
    let info = identity.get_plugin_info(GetPluginInfoRequest {}).await.unwrap().into_inner();
    assert_eq!(info.name, "storage.orrery.dev");
    assert!(!info.vendor_version.is_empty());

    let found = identity.get_plugin_capabilities(GetPluginCapabilitiesRequest {}).await.unwrap();
    let kind =
        |capability: orrery_proto::csi::v1::PluginCapability| match capability.r#type.unwrap() {
            Type::Service(found) => format!("{:?}", service::Type::try_from(found.r#type).unwrap()),
            Type::VolumeExpansion(found) => {
                format!("{:?}", volume_expansion::Type::try_from(found.r#type).unwrap())
            }
        };
    let kinds: Vec<String> = found.into_inner().capabilities.into_iter().map(kind).collect();
    assert_eq!(kinds, ["ControllerService", "VolumeAccessibilityConstraints", "Online"]);

    let probe = identity.probe(ProbeRequest {}).await.unwrap().into_inner();
    assert_eq!(probe.ready, Some(true));
}
