//! Bringing a volume to the node: mapped, and with its file system mounted once.
//!
//! ```text
//!  what is on the device?
//!    a file system -------------------------------> mount it (never another kind over it)
//!    nothing, or our own unfinished formatting ---> write down "formatting", format, cross it out, mount
//!    anything else -------------------------------> refuse
//! ```
use super::{
    absolute,
    publish::{is_of, shows},
};
use crate::{
    csi::{
        Driver,
        capability::{self, Access, Use},
        labels, required,
    },
    error::{Error, Result},
    host::{
        block::BlockDevice,
        filesystem,
        mount::{self, Shape},
        mounts,
        stage::{Step, decide},
    },
    volume::Volume,
};
use orrery_proto::csi::v1::{NodeStageVolumeRequest, NodeUnstageVolumeRequest};
use std::path::Path;

impl Driver {
    pub(super) async fn stage(&self, request: &NodeStageVolumeRequest) -> Result<()> {
        required("volume_id", &request.volume_id)?;
        absolute("staging_target_path", &request.staging_target_path)?;
        let wanted = capability::read(request.volume_capability.as_ref())?;
        let _guard = self.lock(&request.volume_id).await?;
        let volume = self.volume(&request.volume_id).await?;
        let (name, was_mapped) = (volume.name.clone(), volume.mapping.is_some());
        let staged = self.stage_volume(volume, &wanted, &request.staging_target_path).await;
        if staged.is_err() && !was_mapped {
            // Whoever was refused does not unstage, and a volume with a device cannot be deleted.
            if let Err(error) = self.pool.unmap(&name).await {
                tracing::warn!(volume = %name, %error, "cannot unmap what could not be staged");
            }
        }
        staged
    }

    async fn stage_volume(&self, volume: Volume, wanted: &Use, place: &str) -> Result<()> {
        let device = self.bring(&volume).await?;
        let place = Path::new(place);
        let Access::Mount { filesystem, chosen, flags } = &wanted.access else {
            check_not_mounted(&device)?;
            self.relabel(&volume, labels::set_raw).await?;
            return Ok(());
        };
        if let Some(there) = mounts::at(place)? {
            let read_only = read_only(wanted, flags);
            return check_staged(&there, &device, filesystem, *chosen, read_only);
        }
        check_not_shown(&device)?;
        let (kind, fresh) = self.prepare(volume, &device, filesystem, *chosen).await?;
        let mut options = flags.clone();
        if wanted.reads_only() {
            options.push("ro".to_owned());
        }
        // A copy may be larger than what it was copied from, and a volume may have grown meanwhile.
        let grows = !fresh && !read_only(wanted, flags);
        if grows {
            filesystem::grow_unmounted(&device, &kind).await?;
        }
        mount::filesystem(&device, place, &kind, &options).await?;
        if grows {
            filesystem::grow_mounted(&device, &kind, place).await?;
        }
        Ok(())
    }

    /// Makes sure that the device has a file system; returns its kind and whether it was made now.
    async fn prepare(
        &self,
        volume: Volume,
        device: &BlockDevice,
        wanted: &str,
        chosen: bool,
    ) -> Result<(String, bool)> {
        let content = filesystem::content(device).await?;
        let (formatting, raw) = (labels::formatting(&volume.labels), labels::raw(&volume.labels));
        let step = decide(content, formatting, raw, wanted, chosen).map_err(|reason| {
            Error::Unsupported(format!("the volume {} is not formatted: {reason}", volume.name))
        })?;
        let Step::Mount(kind) = step else {
            let volume = self
                .relabel(&volume, |labels| labels::set_formatting(labels, Some(wanted)))
                .await?;
            filesystem::make(device, wanted).await?;
            self.relabel(&volume, |labels| labels::set_formatting(labels, None)).await?;
            return Ok((wanted.to_owned(), true));
        };
        Ok((kind, false))
    }

    pub(super) async fn unstage(&self, request: &NodeUnstageVolumeRequest) -> Result<()> {
        required("volume_id", &request.volume_id)?;
        absolute("staging_target_path", &request.staging_target_path)?;
        let _guard = self.lock(&request.volume_id).await?;
        let volume = self.volume(&request.volume_id).await?;
        let place = Path::new(&request.staging_target_path);
        if let Some(there) = mounts::at(place)? {
            if !self.device(&volume)?.is_some_and(|device| is_of(&there, &device)) {
                let place = place.display();
                return Err(Error::InUse(format!("something else is mounted at {place}")));
            }
            mount::unmount_all(place).await?;
        }
        self.pool.unmap(&volume.name).await
    }
}

fn read_only(wanted: &Use, flags: &[String]) -> bool {
    wanted.reads_only() || flags.iter().any(|flag| flag == "ro")
}

/// Something is mounted at the staging path already: the volume itself, or something in the way.
fn check_staged(
    there: &mounts::Mount,
    device: &BlockDevice,
    wanted: &str,
    chosen: bool,
    read_only: bool,
) -> Result<()> {
    let same = is_of(there, device);
    let place = there.place.display();
    if same && there.read_only != read_only {
        let how = if there.read_only { "read-only" } else { "for writing" };
        return Err(Error::Conflict(format!("the volume is mounted at {place} {how}")));
    }
    if same && (!chosen || there.filesystem == wanted) {
        return Ok(());
    }
    let what = if same { there.filesystem.as_str() } else { "something else" };
    Err(Error::Conflict(format!("{what} is mounted at {place}")))
}

/// A device under a mounted file system is nobody else's: two writers destroy what is on it.
pub(super) fn check_not_mounted(device: &BlockDevice) -> Result<()> {
    match mounts::of_device(device.major, device.minor)?.first() {
        None => Ok(()),
        Some(place) => Err(Error::Conflict(format!(
            "the file system of the volume is mounted at {}: it cannot be a block device meanwhile",
            place.display()
        ))),
    }
}

/// The other way round: a volume that is given out as a block device is not mounted beside that.
fn check_not_shown(device: &BlockDevice) -> Result<()> {
    match mounts::all()?.into_iter().find(|mount| shows(mount, device, Shape::File)) {
        None => Ok(()),
        Some(mount) => Err(Error::InUse(format!(
            "the volume is at {} as a block device: it cannot be mounted meanwhile",
            mount.place.display()
        ))),
    }
}
