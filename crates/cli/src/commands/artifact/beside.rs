//! Files beside manifests: they become artifacts of the resources that name them.
//!
//! ```text
//!   manifests ──named paths──> beside each file ──found──┐ (before anything is sent)
//!   applied resources ─────────────────────────────────────┴─> upload what the server has not
//! ```
use super::progress::size;
use super::{Shelf, transfer};
use crate::manifests;
use crate::output::{print, style};
use crate::scheme;
use crate::session::{Session, Writing, reason};
use crate::targets::Resource;
use anyhow::{Context as _, bail, ensure};
use orrery_api::{Manifest, named_artifacts};
use orrery_client::files::{File, Files};
use orrery_proto::hub::v1::DiscoverResponse;
use orrery_server::ArtifactPath;
use sha2::{Digest as _, Sha256};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use tokio::io::AsyncReadExt as _;

/// The files that some manifests name.
#[derive(Default)]
pub struct Beside {
    owners: Vec<Named>,
}

/// The files that one manifest names.
struct Named {
    resource: Resource,
    source: String,
    /// By the path of the artifact; nothing where no file is beside the manifest.
    files: BTreeMap<String, Option<PathBuf>>,
}

impl Beside {
    /// Looks for the files of all manifests, so that what is wrong is said before anything is sent.
    pub fn find(manifests: &[Manifest], known: &DiscoverResponse) -> anyhow::Result<Self> {
        // What a server of another version has there, it knows itself.
        let Some(scheme) = scheme::shared(known)? else { return Ok(Self::default()) };
        let mut owners = Vec::new();
        for manifest in manifests {
            let text = |key: &str| manifest.value[key].as_str().unwrap_or_default();
            let Ok(kind) = scheme.resolve(text("apiVersion"), text("kind")) else { continue };
            let paths = named_artifacts(&kind, &manifest.value);
            if paths.is_empty() {
                continue;
            }
            let mut files = BTreeMap::new();
            for path in paths {
                let found = found(&manifest.source_name, &path);
                let found = found.with_context(|| manifest.at(""))?;
                files.insert(path, found);
            }
            let resource = Resource::declared(known, &manifest.value)?;
            owners.push(Named { resource, source: manifest.source_name.clone(), files });
        }
        Ok(Self { owners })
    }

    /// Uploads what the server has not, or has otherwise, and says so.
    pub async fn upload(self, session: &Session, how: Writing) -> anyhow::Result<()> {
        if self.owners.is_empty() {
            return Ok(());
        }
        let files = Files::connect(&session.target.endpoint()?).await?;
        for owner in self.owners {
            owner.upload(&files, how).await?;
        }
        Ok(())
    }
}

impl Named {
    async fn upload(self, files: &Files, how: Writing) -> anyhow::Result<()> {
        let shelf = Shelf::of(files.clone(), self.resource);
        let there = match shelf.files.list(&shelf.owner).await.map_err(anyhow::Error::from) {
            // What a dry run did not create has no files.
            Err(error) if how.dry_run && reason(&error) == Some("NotFound") => Vec::new(),
            listed => listed?,
        };
        for (path, file) in &self.files {
            let uploaded = there.iter().find(|file| file.path == *path);
            match (file, uploaded) {
                (Some(file), uploaded) => send(&shelf, file, path, uploaded, how).await?,
                (None, Some(_)) => {}
                (None, None) => {
                    let title = shelf.title(path);
                    let from = &self.source;
                    print::note(&format!("{title} is neither beside {from} nor uploaded"));
                }
            }
        }
        Ok(())
    }
}

