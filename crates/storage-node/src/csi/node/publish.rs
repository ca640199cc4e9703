//! Showing a staged volume to a workload: a bind mount of its file system or of its device.
use super::{absolute, stage::check_not_mounted};
use crate::{
    csi::{
        Driver,
        capability::{self, Access, Use},
        required,
    },
    error::{Error, Result},
    host::{
        block::BlockDevice,
        mount::{self, Shape},
        mounts::{self, Mount},
    },
};
use orrery_proto::csi::v1::{NodePublishVolumeRequest, NodeUnpublishVolumeRequest};
use std::path::{Path, PathBuf};

impl Driver {
    pub(super) async fn publish(&self, request: &NodePublishVolumeRequest) -> Result<()> {
        required("volume_id", &request.volume_id)?;
        absolute("target_path", &request.target_path)?;
        let wanted = capability::read(request.volume_capability.as_ref())?;
        let _guard = self.lock(&request.volume_id).await?;
        let volume = self.volume(&request.volume_id).await?;
        let staged = || Error::InUse(format!("the volume {} is not staged", request.volume_id));
        absolute("staging_target_path", &request.staging_target_path).map_err(|_| staged())?;
        let device = self.device(&volume)?.ok_or_else(staged)?;
        let (source, shape) = match &wanted.access {
            Access::Block => (device.node.clone(), Shape::File),
            Access::Mount { .. } => {
                let place = PathBuf::from(&request.staging_target_path);
                let there = mounts::at(&place)?.filter(|mount| is_of(mount, &device));
                there.ok_or_else(staged)?;
                (place, Shape::Folder)
            }
        };
        let target = Path::new(&request.target_path);
        let read_only = request.readonly || wanted.reads_only();
        if let Some(there) = mounts::at(target)? {
            return check_published(&there, &device, shape, read_only);
        }
        check_alone(&wanted, &device, shape, Path::new(&request.staging_target_path))?;
        if shape == Shape::File {
            check_not_mounted(&device)?;
            protect(&device, read_only).await?;
        }
        mount::bind(&source, target, shape, read_only).await
    }

    pub(super) async fn unpublish(&self, request: &NodeUnpublishVolumeRequest) -> Result<()> {
        required("volume_id", &request.volume_id)?;
        absolute("target_path", &request.target_path)?;
        let _guard = self.lock(&request.volume_id).await?;
        let volume = self.volume(&request.volume_id).await?;
        let target = Path::new(&request.target_path);
        if let Some(there) = mounts::at(target)? {
            let device = self.device(&volume)?;
            if !device.is_some_and(|device| is_of(&there, &device) || device.is_at(target)) {
                return Err(Error::InUse(format!(
                    "{} shows something else than the volume {}",
                    target.display(),
                    request.volume_id
                )));
            }
            mount::unmount_all(target).await?;
        }
        mount::remove_place(target)
    }
}

/// Whether a mount shows the file system on a device.
pub(super) fn is_of(mount: &Mount, device: &BlockDevice) -> bool {
    (mount.major, mount.minor) == (device.major, device.minor)
}

/// Whether a mount shows a device, in the shape in which it was asked for. What is bound is its node, so
/// only mounts of a file of that name are looked at: looking at any other may hang, as one of a server
/// that is away does.
pub(super) fn shows(mount: &Mount, device: &BlockDevice, shape: Shape) -> bool {
    match shape {
        Shape::Folder => is_of(mount, device),
        Shape::File => {
            mount.root.file_name() == device.node.file_name() && device.is_at(&mount.place)
        }
    }
}

/// Something is mounted at the target already: the same, or something in the way.
fn check_published(
    there: &Mount,
    device: &BlockDevice,
    shape: Shape,
    read_only: bool,
) -> Result<()> {
    let place = there.place.display();
    if !shows(there, device, shape) {
        return Err(Error::Conflict(format!("something else is mounted at {place}")));
    }
    let there_read_only = match shape {
        Shape::Folder => there.read_only,
        Shape::File => device.read_only()?,
    };
    if there_read_only != read_only {
        return Err(Error::Conflict(format!("the volume is at {place} in another way")));
    }
    Ok(())
}

/// Lets a device be written to or not. That is true for all places that show it, so they have to agree.
async fn protect(device: &BlockDevice, read_only: bool) -> Result<()> {
    if device.read_only()? == read_only {
        return Ok(());
    }
    let shown = mounts::all()?.into_iter().find(|mount| shows(mount, device, Shape::File));
    match shown {
        None => device.set_read_only(read_only).await,
        Some(mount) => Err(Error::InUse(format!(
            "the volume is at {} with read_only = {}, which is true for the whole device",
            mount.place.display(),
            !read_only
        ))),
    }
}

/// A volume that is not to be shared is shown at one place only.
fn check_alone(wanted: &Use, device: &BlockDevice, shape: Shape, staging: &Path) -> Result<()> {
    if wanted.shared() {
        return Ok(());
    }
    let staging = std::fs::canonicalize(staging).unwrap_or_else(|_| staging.to_owned());
    let elsewhere = mounts::all()?
        .into_iter()
        .find(|mount| mount.place != staging && shows(mount, device, shape));
    match elsewhere {
        Some(mount) => Err(Error::InUse(format!(
            "the volume is at {} already, and {} allows one place",
            mount.place.display(),
            wanted.mode.as_str_name()
        ))),
        None => Ok(()),
    }
}
