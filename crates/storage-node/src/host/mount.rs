//! Mounting and unmounting.
use super::{block::BlockDevice, mounts, program};
use crate::error::{Doing, Error, Result, blocking};
use rustix::{
    io::Errno,
    mount::{MountFlags, UnmountFlags, mount_bind, mount_remount, unmount},
};
use std::{fs, path::Path};

/// Mounts a file system. The program is used because it knows what every option means.
pub async fn filesystem(
    device: &BlockDevice,
    place: &Path,
    kind: &str,
    options: &[String],
) -> Result<()> {
    let doing = || format!("create {}", place.display());
    fs::create_dir_all(place).doing(doing)?;
    let (node, place) = (device.node.to_string_lossy(), place.to_string_lossy());
    let options = options.join(",");
    let mut arguments = vec!["-t", kind];
    if !options.is_empty() {
        arguments.extend(["-o", &options]);
    }
    arguments.extend([node.as_ref(), place.as_ref()]);
    program::run("mount", &arguments).await
}

/// What a bind mount shows, which decides what it needs as its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    Folder,
    File,
}

/// Shows `source` at `place` as well, and makes the place if it is not there.
pub async fn bind(source: &Path, place: &Path, shape: Shape, read_only: bool) -> Result<()> {
    let (source, place) = (source.to_owned(), place.to_owned());
    blocking(move || {
        let doing = || format!("bind {} to {}", source.display(), place.display());
        match (shape, place.parent()) {
            (Shape::Folder, _) => fs::create_dir_all(&place).doing(doing)?,
            (Shape::File, parent) => {
                parent.map_or(Ok(()), fs::create_dir_all).doing(doing)?;
                let made =
                    fs::OpenOptions::new().write(true).create(true).truncate(false).open(&place);
                made.doing(doing)?;
            }
        }
        mount_bind(&source, &place).doing(doing)?;
        if !read_only {
            return Ok(());
        }
        let flags = MountFlags::BIND | MountFlags::RDONLY;
        let protected = mount_remount(&place, flags, "");
        if protected.is_err() {
            // Better nothing than a mount that may be written to.
            let _ = unmount(&place, UnmountFlags::empty());
        }
        protected.doing(doing)
    })
    .await
}

/// Unmounts everything at exactly this place. Nothing being there is fine.
pub async fn unmount_all(place: &Path) -> Result<()> {
    let place = place.to_owned();
    blocking(move || {
        while mounts::at(&place)?.is_some() {
            match unmount(&place, UnmountFlags::NOFOLLOW) {
                Ok(()) => {}
                Err(Errno::BUSY) => {
                    return Err(Error::InUse(format!("{} is in use", place.display())));
                }
                Err(error) => {
                    return Err(Error::io(format!("unmount {}", place.display()), error.into()));
                }
            }
        }
        Ok(())
    })
    .await
}

/// Removes the empty folder or file that was made as a place to mount at. One with something in it was
/// not, and stays.
pub fn remove_place(place: &Path) -> Result<()> {
    let removed = match fs::symlink_metadata(place) {
        Ok(found) if found.is_dir() => fs::remove_dir(place),
        Ok(found) if found.is_file() && 0 < found.len() => {
            Err(std::io::Error::from(std::io::ErrorKind::DirectoryNotEmpty))
        }
        Ok(_) => fs::remove_file(place),
        Err(error) => Err(error),
    };
    match removed {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
        Err(error) if error.kind() == std::io::ErrorKind::DirectoryNotEmpty => {
            let place = place.display();
            Err(Error::InUse(format!("{place} is not a mount and holds data, so it stays")))
        }
        other => other.doing(|| format!("remove {}", place.display())),
    }
}
