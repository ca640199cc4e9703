//! Whose a container's files are: the user that its program runs as.
//!
//! A name of a user means something inside of the container only. So the container is made first, asked
//! for its user and its list of users, and given its files before it starts.
use super::service::Podman;
use super::{inspect, words};
use crate::users::{self, Ids};
use bollard::Docker;
use bollard::query_parameters::DownloadFromContainerOptionsBuilder;
use futures::TryStreamExt;
use std::os::unix::fs::lchown;
use std::path::Path;
use std::{fs, io};

/// More is no list of users.
const LIST_MAX_BYTES: usize = 4 << 20;
const BLOCK: usize = 512;

/// Gives the files below `folder` to the user of a container that was made and not started. Returns why
/// it cannot have them.
pub(super) async fn give(podman: &Podman, container: &str, folder: &Path) -> Result<(), String> {
    let found = inspect::container(&podman.socket, container).await;
    let found = found.map_err(|error| error.to_string())?;
    let found = found.ok_or("its container is gone")?;
    let user = found.config.user.unwrap_or_default();
    if is_root(&user) {
        return Ok(());
    }
    let passwd = list(podman, container, "/etc/passwd").await?;
    let groups = list(podman, container, "/etc/group").await?;
    let owner = users::resolve(&user, &passwd, &groups);
    let owner = owner.map_err(|unknown| format!("its image has no {unknown}"))?.ids();
    if !rustix::process::geteuid().is_root() {
        return Err(format!(
            "it runs as user {user:?}, and only an agent that runs as root can give it its files"
        ));
    }
    let folder = folder.to_owned();
    let given = tokio::task::spawn_blocking(move || give_all(&folder, owner)).await;
    let given = given.map_err(io::Error::other).and_then(|given| given);
    given.map_err(|error| format!("cannot give its files to user {user:?}: {error}"))
}

/// Root of the container owns what the agent writes.
fn is_root(user: &str) -> bool {
    let name = user.split(':').next().unwrap_or_default();
    matches!(name, "" | "0" | "root")
}

/// A file of the container; empty when it has none.
async fn list(podman: &Docker, container: &str, path: &str) -> Result<String, String> {
    let options = DownloadFromContainerOptionsBuilder::default().path(path).build();
    let mut archive = Vec::new();
    let mut parts = std::pin::pin!(podman.download_from_container(container, Some(options)));
    loop {
        match parts.try_next().await {
            Ok(Some(part)) => archive.extend_from_slice(&part),
            Ok(None) => break,
            Err(error) if words::is_missing(&error) => return Ok(String::new()),
            Err(error) => {
                return Err(format!("cannot read {path} of its image: {}", words::said(&error)));
            }
        }
        if LIST_MAX_BYTES < archive.len() {
            return Err(format!("{path} of its image is too long"));
        }
    }
    Ok(String::from_utf8_lossy(first_file(&archive).unwrap_or_default()).into_owned())
}

/// The content of the first regular file of a tar archive.
fn first_file(archive: &[u8]) -> Option<&[u8]> {
    const SIZE: std::ops::Range<usize> = 124..136;
    const KIND: usize = 156;
    let mut rest = archive;
    loop {
        let (header, after) = rest.split_at_checked(BLOCK)?;
        let size = std::str::from_utf8(header.get(SIZE)?).ok()?;
        let size = usize::from_str_radix(size.trim_matches(['\0', ' ']), 8).ok()?;
        if matches!(header.get(KIND)?, b'0' | 0) {
            return after.get(..size);
        }
        rest = after.get(size.checked_next_multiple_of(BLOCK)?..)?;
    }
}

fn give_all(path: &Path, owner: Ids) -> io::Result<()> {
    lchown(path, Some(owner.0), Some(owner.1))?;
    if fs::symlink_metadata(path)?.is_dir() {
        for entry in fs::read_dir(path)? {
            give_all(&entry?.path(), owner)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(kind: u8, content: &[u8]) -> Vec<u8> {
        let mut block = vec![0; BLOCK];
        block[124..135].copy_from_slice(format!("{:011o}", content.len()).as_bytes());
        block[156] = kind;
        block.extend_from_slice(content);
        block.resize(block.len().next_multiple_of(BLOCK), 0);
        block
    }

    #[test]
    fn the_first_file_of_an_archive_is_found() {
        let archive = [entry(b'x', b"about the next"), entry(b'0', b"root:x:0:0")].concat();
        assert_eq!(first_file(&archive), Some(&b"root:x:0:0"[..]));
        assert_eq!(first_file(&archive[..archive.len() - BLOCK]), None, "it is cut off");
        assert_eq!(first_file(b""), None);
        assert_eq!(first_file(&vec![b'9'; 2 * BLOCK]), None);
    }

    #[test]
    fn root_owns_everything_already() {
        assert!(is_root("") && is_root("0:5") && is_root("root") && !is_root("web"));
    }
}
