//! Relative paths that stay where they are put.
use std::fmt;
use std::str::FromStr;

/// Longest path; with the rest of its key it stays below what the store takes.
pub const PATH_BYTES_MAX: usize = 512;
/// Longest part of a path, as file systems take it.
const PART_BYTES_MAX: usize = 255;

/// A path below the folder of a manifest: it never leads out of it, on any system, and has one
/// spelling.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ArtifactPath(String);

/// Why a text is not such a path.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("artifact path {path:?} {problem}")]
pub struct PathError {
    pub path: String,
    pub problem: &'static str,
}

impl ArtifactPath {
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for ArtifactPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromStr for ArtifactPath {
    type Err = PathError;

    fn from_str(text: &str) -> Result<Self, PathError> {
        match problem_of(text) {
            None => Ok(Self(text.to_owned())),
            Some(problem) => Err(PathError { path: text.chars().take(80).collect(), problem }),
        }
    }
}

fn problem_of(text: &str) -> Option<&'static str> {
    if text.is_empty() {
        return Some("is empty");
    }
    if PATH_BYTES_MAX < text.len() {
        return Some("is longer than 512 bytes");
    }
    if text.starts_with('/') {
        return Some("must be relative: remove the leading slash");
    }
    if text.chars().any(|c| c.is_control() || matches!(c, '\\' | ':')) {
        return Some("must not have backslashes, colons or control characters");
    }
    text.split('/').find_map(problem_of_part)
}

fn problem_of_part(part: &str) -> Option<&'static str> {
    match part {
        "" => Some("must not have empty parts: remove the double or trailing slash"),
        "." | ".." => Some("must not have . or .. as a part"),
        part if PART_BYTES_MAX < part.len() => Some("has a part of more than 255 bytes"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::path::{Component, Path};

    #[test]
    fn good_paths_are_taken_as_they_are() {
        for good in ["a", "a/b.txt", ".hidden/..twice", "sp ace", "ä/ö", "a/...", "~/x"] {
            assert_eq!(good.parse::<ArtifactPath>().expect("good").as_str(), good);
        }
    }

    #[test]
    fn paths_that_could_lead_elsewhere_are_refused() {
        let long = "x".repeat(256);
        let longer = "x/".repeat(300);
        let bad = [
            "",
            "/etc/passwd",
            "..",
            "a/../b",
            "./a",
            "a//b",
            "a/",
            "a\\b",
            "C:x",
            "a\0b",
            "a\nb",
            long.as_str(),
            longer.as_str(),
        ];
        for bad in bad {
            assert!(bad.parse::<ArtifactPath>().is_err(), "{bad:?}");
        }
    }

    proptest! {
        #[test]
        fn whatever_is_taken_stays_below(text in "[a./\\\\:ä]{0,12}") {
            if let Ok(path) = text.parse::<ArtifactPath>() {
                let normal = |part| matches!(part, Component::Normal(_));
                prop_assert!(Path::new(path.as_str()).components().all(normal));
                let again: std::path::PathBuf = Path::new(path.as_str()).components().collect();
                prop_assert_eq!(again.to_str(), Some(path.as_str()));
            }
        }
    }
}
