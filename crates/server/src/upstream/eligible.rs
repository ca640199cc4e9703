//! Which kinds another service can keep. Pure.
use orrery_api::{Kind, Scheme};
use std::sync::Arc;

/// Kinds that parts of this server write to, or cannot do without, and why that ends with their own store.
const KEPT_HERE: &[(&str, &str)] = &[
    ("orrery.core.v1.Project", "everything that this server keeps is in one of its projects"),
    ("orrery.core.v1.Role", ACCESS),
    ("orrery.core.v1.RoleBinding", ACCESS),
    ("orrery.core.v1.AccessToken", ACCESS),
    ("orrery.core.v1.JoinToken", ACCESS),
    ("orrery.core.v1.Revocation", ACCESS),
    ("orrery.core.v1.GitSync", ACTED_ON),
    ("orrery.infra.v1.Machine", ACTED_ON),
    ("orrery.infra.v1.MachineSet", ACTED_ON),
    ("orrery.infra.v1.MachineDeployment", ACTED_ON),
    ("orrery.infra.v1.Cluster", ACTED_ON),
    ("orrery.infra.v1.Blueprint", ACTED_ON),
    ("orrery.infra.v1.Addon", ACTED_ON),
    ("orrery.infra.v1.Node", ACTED_ON),
    ("orrery.storage.v1.StorageController", ACTED_ON),
    ("orrery.storage.v1.Volume", ACTED_ON),
    ("orrery.storage.v1.VolumeAttachment", ACTED_ON),
    ("orrery.storage.v1.VolumeSnapshot", ACTED_ON),
];

const ACCESS: &str = "it says who may do what here, which must be known without anybody else";
const ACTED_ON: &str =
    "this server acts on it and writes down in it what came of that, as the other one would too";

/// The kind of this name in the version of the hub, or why no other service can keep it.
pub fn eligible(scheme: &Scheme, name: &str) -> Result<Arc<Kind>, String> {
    let kind = scheme.resolve("", name).map_err(|error| error.to_string())?;
    let kind = scheme.hub_kind(&kind);
    match refusal(&kind) {
        Some(why) => Err(format!("{} cannot be kept elsewhere: {why}", kind.kind())),
        None => Ok(kind),
    }
}

fn refusal(kind: &Kind) -> Option<&'static str> {
    if let Some((_, why)) = KEPT_HERE.iter().find(|(message, _)| *message == kind.full_name()) {
        return Some(why);
    }
    if kind.server_owned() || kind.internal() {
        return Some("only this server itself writes it");
    }
    if kind.shareable() {
        return Some("its objects can be shared between projects, which is looked up in the store");
    }
    if kind.versioned() {
        return Some("its versions are kept, which is done in the store");
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(name: &str, expect: Result<&str, &str>) {
        let scheme = Scheme::builtin().expect("our own kinds");
        let found = eligible(&scheme, name);
        match (found, expect) {
            (Ok(kind), Ok(expect)) => assert_eq!(kind.plural(), expect),
            (Err(why), Err(expect)) => assert!(why.contains(expect), "{name}: {why}"),
            (found, expect) => panic!("{name}: {found:?}, not {expect:?}"),
        }
    }

    /// proves: HUB-06
    #[test]
    fn what_is_only_read_here_can_be_kept_elsewhere() {
        check("MachineClass", Ok("machineclasses"));
        check("mclass", Ok("machineclasses"));
        check("MeshService", Ok("meshservices"));
    }

    #[test]
    fn what_cannot_be_kept_elsewhere_is_refused_with_a_reason() {
        check("Machineclas", Err("MachineClass"));
        check("Project", Err("is in one of its projects"));
        check("WorkloadInstance", Err("only this server itself writes it"));
        check("Secret", Err("can be shared between projects"));
        check("Workload", Err("versions are kept"));
        check("Role", Err("who may do what"));
        check("Volume", Err("acts on it"));
    }

    /// A name that changed would let a kind in that must stay out.
    #[test]
    fn the_kinds_that_stay_are_kinds() {
        let scheme = Scheme::builtin().expect("our own kinds");
        for (message, _) in KEPT_HERE {
            assert!(scheme.by_full_name(message).is_some(), "{message}");
        }
    }
}
