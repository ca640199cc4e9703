//! How full and how well a volume is, and letting its file system grow.
use super::publish::is_of;
use crate::{
    csi::{Driver, capacity, required},
    error::{Doing, Error, Result},
    host::{
        block::BlockDevice,
        filesystem,
        mounts::{self, Mount},
    },
    volume::Volume,
};
use orrery_proto::csi::v1::{
    NodeExpandVolumeRequest, NodeGetVolumeStatsRequest, NodeGetVolumeStatsResponse,
    VolumeCondition, VolumeUsage, volume_usage::Unit,
};
use std::path::Path;

/// How a volume is shown at a path.
enum Shown {
    Filesystem(Mount),
    Device,
}

impl Driver {
    pub(super) async fn stats(
        &self,
        request: &NodeGetVolumeStatsRequest,
    ) -> Result<NodeGetVolumeStatsResponse> {
        required("volume_id", &request.volume_id)?;
        required("volume_path", &request.volume_path)?;
        let volume = self.volume(&request.volume_id).await?;
        let (device, shown) = self.shown_at(&volume, Path::new(&request.volume_path))?;
        let usage = match &shown {
            Shown::Filesystem(mount) => usage_of_filesystem(&mount.place)?,
            Shown::Device => vec![usage_of_device(&device)?],
        };
        let volume_condition = Some(condition(&volume, &device));
        Ok(NodeGetVolumeStatsResponse { usage, volume_condition })
    }

    /// Returns the size of the volume once its file system has all of it.
    pub(super) async fn expand_here(&self, request: &NodeExpandVolumeRequest) -> Result<i64> {
        required("volume_id", &request.volume_id)?;
        required("volume_path", &request.volume_path)?;
        let _guard = self.lock(&request.volume_id).await?;
        let volume = self.volume(&request.volume_id).await?;
        let (device, shown) = self.shown_at(&volume, Path::new(&request.volume_path))?;
        if !capacity::fits(request.capacity_range.as_ref(), volume.size)? {
            return Err(Error::OutOfRange(format!(
                "the volume {} has {}; its controller has to grow it first",
                request.volume_id, volume.size
            )));
        }
        if let Shown::Filesystem(mount) = shown {
            filesystem::grow_mounted(&device, &mount.filesystem, &mount.place).await?;
        }
        Ok(volume.size.to_i64())
    }

    /// The volume's device and how the path shows it; not found if it does not.
    fn shown_at(&self, volume: &Volume, path: &Path) -> Result<(BlockDevice, Shown)> {
        let missing =
            || Error::Missing(format!("the volume {} is not at {}", volume.name, path.display()));
        let device = self.device(volume)?.ok_or_else(missing)?;
        let mount = mounts::at(path)?.ok_or_else(missing)?;
        if is_of(&mount, &device) {
            return Ok((device, Shown::Filesystem(mount)));
        }
        if device.is_at(path) { Ok((device, Shown::Device)) } else { Err(missing()) }
    }
}

fn whole(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

fn usage_of_filesystem(place: &Path) -> Result<Vec<VolumeUsage>> {
    let found = rustix::fs::statvfs(place).doing(|| format!("ask {}", place.display()))?;
    let bytes = |blocks: u64| whole(blocks.saturating_mul(found.f_frsize));
    let bytes = VolumeUsage {
        available: bytes(found.f_bavail),
        total: bytes(found.f_blocks),
        used: bytes(found.f_blocks.saturating_sub(found.f_bfree)),
        unit: Unit::Bytes.into(),
    };
    let inodes = VolumeUsage {
        available: whole(found.f_favail),
        total: whole(found.f_files),
        used: whole(found.f_files.saturating_sub(found.f_ffree)),
        unit: Unit::Inodes.into(),
    };
    Ok(vec![bytes, inodes])
}

/// What is used of a device is known to whoever uses it, so only its size is said.
fn usage_of_device(device: &BlockDevice) -> Result<VolumeUsage> {
    let total = whole(device.size_bytes()?);
    Ok(VolumeUsage { total, unit: Unit::Bytes.into(), ..Default::default() })
}

fn condition(volume: &Volume, device: &BlockDevice) -> VolumeCondition {
    let errors = filesystem::errors_noticed(device);
    let abnormal = match (&volume.fault, errors) {
        (Some(fault), _) => Some(fault.clone()),
        (None, 0) => None,
        (None, errors) => Some(format!("its file system has noticed {errors} errors")),
    };
    match abnormal {
        Some(message) => VolumeCondition { abnormal: true, message },
        None => VolumeCondition { abnormal: false, message: "the volume is in order".to_owned() },
    }
}
