//! Every contract in `proto/` lies where its package says, and the `proto` crate has a module for it.

use std::path::Path;

use super::Finding;
use crate::workspace::SourceFile;

pub fn check(files: &[SourceFile]) -> Vec<Finding> {
    let in_crate = |file: &&SourceFile| file.path.starts_with("crates/proto/src");
    let modules: String = files.iter().filter(in_crate).map(|file| file.text.as_str()).collect();
    let contracts = files.iter().filter(|file| file.has_extension(&["proto"]));
    contracts
        .filter(|file| file.path.starts_with("proto"))
        .filter_map(|file| {
            let advice = problem(&file.path, &file.text, &modules)?;
            Some(Finding::new(&file.path, 1, "unreachable-proto", advice))
        })
        .collect()
}

fn problem(path: &Path, text: &str, modules: &str) -> Option<String> {
    let Some(package) = package(text) else {
        return Some("it names no package".to_owned());
    };
    let folder = Path::new("proto").join(package.replace('.', "/"));
    if path.parent() != Some(&folder) {
        return Some(format!("package {package} belongs into {}", folder.display()));
    }
    if !is_included(package, modules) {
        return Some(format!("no module in crates/proto/src includes package {package}"));
    }
    None
}

fn package(text: &str) -> Option<&str> {
    let mut lines = text.lines();
    lines.find_map(|line| line.strip_prefix("package ")?.split(';').next().map(str::trim))
}

/// By its full name; for `orrery.<group>.v1`, by its group in the list of `packages!`; for
/// `smi.<group>.<version>`, by its version in the group's list of `versions!`.
fn is_included(package: &str, modules: &str) -> bool {
    if modules.contains(&format!("{package}.rs")) || modules.contains(&format!("\"{package}\"")) {
        return true;
    }
    if let Some((group, version)) =
        package.strip_prefix("smi.").and_then(|rest| rest.split_once('.'))
    {
        let list = modules.split(&format!("versions!({group}:")).nth(1);
        let listed = list.and_then(|rest| rest.split(')').next()).unwrap_or_default();
        return listed.split(',').any(|listed| listed.trim() == version);
    }
    let group = package.strip_prefix("orrery.").and_then(|rest| rest.strip_suffix(".v1"));
    let lists = modules.split("packages!(").skip(1).filter_map(|rest| rest.split(')').next());
    let mut groups = lists.flat_map(|list| list.split(',')).map(str::trim);
    group.is_some_and(|group| groups.any(|listed| listed == group))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MODULES: &str = "packages!(apps,\n core);\ninclude!(\"/oim.v0.rs\");\nversions!(split: v1alpha1, v1alpha2);";

    #[track_caller]
    fn check_proto(path: &str, text: &str, expect: Option<&str>) {
        let found = problem(Path::new(path), text, MODULES);
        match (&found, expect) {
            (Some(found), Some(expect)) => assert!(found.contains(expect), "{found}"),
            (found, expect) => assert_eq!(found.is_some(), expect.is_some(), "{path}: {found:?}"),
        }
    }

    #[test]
    fn contracts_and_their_modules() {
        check_proto("proto/orrery/apps/v1/a.proto", "\npackage orrery.apps.v1;\n", None);
        check_proto("proto/orrery/core/v1/a.proto", "package orrery.core.v1;", None);
        check_proto("proto/oim/v0/oim.proto", "package oim.v0;", None);
        check_proto("proto/smi/split/v1alpha2/a.proto", "package smi.split.v1alpha2;", None);
        check_proto(
            "proto/smi/split/v1/a.proto",
            "package smi.split.v1;",
            Some("no module in crates/proto/src"),
        );
        check_proto("proto/orrery/app/v1/a.proto", "package orrery.app.v1;", Some("no module"));
        check_proto("proto/orrery/x/v1/a.proto", "package orrery.core.v1;", Some("belongs into"));
        check_proto("proto/a.proto", "syntax = \"proto3\";", Some("names no package"));
    }
}
