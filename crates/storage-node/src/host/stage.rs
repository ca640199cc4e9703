//! A mapped volume as a mounted folder, for whoever has no CSI: the agent, for its workloads.
//!
//! What is on a device decides: it is formatted only if it carries nothing, and an unfinished
//! formatting is noted in a file beside the place before it begins.
use super::{block, filesystem, filesystem::Content, mount, mounts};
use crate::{
    error::{Doing, Error, Result, blocking},
    volume::Mapping,
};
use rustix::mount::{MountPropagationFlags, mount_bind, mount_change};
use std::{
    fs::{self, File},
    path::{Path, PathBuf},
    time::Duration,
};

/// What to do with a device before it is mounted.
#[derive(Debug, PartialEq, Eq)]
pub enum Step {
    Mount(String),
    Format,
}

/// Decides from what is on the device and what is known about it. Data is never formatted away.
pub fn decide(
    content: Content,
    formatting: bool,
    raw: bool,
    wanted: &str,
    chosen: bool,
) -> Result<Step, String> {
    if formatting {
        return Ok(Step::Format);
    }
    match content {
        Content::Filesystem(kind) if kind == wanted || !chosen => Ok(Step::Mount(kind)),
        Content::Filesystem(kind) => {
            Err(format!("it carries a {kind} file system, and {wanted} was asked for"))
        }
        Content::Blank if raw => {
            Err("it was used as a block device and may carry data that looks like none".to_owned())
        }
        Content::Blank => Ok(Step::Format),
        Content::Other(what) => Err(format!("it carries {what}")),
    }
}

/// Where device nodes are made if `/dev` has none.
const NODES: &str = "/run/orrery/devices";

/// Mounts the device of a mapping at `place`, after making a file system of this kind on it if it is
/// blank; one that carries another file system is mounted as it is. Doing it again changes nothing.
pub async fn stage(mapping: &Mapping, kind: &str, place: &Path, limit: Duration) -> Result<()> {
    let device = block::wait_for(mapping, limit, Path::new(NODES)).await?;
    if let Some(there) = mounts::at(place)? {
        if (there.major, there.minor) == (device.major, device.minor) {
            return Ok(());
        }
        let place = place.display();
        return Err(Error::InUse(format!("another device is mounted at {place}: unmount it")));
    }
    let marker = marker(place);
    let content = filesystem::content(&device).await?;
    let step = decide(content, marker.exists(), false, kind, false)
        .map_err(|reason| Error::Unsupported(format!("it is not formatted: {reason}")))?;
    let kind = match step {
        Step::Mount(kind) => {
            filesystem::grow_unmounted(&device, &kind).await?;
            kind
        }
        Step::Format => {
            note(&marker)?;
            filesystem::make(&device, kind).await?;
            fs::remove_file(&marker).doing(|| format!("remove {}", marker.display()))?;
            kind.to_owned()
        }
    };
    mount::filesystem(&device, place, &kind, &[]).await?;
    match filesystem::grow_mounted(&device, &kind, place).await {
        // It grows when it is mounted the next time.
        Ok(()) | Err(Error::InUse(_) | Error::Unsupported(_)) => Ok(()),
        Err(error) => Err(error),
    }
}

/// Unmounts what is at `place`. Nothing being there is fine.
pub async fn unstage(place: &Path) -> Result<()> {
    mount::unmount_all(place).await
}

/// Makes mounts below a folder appear and vanish in every view of the host that was derived from it.
/// Without that, a process with a view of its own would hold volumes that it has never heard of.
pub async fn share(folder: &Path) -> Result<()> {
    let folder = folder.to_owned();
    blocking(move || {
        let doing = || format!("share the mounts below {}", folder.display());
        fs::create_dir_all(&folder).doing(doing)?;
        if mounts::at(&folder)?.is_none() {
            mount_bind(&folder, &folder).doing(doing)?;
        }
        mount_change(&folder, MountPropagationFlags::SHARED).doing(doing)
    })
    .await
}

/// Undoes [`share`] when nothing is mounted below the folder any more.
pub async fn unshare_if_empty(folder: &Path) -> Result<()> {
    let below = |mount: &mounts::Mount| mount.place.starts_with(folder) && mount.place != folder;
    if mounts::all()?.iter().any(below) {
        return Ok(());
    }
    match mount::unmount_all(folder).await {
        // Somebody looks at it; it is shared still, which harms nobody.
        Err(Error::InUse(_)) => Ok(()),
        outcome => outcome,
    }
}

fn marker(place: &Path) -> PathBuf {
    place.with_file_name("formatting")
}

/// Written through to the disk, because it is there for the time after a power cut.
fn note(marker: &Path) -> Result<()> {
    let doing = || format!("write {}", marker.display());
    if let Some(folder) = marker.parent() {
        fs::create_dir_all(folder).doing(doing)?;
    }
    File::create(marker).and_then(|file| file.sync_all()).doing(doing)
}

#[cfg(test)]
mod tests {
    use super::{Step, decide};
    use crate::host::filesystem::Content;

    #[track_caller]
    fn check(content: Content, formatting: bool, raw: bool, chosen: bool, expect: Option<Step>) {
        let found = decide(content, formatting, raw, "ext4", chosen);
        assert_eq!(found.ok(), expect);
    }

    /// proves: VOL-08
    #[test]
    fn only_what_carries_nothing_is_formatted() {
        let ext4 = || Content::Filesystem("ext4".into());
        let xfs = || Content::Filesystem("xfs".into());
        let other = || Content::Other("a dos partition table".into());
        check(Content::Blank, false, false, true, Some(Step::Format));
        check(Content::Blank, false, true, true, None);
        check(ext4(), false, false, true, Some(Step::Mount("ext4".into())));
        check(xfs(), false, false, false, Some(Step::Mount("xfs".into())));
        check(xfs(), false, false, true, None);
        check(other(), false, false, false, None);
        check(other(), true, false, true, Some(Step::Format));
        check(ext4(), true, false, true, Some(Step::Format));
    }
}
