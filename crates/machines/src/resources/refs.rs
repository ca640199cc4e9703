//! Names: of labels and finalizers, of leases, and of what belongs to what.
use crate::drivers::DriverKey;
use orrery_hub::ObjectName;
use orrery_proto::core::v1::ObjectReference;
use orrery_proto::infra::v1::{MachineClassSpec, MachineTimeouts};
use orrery_proto::meta::v1::{ObjectMeta, OwnerReference};
pub use orrery_runtime::owned::{is_going, meta, revision};
use sha2::{Digest, Sha256};

/// Held by a machine until nothing is left of it at the provider.
pub const MACHINE_FINALIZER: &str = "orrery.dev/machine";
/// Held by a class while anything uses it.
pub const CLASS_FINALIZER: &str = "orrery.dev/class-in-use";
/// Held by a secret while a class names it that is in use.
pub const SECRET_FINALIZER: &str = "orrery.dev/secret-in-use";
/// On a project: its machines are frozen; on the project `system`: all machines are.
pub const FROZEN_ANNOTATION: &str = "machines.orrery.dev/frozen";
/// On a machine that is deleted: it may go without its driver.
pub const FORGET_ANNOTATION: &str = "machines.orrery.dev/forget";
/// On a node: the machine that it runs on.
pub const NODE_MACHINE_LABEL: &str = "machines.orrery.dev/machine";
/// On a node: the identity of that machine, by which a name that is used again is told from the first.
pub const NODE_MACHINE_UID: &str = "machines.orrery.dev/machine-uid";

/// The lease of whoever speaks for the drivers of one kind.
pub fn lease_name(key: &DriverKey) -> String {
    format!("drivers/{}", short_hash(&[&key.kind, &key.api_version], 16))
}

pub fn class_key(spec: &MachineClassSpec) -> DriverKey {
    DriverKey::new(spec.provider(), spec.provider_version())
}

/// So many hexadecimal digits that stand for these parts.
pub fn short_hash(parts: &[&str], digits: usize) -> String {
    let mut hash = Sha256::new();
    for part in parts {
        hash.update(part);
        hash.update([0]);
    }
    let mut text = format!("{:x}", hash.finalize());
    text.truncate(digits);
    text
}

/// The owner that controls an object, if it is of this kind.
pub fn owner<'a>(metadata: &'a Option<ObjectMeta>, kind: &str) -> Option<&'a OwnerReference> {
    let owners = &meta(metadata).owner_references;
    owners.iter().find(|it| it.controller() && it.kind == kind)
}

pub fn owned_by(api_version: &str, kind: &str, owner: &ObjectMeta) -> OwnerReference {
    OwnerReference {
        api_version: api_version.to_owned(),
        kind: kind.to_owned(),
        name: owner.name.clone(),
        uid: owner.uid.clone(),
        controller: Some(true),
        block_owner_deletion: Some(true),
    }
}

pub fn reference(api_version: &str, kind: &str, metadata: &ObjectMeta) -> ObjectReference {
    ObjectReference {
        api_version: Some(api_version.to_owned()),
        kind: Some(kind.to_owned()),
        project: Some(metadata.project.clone()),
        name: Some(metadata.name.clone()),
        uid: Some(metadata.uid.clone()),
    }
}

pub fn named(name: &ObjectName) -> Option<ObjectMeta> {
    let (name, project) = (name.name.clone(), name.project.clone());
    Some(ObjectMeta { name, project, ..ObjectMeta::default() })
}

/// A beginning of a name that leaves room for an ending.
pub fn clip(name: &str, bytes: usize) -> &str {
    name.get(..bytes).unwrap_or(name).trim_end_matches('-')
}

/// The first of several that says something about one time-out.
pub fn seconds(
    of: &[&Option<MachineTimeouts>],
    which: fn(&MachineTimeouts) -> Option<i32>,
    otherwise: u64,
) -> std::time::Duration {
    let said = of.iter().find_map(|timeouts| which(timeouts.as_ref()?));
    let said = said.and_then(|seconds| u64::try_from(seconds).ok());
    std::time::Duration::from_secs(said.unwrap_or(otherwise))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_word_on_a_time_out_counts() {
        let says =
            |creation| Some(MachineTimeouts { creation_seconds: creation, ..<_>::default() });
        let creation =
            |own, of_set| seconds(&[&own, &of_set], |it| it.creation_seconds, 1200).as_secs();
        assert_eq!(creation(None, None), 1200);
        assert_eq!(creation(None, says(Some(5))), 5);
        assert_eq!(creation(says(Some(7)), says(Some(5))), 7);
        assert_eq!(creation(says(None), says(Some(5))), 5);
        assert_eq!(creation(says(Some(-1)), None), 1200);
    }

    #[test]
    fn names_are_clipped_to_names() {
        assert_eq!(clip("pool", 40), "pool");
        assert_eq!(clip("a-bc", 2), "a");
    }
}
