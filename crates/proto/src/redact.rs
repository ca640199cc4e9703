//! `Debug` of messages that carry secrets: it names the message and what it is about, and never a
//! secret, so that nothing that is traced can leak one.
use crate::{
    core::v1 as core, csi::v1 as csi, fleet::v1 as fleet, hub::v1 as hub, oim::v0 as oim,
    volumes::v1 as volumes,
};
use std::fmt;

impl fmt::Debug for fleet::FileContent {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("FileContent").field("path", &self.path).finish_non_exhaustive()
    }
}

impl fmt::Debug for oim::CephParams {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("CephParams")
            .field("user_id", &self.user_id)
            .field("monitors", &self.monitors)
            .field("pool", &self.pool)
            .field("image", &self.image)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for volumes::CheckCephRequest {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("CheckCephRequest")
            .field("user", &self.user)
            .field("monitors", &self.monitors)
            .field("pool", &self.pool)
            .field("image", &self.image)
            .finish_non_exhaustive()
    }
}

/// Names of values, and no value.
impl fmt::Debug for core::SecretSpec {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: std::collections::BTreeSet<&String> =
            self.data.keys().chain(self.string_data.keys()).collect();
        out.debug_struct("SecretSpec")
            .field("type", &self.r#type)
            .field("names", &names)
            .finish_non_exhaustive()
    }
}

/// What kind it is of; the resource itself may be a secret.
impl fmt::Debug for hub::Resource {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Resource")
            .field("api_version", &self.api_version)
            .field("kind", &self.kind)
            .finish_non_exhaustive()
    }
}

/// In which language it is written.
impl fmt::Debug for hub::resource::Body {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Self::Json(_) => "Json(..)",
            Self::Protobuf(_) => "Protobuf(..)",
        })
    }
}

/// Shows the named fields; the rest, secrets among them, becomes `..`.
macro_rules! shows_only {
    ($($message:ident: $($field:ident),+;)+) => {
        $(impl fmt::Debug for csi::$message {
            fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
                out.debug_struct(stringify!($message))
                    $(.field(stringify!($field), &self.$field))+
                    .finish_non_exhaustive()
            }
        })+
    };
}

shows_only! {
    ControllerExpandVolumeRequest: volume_id, capacity_range;
    ControllerModifyVolumeRequest: volume_id, mutable_parameters;
    ControllerPublishVolumeRequest: volume_id, node_id, readonly;
    ControllerUnpublishVolumeRequest: volume_id, node_id;
    CreateSnapshotRequest: name, source_volume_id;
    CreateVolumeRequest: name, capacity_range, volume_content_source, parameters;
    DeleteSnapshotRequest: snapshot_id;
    DeleteVolumeRequest: volume_id;
    GetSnapshotRequest: snapshot_id;
    ListSnapshotsRequest: max_entries, starting_token, source_volume_id, snapshot_id;
    NodeExpandVolumeRequest: volume_id, volume_path, capacity_range;
    NodePublishVolumeRequest: volume_id, target_path, staging_target_path, readonly;
    NodeStageVolumeRequest: volume_id, staging_target_path;
    ValidateVolumeCapabilitiesRequest: volume_id;
}

#[cfg(test)]
mod tests {
    use super::{csi, oim};

    /// proves: VOL-07
    #[test]
    fn secrets_are_not_in_debug_output() {
        let secrets = std::collections::HashMap::from([("key".to_owned(), "hunter2".to_owned())]);
        let ceph =
            oim::CephParams { secret: "hunter2".into(), pool: "rbd".into(), ..Default::default() };
        let map = oim::MapVolumeRequest {
            volume_id: "v".into(),
            params: Some(oim::map_volume_request::Params::Ceph(ceph)),
        };
        let stage = csi::NodeStageVolumeRequest { secrets, ..Default::default() };
        let data = std::collections::HashMap::from([("password".to_owned(), b"hunter2".to_vec())]);
        let spec = super::core::SecretSpec { data, ..Default::default() };
        let body = Some(super::hub::resource::Body::Json("hunter2".to_owned()));
        let resource = super::hub::Resource { body, ..Default::default() };
        let text = format!("{map:?} {stage:#?} {spec:?} {resource:?} {:?}", resource.body);
        assert!(text.contains("password"), "names may be shown: {text}");
        assert!(text.contains("rbd") && !text.contains("hunter2"), "{text}");
    }
}
