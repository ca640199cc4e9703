//! What a data plane has to be able to do. Backends know nothing of callers, intents or retries: the
//! [`Volumes`](crate::Volumes) above them holds the locks and writes down what is going on. Each
//! method may be repeated after it failed or after a crash in the middle of it.

mod files;
mod image;
mod json;
pub mod loopback;
pub mod qemu;
pub mod spdk;

use crate::{
    error::Result,
    volume::{Capacity, CephImage, Mapping, Media, Size, VolumeName},
};
use tokio::sync::watch;

/// One image that a backend keeps.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Image {
    pub name: VolumeName,
    pub media: Media,
    pub role: Role,
}

/// Volumes and snapshots have separate names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    Volume,
    Snapshot,
}

/// What to show as a device.
#[derive(Clone, Debug)]
pub enum Target {
    Image(Image),
    Ceph(CephImage),
}

#[async_trait::async_trait]
pub trait Backend: Send + Sync + 'static {
    /// The name that people choose it by.
    fn kind(&self) -> &'static str;

    /// Makes an image of zeros, or with the content of `from` and zeros after it. Afterwards the
    /// image is there as a whole or not at all.
    async fn provision(&self, image: &Image, size: Size, from: Option<&Image>) -> Result<()>;

    /// The size of an image, if it exists.
    async fn check(&self, image: &Image) -> Result<Option<Size>>;

    /// Deletes an image and its data. It is not mapped.
    async fn delete(&self, image: &Image) -> Result<()>;

    /// Grows an image, and its device if it has one.
    async fn resize(&self, image: &Image, size: Size) -> Result<()>;

    /// Ends what an interrupted copy may have left behind in its source: a frozen file system.
    async fn settle(&self, source: &Image) -> Result<()>;

    /// Shows the target as a device under that name, or says where it is already.
    async fn map(&self, name: &VolumeName, target: &Target) -> Result<Mapping>;

    /// Takes the device away if there is one.
    async fn unmap(&self, name: &VolumeName, target: &Target) -> Result<()>;

    /// Where the device is, if it is there. Always asks the data plane, never a memory of it.
    async fn mapped(&self, name: &VolumeName, target: &Target) -> Result<Option<Mapping>>;

    /// The images that exist.
    async fn list(&self) -> Result<Vec<Image>>;

    /// What there is and what is free; `None` where the data plane does not say.
    async fn capacity(&self, media: Media) -> Result<Option<Capacity>>;

    /// The size of an image of Ceph, which is looked at without being mapped.
    async fn look_at(&self, ceph: &CephImage) -> Result<Size>;

    /// Counts the connections to a data plane in another process. A change means that it may have been
    /// restarted and lost what it was told. `None` for a data plane that cannot be lost.
    fn generation(&self) -> Option<watch::Receiver<u64>> {
        None
    }
}
