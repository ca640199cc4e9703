//! The embedded backend: image files shown by the kernel's loop driver. Needs no daemon.
//!
//! ```text
//!  images/<name>.img   --+                          +-- /dev/loop2xxxxx
//!  memory/<name>.img   --+-- LOOP_CONFIGURE --------+-- /sys/dev/block/7:2xxxxx
//!  images/<name>.snap    |   (kernel keeps which file is where)
//! ```

mod device;
mod freeze;
mod ioctl;

use super::{Backend, Image, Target, files::Files, image};
use crate::{
    error::{Doing, Error, Result, blocking},
    volume::{Capacity, CephImage, Mapping, Media, Size, VolumeName},
};
use device::Device;
use std::path::{Path, PathBuf};

/// Where images live, and how many may be shown at once.
#[derive(Clone, Debug)]
pub struct LoopConfig {
    /// For images on disk.
    pub images: PathBuf,
    /// For images in memory: a folder on a tmpfs, such as one in `/dev/shm`.
    pub memory: PathBuf,
    /// The most devices mapped at once; `None` leaves it to the kernel.
    pub devices_max: Option<usize>,
}

pub struct Loopback {
    files: Files,
    devices_max: Option<usize>,
}

impl Loopback {
    pub fn open(config: &LoopConfig) -> Result<Self> {
        let files = Files::open(&config.images, &config.memory)?;
        Ok(Self { files, devices_max: config.devices_max })
    }

    fn target(&self, target: &Target) -> Result<PathBuf> {
        match target {
            Target::Image(image) => Ok(self.files.path(image)),
            Target::Ceph(_) => Err(no_ceph()),
        }
    }

    /// Refuses when as many devices as allowed are there already.
    fn check_limit(&self) -> Result<()> {
        let Some(limit) = self.devices_max else { return Ok(()) };
        if device::attached(|file| self.files.holds(file))?.len() < limit {
            return Ok(());
        }
        Err(Error::Exhausted(format!("all {limit} devices of this controller are in use")))
    }

    fn attach(&self, path: &Path) -> Result<Device> {
        match device::of_file(path)? {
            Some(device) if device.detaching => Err(Error::InUse(format!(
                "loop{} still detaches from {}",
                device.number,
                path.display()
            ))),
            Some(device) => Ok(device),
            None => {
                self.check_limit()?;
                device::attach(path)
            }
        }
    }
}

#[async_trait::async_trait]
impl Backend for Loopback {
    fn kind(&self) -> &'static str {
        "loop"
    }

    async fn provision(&self, image: &Image, size: Size, from: Option<&Image>) -> Result<()> {
        let path = self.files.path(image);
        let Some(from) = from.map(|image| self.files.path(image)) else {
            return blocking(move || image::create(&path, size, None)).await;
        };
        blocking(move || match device::of_file(&from)? {
            None => image::create(&path, size, Some(&from)),
            Some(device) => freeze::while_still(
                device,
                || image::create(&path, size, Some(&from)),
                || image::delete(&path),
            ),
        })
        .await
    }

    async fn check(&self, image: &Image) -> Result<Option<Size>> {
        image::size_of(&self.files.path(image))
    }

    async fn delete(&self, image: &Image) -> Result<()> {
        let path = self.files.path(image);
        if let Some(device) = device::of_file(&path)? {
            device::detach(device).await?;
        }
        blocking(move || image::delete(&path)).await
    }

    async fn resize(&self, image: &Image, size: Size) -> Result<()> {
        let path = self.files.path(image);
        blocking(move || {
            image::grow(&path, size)?;
            let Some(device) = device::of_file(&path)? else { return Ok(()) };
            ioctl::set_capacity(device.open()?).doing(|| format!("grow loop{}", device.number))
        })
        .await
    }

    async fn settle(&self, source: &Image) -> Result<()> {
        let path = self.files.path(source);
        blocking(move || device::of_file(&path)?.map_or(Ok(()), freeze::thaw)).await
    }

    async fn map(&self, _: &VolumeName, target: &Target) -> Result<Mapping> {
        let path = self.target(target)?;
        Ok(self.attach(&path)?.mapping())
    }

    async fn unmap(&self, _: &VolumeName, target: &Target) -> Result<()> {
        match device::of_file(&self.target(target)?)? {
            Some(device) => device::detach(device).await,
            None => Ok(()),
        }
    }

    async fn mapped(&self, _: &VolumeName, target: &Target) -> Result<Option<Mapping>> {
        let device = device::of_file(&self.target(target)?)?;
        Ok(device.filter(|device| !device.detaching).map(Device::mapping))
    }

    async fn list(&self) -> Result<Vec<Image>> {
        self.files.list()
    }

    async fn capacity(&self, media: Media) -> Result<Option<Capacity>> {
        self.files.capacity(media).map(Some)
    }

    async fn look_at(&self, _: &CephImage) -> Result<Size> {
        Err(no_ceph())
    }
}

fn no_ceph() -> Error {
    let message = "the loop backend has no Ceph client: use the qemu or spdk backend";
    Error::Unsupported(message.to_owned())
}
