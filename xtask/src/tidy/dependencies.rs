//! What we depend on: versions, licences and sources, by the lists in `deny.toml`.
//!
//! `cargo deny` reads the same file and looks closer (it also reads licence texts), but it takes
//! minutes to build where it is missing. These are the checks that must never be left out.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context, Result};
use cargo_metadata::{Metadata, Package};
use serde::Deserialize;

use super::{Finding, licence};

/// The part of `deny.toml` that is applied here; what we do not read is `cargo deny`'s alone.
#[derive(Debug, Deserialize)]
pub struct Policy {
    pub graph: Graph,
    bans: Bans,
    licenses: Licences,
}

#[derive(Debug, Deserialize)]
pub struct Graph {
    pub targets: Vec<String>,
}

#[derive(Debug, Deserialize)]
struct Bans {
    deny: Vec<Ban>,
}

/// Either the crate is banned or, with `deny-multiple-versions`, a second version of it is.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
struct Ban {
    #[serde(rename = "crate")]
    name: String,
    #[serde(default)]
    deny_multiple_versions: bool,
    #[serde(default)]
    reason: String,
}

#[derive(Debug, Deserialize)]
struct Licences {
    allow: Vec<String>,
    #[serde(default)]
    exceptions: Vec<LicenceException>,
}

#[derive(Debug, Deserialize)]
struct LicenceException {
    #[serde(rename = "crate")]
    name: String,
    allow: Vec<String>,
}

impl Policy {
    pub fn read(root: &Path) -> Result<Self> {
        let text = std::fs::read_to_string(root.join("deny.toml")).context("read deny.toml")?;
        toml::from_str(&text).context("parse deny.toml")
    }
}

pub fn check(policy: &Policy, metadata: &Metadata) -> Vec<Finding> {
    let packages: Vec<Dependency> = metadata.packages.iter().map(Dependency::of).collect();
    let mut advice = banned(&policy.bans.deny, &packages);
    advice.extend(packages.iter().filter_map(|package| unlicensed(&policy.licenses, package)));
    advice.extend(packages.iter().filter_map(from_elsewhere));
    let path = Path::new("deny.toml");
    advice.into_iter().map(|advice| Finding::new(path, 1, "dependency", advice)).collect()
}

/// What the rules look at in a package.
#[derive(Clone, Debug)]
struct Dependency {
    name: String,
    version: String,
    licence: String,
    /// `None` for the crates of this workspace.
    is_from_registry: Option<bool>,
}

impl Dependency {
    fn of(package: &Package) -> Self {
        Self {
            name: package.name.to_string(),
            version: package.version.to_string(),
            licence: package.license.clone().unwrap_or_default(),
            is_from_registry: package.source.as_ref().map(|source| source.is_crates_io()),
        }
    }
}

fn banned(bans: &[Ban], packages: &[Dependency]) -> Vec<String> {
    let mut versions: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for package in packages {
        versions.entry(&package.name).or_default().push(&package.version);
    }
    bans.iter()
        .filter_map(|ban| {
            let found = versions.get(ban.name.as_str())?;
            let limit = usize::from(ban.deny_multiple_versions);
            let (name, versions, reason) = (&ban.name, found.join(", "), &ban.reason);
            (limit < found.len()).then(|| {
                let most = if limit == 0 { "is banned" } else { "must have one version" };
                format!("{name} {most} but has {versions}: {reason}; see: cargo tree -i {name}")
            })
        })
        .collect()
}

/// Our own crates are under the LICENSE of the workspace and are not asked.
fn unlicensed(policy: &Licences, package: &Dependency) -> Option<String> {
    package.is_from_registry?;
    let exceptions = policy.exceptions.iter().filter(|exception| exception.name == package.name);
    let extra: Vec<&String> = exceptions.flat_map(|exception| &exception.allow).collect();
    let allowed = |licence: &str| {
        policy.allow.iter().chain(extra.iter().copied()).any(|allowed| allowed == licence)
    };
    let Dependency { name, licence, .. } = package;
    (!licence::is_met(licence, &allowed))
        .then(|| format!("{name} has licence {licence:?}, which the allow-list does not meet"))
}

fn from_elsewhere(package: &Dependency) -> Option<String> {
    let Dependency { name, version, is_from_registry, .. } = package;
    (*is_from_registry == Some(false))
        .then(|| format!("{name} {version} does not come from the public registry"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mk(name: &str, version: &str, licence: &str) -> Dependency {
        Dependency {
            name: name.to_owned(),
            version: version.to_owned(),
            licence: licence.to_owned(),
            is_from_registry: Some(true),
        }
    }

    fn policy() -> Policy {
        toml::from_str(
            r#"
            [graph]
            targets = []
            [bans]
            deny = [{ crate = "bad" }, { crate = "once", deny-multiple-versions = true, reason = "wire" }]
            [licenses]
            allow = ["MIT"]
            exceptions = [{ crate = "odd", allow = ["Odd-1"] }]
            "#,
        )
        .unwrap()
    }

    #[test]
    fn bans() {
        let count = |packages: &[Dependency]| banned(&policy().bans.deny, packages).len();
        assert_eq!(count(&[mk("fine", "1", "MIT"), mk("fine", "2", "MIT")]), 0);
        assert_eq!(count(&[mk("bad", "1", "MIT")]), 1);
        assert_eq!(count(&[mk("once", "1", "MIT")]), 0);
        assert_eq!(count(&[mk("once", "1", "MIT"), mk("once", "2", "MIT")]), 1);
    }

    #[test]
    fn licences() {
        let refused = |package: &Dependency| unlicensed(&policy().licenses, package).is_some();
        assert!(!refused(&mk("a", "1", "MIT OR GPL-3.0")));
        assert!(!refused(&mk("odd", "1", "Odd-1")));
        assert!(refused(&mk("a", "1", "Odd-1")));
        assert!(refused(&mk("a", "1", "")));
        assert!(!refused(&Dependency { is_from_registry: None, ..mk("ours", "1", "") }));
    }

    #[test]
    fn sources() {
        let from = |is_from_registry| Dependency { is_from_registry, ..mk("a", "1", "MIT") };
        assert!(from_elsewhere(&from(Some(true))).is_none());
        assert!(from_elsewhere(&from(None)).is_none());
        assert!(from_elsewhere(&from(Some(false))).is_some());
    }
}