async fn send(
    shelf: &Shelf,
    file: &Path,
    path: &str,
    uploaded: Option<&File>,
    how: Writing,
) -> anyhow::Result<()> {
    let (digest, length) =
        digest(file).await.with_context(|| format!("read {}", file.display()))?;
    let note = if how.dry_run { " (dry run)" } else { "" };
    if uploaded.is_some_and(|uploaded| uploaded.digest == digest) {
        let word = style::stdout().faint("unchanged");
        return print::line(&format!("{} {word}{note}", shelf.title(path)));
    }
    if how.dry_run {
        let word = style::stdout().good("written");
        return print::line(&format!("{} {word} ({}){note}", shelf.title(path), size(length)));
    }
    transfer::put(shelf, file, path).await
}

/// SHA-256 of a file, and how long it is.
async fn digest(file: &Path) -> std::io::Result<(String, u64)> {
    let mut opened = tokio::fs::File::open(file).await?;
    let (mut digest, mut length) = (Sha256::new(), 0);
    let mut piece = vec![0; 64 << 10];
    loop {
        let read = opened.read(&mut piece).await?;
        if read == 0 {
            let text = digest.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
            return Ok((text, length));
        }
        digest.update(&piece[..read]);
        length += read as u64;
    }
}

/// The file of a path beside a manifest, if there is one. It never leads out of the manifest's folder:
/// whoever wrote the manifest must not get at other files of the person who applies it.
fn found(source: &str, path: &str) -> anyhow::Result<Option<PathBuf>> {
    let path: ArtifactPath = path.parse()?;
    if manifests::is_stdin(source) {
        return Ok(None);
    }
    let folder = match Path::new(source).parent() {
        Some(folder) if folder != Path::new("") => folder,
        Some(_) | None => Path::new("."),
    };
    let file = folder.join(path.as_str());
    let failed = || format!("look for {}", file.display());
    match file.symlink_metadata() {
        Ok(_) => {}
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error).with_context(failed),
    }
    let (folder, whole) =
        (folder.canonicalize().with_context(failed)?, file.canonicalize().with_context(failed)?);
    ensure!(whole.starts_with(&folder), "{} leads out of the manifest's folder", file.display());
    if !whole.is_file() {
        bail!("{} is no file", file.display());
    }
    Ok(Some(file))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_a_resource_names_is_found() {
        let kind = scheme::local(None).unwrap().resolve("", "Workload").unwrap();
        let value = json!({"spec": {"files": [
            {"path": "a", "artifact": {"path": "etc/app.conf"}},
            {"path": "b", "text": "x"},
            {"path": "c", "artifact": {"path": "etc/app.conf"}},
            {"path": "d", "artifact": {"path": "bin/tool"}},
            {"path": "e", "artifact": 7},
            "odd",
        ]}});
        let found: Vec<String> = named_artifacts(&kind, &value).into_iter().collect();
        assert_eq!(found, ["bin/tool", "etc/app.conf"]);
        for odd in [json!({"spec": {"files": 1}}), json!([]), json!(null)] {
            assert!(named_artifacts(&kind, &odd).is_empty(), "{odd}");
        }
    }

    #[test]
    fn only_what_is_beside_the_manifest_is_found() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        std::fs::create_dir_all(at("app/etc")).unwrap();
        std::fs::write(at("app/etc/x"), "1").unwrap();
        std::fs::write(at("secret"), "2").unwrap();
        std::os::unix::fs::symlink(at("secret"), at("app/leak")).unwrap();
        std::os::unix::fs::symlink("etc/x", at("app/same")).unwrap();
        let source = at("app/web.yaml").display().to_string();
        assert_eq!(found(&source, "etc/x").unwrap(), Some(at("app/etc/x")));
        assert_eq!(found(&source, "same").unwrap(), Some(at("app/same")));
        assert_eq!(found(&source, "etc/y").unwrap(), None);
        assert_eq!(found("standard input", "etc/x").unwrap(), None);
        for (path, problem) in [
            ("../secret", ".."),
            ("/etc/passwd", "relative"),
            ("leak", "leads out"),
            ("etc", "no file"),
        ] {
            let error = format!("{:#}", found(&source, path).unwrap_err());
            assert!(error.contains(problem), "{path}: {error}");
        }
    }
}
