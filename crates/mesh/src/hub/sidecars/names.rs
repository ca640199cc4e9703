//! How what belongs to sidecars is called, and by which it is known to be ours.
use orrery_proto::mesh::v1::MeshService;
use orrery_proto::meta::v1::{ObjectMeta, OwnerReference};
pub use orrery_runtime::owned::{is_going, meta};

/// What the workload and the secret of the sidecars of a service end with.
const SUFFIX: &str = "-sidecar";
/// On both: the service that they are made for.
pub const LABEL: &str = "mesh.orrery.dev/sidecar-of";
/// Whose fields they are that are declared in what is made. Fields that are not declared are others'.
pub const MANAGER: &str = "orrery-mesh";
/// How the kind is called where an owner is named.
pub const SERVICE_KIND: &str = "MeshService";

/// The longest name of a service that has sidecars: with the ending it is a name.
pub const SERVICE_NAME_MAX: usize = 63 - SUFFIX.len();

/// What a sidecar shows to the servers, by the keys of its secret, which are the names of its files.
pub const ROOTS: &str = "ca.pem";
pub const CERTIFICATE: &str = "certificate.pem";
pub const KEY: &str = "key.pem";

/// The workload and the secret of the sidecars of a service.
pub fn name_of(service: &str) -> String {
    format!("{service}{SUFFIX}")
}

/// The service that a workload of this name would be the sidecars of.
pub fn service_of(workload: &str) -> Option<&str> {
    workload.strip_suffix(SUFFIX)
}

/// Whether sidecars are asked for.
pub fn has_sidecar(service: &MeshService) -> bool {
    service.spec.as_ref().is_some_and(|spec| spec.sidecar.is_some())
}

/// Says that an object belongs to a service.
pub fn owned_by(service: &MeshService) -> OwnerReference {
    let own = meta(&service.metadata);
    OwnerReference {
        api_version: service.api_version.clone(),
        kind: SERVICE_KIND.to_owned(),
        name: own.name.clone(),
        uid: own.uid.clone(),
        controller: Some(true),
        block_owner_deletion: Some(true),
    }
}

/// Whether an object belongs to the service of this identity.
pub fn belongs_to(metadata: &Option<ObjectMeta>, uid: &str) -> bool {
    let owners = &meta(metadata).owner_references;
    owners.iter().any(|it| it.controller() && it.kind == SERVICE_KIND && it.uid == uid)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_made_for_a_service_has_a_name() {
        let service = "s".repeat(SERVICE_NAME_MAX);
        assert!(orrery_api::is_name(&name_of(&service)));
        assert_eq!(service_of(&name_of(&service)), Some(service.as_str()));
        assert!(orrery_api::is_qualified_name(LABEL));
    }
}
