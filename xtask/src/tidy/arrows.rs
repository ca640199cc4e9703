//! Which crate may know which: the picture in `ARCHITECTURE.md`, as a table that is held.

use std::path::Path;

use cargo_metadata::{DependencyKind, Metadata, Package};

use super::Finding;

const PREFIX: &str = "orrery-";

/// A crate, and the crates of ours it may use. Tests may use more, see [`FOR_TESTS`].
const ARROWS: &[(&str, &[&str])] = &[
    ("proto", &[]),
    ("pki", &[]),
    ("seal", &[]),
    ("console", &[]),
    ("trace", &[]),
    ("store", &[]),
    ("api", &["proto"]),
    ("hub", &["api", "store", "proto", "seal"]),
    ("runtime", &["api", "hub", "proto"]),
    // One domain each; they meet in the store and never know each other.
    ("access", DOMAIN),
    ("lifecycle", DOMAIN),
    ("machines", DOMAIN),
    ("clusters", DOMAIN),
    ("fleet", DOMAIN),
    ("mesh", DOMAIN),
    ("volumes", DOMAIN),
    ("gitsync", DOMAIN),
    (
        "server",
        &[
            "access",
            "api",
            // To reach other servers.
            "client",
            "clusters",
            "console",
            "fleet",
            "gitsync",
            "hub",
            "lifecycle",
            "machines",
            "mesh",
            "pki",
            "proto",
            "runtime",
            "seal",
            "store",
            "trace",
            "volumes",
        ],
    ),
    ("client", &["api", "pki", "proto", "trace"]),
    ("agent", EDGE),
    ("driver", EDGE),
    ("storage-node", EDGE),
    ("terraform", EDGE),
    (
        "cli",
        &[
            "agent",
            "api",
            "client",
            "driver",
            "pki",
            "proto",
            "runtime",
            "seal",
            "server",
            "storage-node",
            "store",
            "trace",
        ],
    ),
    ("fuzz", &["access", "api", "hub", "pki", "proto", "seal", "server", "store"]),
    (
        "testkit",
        &[
            "access",
            "agent",
            "api",
            "client",
            "driver",
            "fleet",
            "gitsync",
            "hub",
            "lifecycle",
            "machines",
            "mesh",
            "pki",
            "proto",
            "runtime",
            "seal",
            "server",
            "storage-node",
            "store",
            "volumes",
        ],
    ),
    ("bench", &["api", "client", "driver", "hub", "pki", "proto", "store"]),
    ("xtask", &[]),
];

/// What a domain builds on. `pki` is there for the identity of the peer that an edge service serves.
const DOMAIN: &[&str] = &["api", "hub", "pki", "proto", "runtime"];

/// What a process at the edge builds on: never the server's side.
const EDGE: &[&str] = &["api", "client", "pki", "proto"];

/// In tests every crate may use the world in one process, and make certificates.
const FOR_TESTS: &[&str] = &["testkit", "pki"];

/// In tests an edge service may meet the real peer on the other side of its wire.
const PEERS_FOR_TESTS: &[(&str, &[&str])] = &[
    ("machines", &["driver"]),
    ("driver", &["hub"]),
    // What a cluster writes for a driver is read as the driver reads it.
    ("clusters", &["driver"]),
    ("fleet", &["agent", "client"]),
    // Its benchmark drives the proxy as those of the other servers do.
    ("volumes", &["storage-node", "client", "bench"]),
    ("storage-node", &["volumes"]),
    ("lifecycle", &["store"]),
    ("server", &["client"]),
];

/// Libraries that one crate alone may see, so that replacing one of them touches one crate.
const PRIVATE: &[(&str, &str)] = &[
    ("fjall", "store"),
    ("etcd-client", "store"),
    ("envoy-types", "mesh"),
    ("opentelemetry", "trace"),
    ("opentelemetry_sdk", "trace"),
    ("opentelemetry-otlp", "trace"),
    ("tracing-opentelemetry", "trace"),
];

/// Libraries that a crate must do without: `api` is pure and synchronous.
const FORBIDDEN: &[(&str, &str)] = &[("api", "tokio"), ("api", "tonic"), ("pki", "tokio")];

pub fn check(root: &Path, metadata: &Metadata) -> Vec<Finding> {
    let members = metadata.workspace_packages();
    members.into_iter().flat_map(|package| in_package(root, package)).collect()
}

