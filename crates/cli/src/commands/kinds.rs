//! Kinds as people type them.
use anyhow::bail;
use orrery_proto::hub::v1::{DiscoverResponse, KindInfo};

/// The kind that goes by this name: kind, plural, singular, short name, or plural.group.
pub fn find<'a>(server: &'a DiscoverResponse, typed: &str) -> anyhow::Result<&'a KindInfo> {
    let wanted = typed.to_lowercase();
    let found = server.kinds.iter().find(|kind| names(kind).any(|name| name == wanted));
    if let Some(kind) = found {
        return Ok(kind);
    }
    let known: Vec<&str> = server.kinds.iter().map(|kind| kind.plural.as_str()).collect();
    bail!("the server does not know the kind {typed:?}; it knows: {}", known.join(", "))
}

fn names(kind: &KindInfo) -> impl Iterator<Item = String> + '_ {
    let own = [kind.kind.to_lowercase(), kind.plural.clone(), kind.singular.clone()];
    let qualified = [
        format!("{}.{}", kind.plural, kind.group),
        format!("{}.{}.{}", kind.plural, kind.version, kind.group),
    ];
    own.into_iter().chain(kind.short_names.iter().cloned()).chain(qualified)
}

pub fn api_version(kind: &KindInfo) -> String {
    format!("{}/{}", kind.group, kind.version)
}
