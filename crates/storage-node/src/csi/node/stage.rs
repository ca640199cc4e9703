//! Bringing a volume to the node: mapped, and with its file system mounted once.
//!
//! ```text
//!  what is on the device?
//!    a file system -------------------------------> mount it (never another kind over it)
//!    nothing, or our own unfinished formatting ---> write down "formatting", format, cross it out, mount
//!    anything else -------------------------------> refuse
//! ```
use super::absolute;
use crate::{
    csi::{
        Driver,
        capability::{self, Access, Use},
        labels, required,
    },
    error::{Error, Result},
    host::{
        block::BlockDevice,
        filesystem, mount, mounts,
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
        let device = self.bring(&volume).await?;
        let place = Path::new(&request.staging_target_path);
        let Access::Mount { filesystem, chosen, flags } = &wanted.access else {
            self.relabel(&volume, labels::set_raw).await?;
            return Ok(());
        };
        if let Some(there) = mounts::at(place)? {
            return check_staged(&there, &device, filesystem, *chosen, place);
        }
        let (kind, fresh) = self.prepare(volume, &device, filesystem, *chosen).await?;
        let mut options = flags.clone();
        if wanted.reads_only() {
            options.push("ro".to_owned());
        }
        // A copy may be larger than what it was copied from, and a volume may have grown meanwhile.
        let grows = !fresh && !read_only(&wanted, flags);
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
        if let (Some(there), Some(device)) = (mounts::at(place)?, self.device(&volume)?) {
            if (there.major, there.minor) != (device.major, device.minor) {
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
    place: &Path,
) -> Result<()> {
    let same = (there.major, there.minor) == (device.major, device.minor);
    if same && (!chosen || there.filesystem == wanted) {
        return Ok(());
    }
    let what = if same { there.filesystem.as_str() } else { "something else" };
    Err(Error::Conflict(format!("{what} is mounted at {}", place.display())))
}