fn in_package(root: &Path, package: &Package) -> Vec<Finding> {
    let manifest = package.manifest_path.as_std_path();
    let manifest = manifest.strip_prefix(root).unwrap_or(manifest);
    let from = short(&package.name);
    let uses = package.dependencies.iter().map(|dependency| Use {
        to: &dependency.name,
        for_tests: dependency.kind == DependencyKind::Development,
    });
    let mut advice: Vec<String> = uses.filter_map(|used| problem(from, used)).collect();
    if allowed(from).is_none() {
        advice.push(format!(
            "{from} is not in the table of xtask/src/tidy/arrows.rs: place it there"
        ));
    }
    advice.into_iter().map(|advice| Finding::new(manifest, 1, "arrow", advice)).collect()
}

/// One dependency of a crate, as its manifest states it.
#[derive(Clone, Copy)]
struct Use<'a> {
    to: &'a str,
    for_tests: bool,
}

fn problem(from: &str, used: Use<'_>) -> Option<String> {
    let to = used.to;
    if let Some((_, owner)) =
        PRIVATE.iter().find(|(library, owner)| *library == to && *owner != from)
    {
        return Some(format!("only {owner} may use {to}: ask it through its own types"));
    }
    if !used.for_tests && FORBIDDEN.contains(&(from, to)) {
        return Some(format!("{from} must do without {to}"));
    }
    let ours = to.strip_prefix(PREFIX)?;
    let permitted = allowed(from).is_some_and(|allowed| allowed.contains(&ours));
    let for_tests = used.for_tests && may_use_for_tests(from, ours);
    (!permitted && !for_tests).then(|| {
        let known = allowed(from).unwrap_or_default().join(", ");
        format!("{from} must not know {ours}; it may use: {known}")
    })
}

/// A crate may use itself in tests: that is how it turns on a feature for them.
fn may_use_for_tests(from: &str, to: &str) -> bool {
    let peers = PEERS_FOR_TESTS.iter().find(|(name, _)| *name == from).map(|(_, peers)| *peers);
    from == to || FOR_TESTS.contains(&to) || peers.unwrap_or_default().contains(&to)
}

fn allowed(name: &str) -> Option<&'static [&'static str]> {
    ARROWS.iter().find(|(from, _)| *from == name).map(|(_, allowed)| *allowed)
}

fn short(package: &str) -> &str {
    package.strip_prefix(PREFIX).unwrap_or(package)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(from: &str, to: &str, for_tests: bool, expect: bool) {
        let found = problem(from, Use { to, for_tests });
        assert_eq!(found.is_none(), expect, "{from} -> {to}: {found:?}");
    }

    #[test]
    fn arrows_between_our_crates() {
        check("hub", "orrery-store", false, true);
        check("store", "orrery-hub", false, false);
        check("store", "orrery-api", false, false);
        check("fleet", "orrery-machines", false, false);
        check("fleet", "orrery-store", false, false);
        check("agent", "orrery-hub", false, false);
        check("agent", "orrery-client", false, true);
        check("client", "orrery-store", false, false);
        check("cli", "orrery-server", false, true);
        check("newcomer", "orrery-api", false, false);
    }

    #[test]
    fn tests_may_use_more() {
        check("hub", "orrery-testkit", true, true);
        check("hub", "orrery-testkit", false, false);
        check("store", "orrery-store", true, true);
        check("machines", "orrery-driver", true, true);
        check("machines", "orrery-driver", false, false);
        check("machines", "orrery-agent", true, false);
    }

    #[test]
    fn libraries_with_one_owner() {
        check("store", "fjall", false, true);
        check("hub", "fjall", false, false);
        check("hub", "etcd-client", true, false);
        check("mesh", "envoy-types", false, true);
        check("server", "envoy-types", false, false);
        check("api", "tokio", false, false);
        check("api", "tokio", true, true);
        check("hub", "tokio", false, true);
    }

    /// Arrows that ran in a circle would be no layers.
    #[test]
    fn the_table_has_no_circle_and_no_stranger() {
        let mut placed: Vec<&str> = Vec::new();
        while placed.len() < ARROWS.len() {
            let ready = ARROWS.iter().find(|(name, uses)| {
                !placed.contains(name) && uses.iter().all(|used| placed.contains(used))
            });
            placed.push(ready.expect("every crate builds on crates below it").0);
        }
    }
}
