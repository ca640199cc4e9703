//! Where the workspace is, which files it has and which crates.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use cargo_metadata::{Metadata, MetadataCommand};

/// Folders that hold nothing we wrote.
const SKIPPED: [&str; 4] = ["target", ".git", "node_modules", ".orrery"];

/// The root of the workspace, wherever we were called from.
pub fn root() -> Result<PathBuf> {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let root = here.parent().context("xtask lies in the workspace")?;
    Ok(root.to_owned())
}

/// A text file of ours, with its path from the root.
pub struct SourceFile {
    pub path: PathBuf,
    pub text: String,
}

impl SourceFile {
    pub fn has_extension(&self, any_of: &[&str]) -> bool {
        let extension = self.path.extension().and_then(|extension| extension.to_str());
        extension.is_some_and(|extension| any_of.contains(&extension))
    }

    /// The folder under `crates/`, or `xtask`.
    pub fn crate_folder(&self) -> Option<&str> {
        let mut parts = self.path.iter().filter_map(|part| part.to_str());
        match (parts.next(), parts.next()) {
            (Some("crates"), Some(folder)) => Some(folder),
            (Some("xtask"), Some(_)) => Some("xtask"),
            _ => None,
        }
    }
}

/// Every file with one of these extensions, in order of path.
pub fn source_files(root: &Path, extensions: &[&str]) -> Result<Vec<SourceFile>> {
    let mut paths = Vec::new();
    collect(root, extensions, &mut paths)?;
    paths.sort();
    paths.into_iter().map(|path| read(root, &path)).collect()
}

fn collect(folder: &Path, extensions: &[&str], paths: &mut Vec<PathBuf>) -> Result<()> {
    let entries = fs::read_dir(folder).with_context(|| format!("list {}", folder.display()))?;
    for entry in entries {
        let entry = entry?;
        let (path, kind) = (entry.path(), entry.file_type()?);
        let name = entry.file_name();
        if kind.is_dir() && !SKIPPED.iter().any(|skipped| name == *skipped) {
            collect(&path, extensions, paths)?;
        }
        let extension = path.extension().and_then(|extension| extension.to_str());
        if kind.is_file() && extension.is_some_and(|extension| extensions.contains(&extension)) {
            paths.push(path);
        }
    }
    Ok(())
}

fn read(root: &Path, path: &Path) -> Result<SourceFile> {
    let text = fs::read_to_string(path).with_context(|| format!("read {}", path.display()))?;
    Ok(SourceFile { path: path.strip_prefix(root)?.to_owned(), text })
}

/// What cargo knows of the workspace and its dependencies, for the given targets.
pub fn metadata(root: &Path, targets: &[String]) -> Result<Metadata> {
    let filters = targets.iter().map(|target| format!("--filter-platform={target}"));
    MetadataCommand::new()
        .manifest_path(root.join("Cargo.toml"))
        .other_options(filters.collect::<Vec<_>>())
        .exec()
        .context("run cargo metadata")
}
