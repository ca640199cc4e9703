//! The rules that a reviewer should not have to repeat.
//!
//! Each rule is a pure function from sources to findings; [`findings`] reads the workspace once and
//! hands it to all of them. It runs as `cargo xtask tidy`, as a step of `cargo xtask test`, and as a
//! test of this crate.

mod arrows;
mod crate_docs;
mod dependencies;
mod doc_tests;
mod licence;
mod links;
mod protos;
mod sizes;
mod source;
mod words;

use std::fmt;
use std::path::{Path, PathBuf};

use anyhow::Result;

pub use doc_tests::packages_with_doc_tests;

use crate::workspace::{self, SourceFile};

const EXTENSIONS: [&str; 8] = ["rs", "proto", "md", "toml", "py", "js", "ts", "sh"];

/// A broken rule, where, and what to do about it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Finding {
    pub path: PathBuf,
    pub line: usize,
    pub rule: &'static str,
    pub advice: String,
}

impl Finding {
    fn new(path: &Path, line: usize, rule: &'static str, advice: impl Into<String>) -> Self {
        Self { path: path.to_owned(), line, rule, advice: advice.into() }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}: {}", self.path.display(), self.line, self.rule, self.advice)
    }
}

/// Prints what is found; true when that is nothing.
pub fn run() -> Result<bool> {
    let (files, findings) = findings(&workspace::root()?)?;
    for finding in &findings {
        println!("{finding}");
    }
    println!("tidy: {files} files looked at, {} findings", findings.len());
    Ok(findings.is_empty())
}

/// How many files were read, and all findings in order of place.
fn findings(root: &Path) -> Result<(usize, Vec<Finding>)> {
    let files = workspace::source_files(root, &EXTENSIONS)?;
    let policy = dependencies::Policy::read(root)?;
    let metadata = workspace::metadata(root, &policy.graph.targets)?;
    let mut found: Vec<Finding> = files.iter().flat_map(in_file).collect();
    found.extend(links::check(root, &files));
    found.extend(protos::check(&files));
    found.extend(crate_docs::check(&files));
    found.extend(arrows::check(root, &metadata));
    found.extend(dependencies::check(&policy, &metadata));
    found.sort();
    Ok((files.len(), found))
}

/// The rules that need no more than one file.
fn in_file(file: &SourceFile) -> Vec<Finding> {
    let mut found = sizes::check(file);
    found.extend(words::check(file));
    if file.has_extension(&["rs"]) {
        found.extend(source::check(file));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_workspace_is_tidy() {
        let (files, found) = findings(&workspace::root().unwrap()).unwrap();
        let lines: Vec<String> = found.iter().map(ToString::to_string).collect();
        assert!(found.is_empty(), "\n{}", lines.join("\n"));
        assert!(20 < files, "only {files} files were found; is the root right?");
    }

    #[test]
    fn a_finding_reads_like_a_compiler_message() {
        let finding = Finding::new(Path::new("a/b.rs"), 7, "unwrap", "say why");
        assert_eq!(finding.to_string(), "a/b.rs:7: unwrap: say why");
    }
}
