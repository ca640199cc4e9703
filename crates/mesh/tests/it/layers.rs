//! Who may know what, held over the sources of this crate.
use std::path::{Path, PathBuf};

/// A module, and what its code must not mention.
const FORBIDDEN: &[(&str, &[&str])] = &[
    (
        "names.rs",
        &["address", "topology", "providers", "catalog", "xds", "envoy", "control", "grpc"],
    ),
    ("address.rs", &["topology", "providers", "catalog", "xds", "envoy", "control", "grpc"]),
    (
        "topology",
        &[
            "address",
            "providers",
            "secrets",
            "catalog",
            "xds",
            "envoy",
            "control",
            "grpc",
            "kubernetes",
            "hub",
        ],
    ),
    (
        "providers",
        &[
            "topology", "secrets", "catalog", "xds", "envoy", "control", "grpc", "declared", "smi",
            "hub",
        ],
    ),
    (
        "declared",
        &["address", "providers", "secrets", "catalog", "xds", "envoy", "control", "grpc", "hub"],
    ),
    ("smi", &["address", "topology", "providers", "catalog", "xds", "envoy", "control", "hub"]),
    (
        "kubernetes.rs",
        &["address", "topology", "declared", "smi", "catalog", "xds", "envoy", "hub"],
    ),
    (
        "secrets",
        &["address", "topology", "providers", "catalog", "xds", "envoy", "control", "grpc"],
    ),
    ("catalog", &["xds", "envoy", "control", "grpc"]),
    (
        "xds",
        &["address", "topology", "providers", "secrets", "catalog", "envoy", "control", "grpc"],
    ),
    ("envoy", &["providers", "control", "grpc"]),
    ("control", &["grpc"]),
];

/// Libraries that only these modules may see.
const PRIVATE: &[(&str, &[&str])] = &[
    ("envoy_types", &["envoy", "grpc"]),
    ("tonic", &["grpc"]),
    ("kube::", &["kubernetes.rs", "providers", "hub"]),
    ("std::net", &["address.rs", "identity.rs", "providers", "hub", "control", "envoy", "grpc"]),
];

fn source() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("src")
}

/// Every file of a module, tests aside: they may set a scene with anything.
fn files(module: &Path) -> Vec<PathBuf> {
    if module.is_file() {
        return vec![module.to_owned()];
    }
    let entries = std::fs::read_dir(module).expect("the module is a folder");
    let paths = entries.map(|entry| entry.expect("readable").path());
    let is_code =
        |path: &PathBuf| !["tests.rs", "properties.rs"].iter().any(|end| path.ends_with(end));
    paths.filter(is_code).flat_map(|path| files(&path)).collect()
}

/// The code before the tests, without comments.
fn code(file: &Path) -> String {
    let text = std::fs::read_to_string(file).expect("a source file");
    let before_tests = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
    let lines = before_tests.lines().filter(|line| !line.trim_start().starts_with("//"));
    lines.collect::<Vec<_>>().join("\n")
}

/// proves: MSH-04, MSH-05
#[test]
fn modules_know_only_what_they_may() {
    for (module, forbidden) in FORBIDDEN {
        for file in files(&source().join(module)) {
            for other in *forbidden {
                let mention = format!("crate::{other}");
                assert!(!code(&file).contains(&mention), "{} mentions {mention}", file.display());
            }
        }
    }
}

#[test]
fn libraries_stay_where_they_belong() {
    for file in files(&source()) {
        let module = file.strip_prefix(source()).expect("under the sources");
        let module = module.iter().next().and_then(|part| part.to_str()).expect("a name");
        for (library, owners) in PRIVATE {
            let may = owners.contains(&module);
            assert!(may || !code(&file).contains(library), "{} sees {library}", file.display());
        }
    }
}
