//! Kinds as people type them.
use anyhow::bail;
use orrery_proto::hub::v1::{DiscoverResponse, KindInfo, ResourceName};
use std::collections::BTreeSet;

/// The kind that goes by this name: kind, plural, singular, short name, or plural.group.
pub fn find<'a>(server: &'a DiscoverResponse, typed: &str) -> anyhow::Result<&'a KindInfo> {
    let wanted = typed.to_lowercase();
    let found = server.kinds.iter().find(|kind| names(kind).any(|name| name == wanted));
    if let Some(kind) = found {
        return Ok(kind);
    }
    // A kind has one name in all its versions.
    let known: BTreeSet<&str> = server.kinds.iter().map(|kind| kind.plural.as_str()).collect();
    let known: Vec<&str> = known.into_iter().collect();
    bail!("the server does not know the kind {typed:?}; it knows: {}", known.join(", "))
}

/// The kinds behind names with commas between them; a name may also be a category such as `all`.
pub fn find_all<'a>(
    server: &'a DiscoverResponse,
    typed: &str,
) -> anyhow::Result<Vec<&'a KindInfo>> {
    let mut found: Vec<&KindInfo> = Vec::new();
    for word in typed.split(',').filter(|word| !word.is_empty()) {
        let in_category: Vec<&KindInfo> =
            server.kinds.iter().filter(|kind| kind.categories.iter().any(|c| c == word)).collect();
        let more = if in_category.is_empty() { vec![find(server, word)?] } else { in_category };
        for kind in more {
            if !found.contains(&kind) {
                found.push(kind);
            }
        }
    }
    if found.is_empty() {
        bail!("which kind? {typed:?} names none");
    }
    Ok(found)
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

/// The name of one resource of a kind.
pub fn named(kind: &KindInfo, project: &str, name: &str) -> ResourceName {
    ResourceName {
        api_version: api_version(kind),
        kind: kind.kind.clone(),
        project: if kind.cluster_scoped { String::new() } else { project.to_owned() },
        name: name.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mk_server() -> DiscoverResponse {
        let kind = |kind: &str, plural: &str, short: &str, categories: &[&str]| KindInfo {
            group: "apps.orrery.dev".into(),
            version: "v1".into(),
            kind: kind.into(),
            plural: plural.into(),
            singular: kind.to_lowercase(),
            short_names: vec![short.into()],
            categories: categories.iter().map(ToString::to_string).collect(),
            ..KindInfo::default()
        };
        DiscoverResponse {
            kinds: vec![
                kind("Workload", "workloads", "wl", &["all"]),
                kind("Node", "nodes", "no", &[]),
                kind("Volume", "volumes", "vol", &["all"]),
            ],
            ..DiscoverResponse::default()
        }
    }

    #[track_caller]
    fn check(typed: &str, expect: &str) {
        let server = mk_server();
        let found = find_all(&server, typed).map_or_else(
            |_| "error".to_owned(),
            |kinds| kinds.iter().map(|k| k.kind.as_str()).collect::<Vec<_>>().join(" "),
        );
        assert_eq!(found, expect, "{typed}");
    }

    #[test]
    fn kinds_are_found_by_any_of_their_names() {
        check("workloads", "Workload");
        check("Workload", "Workload");
        check("wl", "Workload");
        check("workloads.apps.orrery.dev", "Workload");
        check("workloads.v1.apps.orrery.dev", "Workload");
        check("wl,no", "Workload Node");
        check("no,all,wl", "Node Workload Volume");
        check("pods", "error");
        check("wl,pods", "error");
        check(",", "error");
    }
}
