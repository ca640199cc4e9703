//! The SPDK backend: memory and RBD devices shown to virtual machines by vhost.
//!
//! ```text
//!  bdev_malloc_create / bdev_rbd_create --> a bdev named like the volume
//!  vhost-scsi: one controller, a target per volume   --> the machine's PCI function, target:0
//!  vhost-blk:  one controller per slot, a volume each --> the slot's PCI function
//! ```
//!
//! SPDK is asked what there is before anything is done, so that doing it again is harmless. What is in
//! its memory is lost when it is restarted; mappings of RBD images are made again then.

mod rpc;
mod vhost;

use super::{Backend, Image, Role, Target, json::Link};
use crate::{
    error::{Error, Result},
    volume::{Capacity, CephImage, Mapping, Media, Size, VolumeName},
};
use rpc::JsonRpc;
use serde::Deserialize;
use serde_json::{Value, json};
use std::path::PathBuf;
use tokio::sync::watch;

/// The device of an image that is only looked at.
const LOOK: &str = "orrery-look";
/// The block size of the devices that are made here; sizes are multiples of it.
const BLOCK_BYTES: u64 = 512;

/// How SPDK is reached, and how its devices get to the machine.
#[derive(Clone, Debug)]
pub struct SpdkConfig {
    pub socket: PathBuf,
    pub vhost: Vhost,
}

/// What the virtual machine was started with.
#[derive(Clone, Debug)]
pub enum Vhost {
    /// One SCSI controller, which has up to eight targets.
    Scsi { controller: String, device: String },
    /// One block controller per slot.
    Blk { slots: Vec<Slot> },
}

/// A vhost controller of the machine, and where the machine sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Slot {
    pub controller: String,
    /// The PCI function in `/sys`, such as `/devices/pci0000:00/0000:00:15.0/`.
    pub device: String,
}

pub struct Spdk {
    link: Link<JsonRpc>,
    vhost: Vhost,
    /// Held while a volume gets the first free slot.
    showing: tokio::sync::Mutex<()>,
    /// Held while an image is looked at.
    looking: tokio::sync::Mutex<()>,
}

#[derive(Debug, Deserialize)]
struct Bdev {
    name: String,
    block_size: u64,
    num_blocks: u64,
}

impl Spdk {
    pub fn new(config: SpdkConfig) -> Self {
        let link = Link::new(JsonRpc, config.socket);
        let (showing, looking) = Default::default();
        Self { link, vhost: config.vhost, showing, looking }
    }

    async fn call(&self, method: &str, params: Value) -> Result<Value> {
        self.link.call(method, params).await
    }

    /// Devices, of one name or all. "No such device" is an answer here, any other error is not.
    async fn bdevs(&self, name: Option<&VolumeName>) -> Result<Vec<Bdev>> {
        let params = name.map_or(json!({}), |name| json!({ "name": name.as_str() }));
        match self.call("bdev_get_bdevs", params).await {
            Ok(found) => rpc::decode("bdev_get_bdevs", found),
            Err(Error::NotFound { .. }) => Ok(Vec::new()),
            Err(error) => Err(error),
        }
    }

    async fn create_malloc(&self, name: &VolumeName, size: Size) -> Result<()> {
        let blocks = size.bytes() / BLOCK_BYTES;
        let params =
            json!({ "name": name.as_str(), "num_blocks": blocks, "block_size": BLOCK_BYTES });
        self.call("bdev_malloc_create", params).await.map(|_| ())
    }

    async fn ensure_rbd(&self, name: &VolumeName, ceph: &CephImage) -> Result<()> {
        if !self.bdevs(Some(name)).await?.is_empty() {
            return Ok(());
        }
        let params = json!({
            "name": name.as_str(),
            "user_id": ceph.user,
            "pool_name": ceph.pool,
            "rbd_name": ceph.image,
            "block_size": BLOCK_BYTES,
            "config": { "mon_host": ceph.monitors, "key": ceph.secret.reveal() },
        });
        let made = exists_is_fine(self.call("bdev_rbd_create", params).await);
        made.map_err(|error| meaning(ceph, error))
    }

    async fn remove_rbd(&self, name: &VolumeName) -> Result<()> {
        absent_is_fine(self.call("bdev_rbd_delete", json!({ "name": name.as_str() })).await)
    }
}

/// What it means that SPDK cannot open an image.
fn meaning(ceph: &CephImage, error: Error) -> Error {
    let CephImage { user, monitors, pool, image, .. } = ceph;
    match error {
        Error::NotFound { .. } => Error::Missing(format!(
            "Ceph at {monitors} has no image {pool}/{image}: make it with rbd create {pool}/{image}, \
             or name another"
        )),
        Error::Denied(_) => Error::Denied(format!(
            "Ceph at {monitors} does not let client.{user} use {pool}/{image}: check its key, and its \
             rights with ceph auth get client.{user}"
        )),
        other => other,
    }
}

fn exists_is_fine(result: Result<Value>) -> Result<()> {
    match result {
        Ok(_) | Err(Error::Conflict(_)) => Ok(()),
        Err(error) => Err(error),
    }
}

fn absent_is_fine(result: Result<Value>) -> Result<()> {
    match result {
        Ok(_) | Err(Error::NotFound { .. }) => Ok(()),
        Err(error) => Err(error),
    }
}

fn unsupported<T>(what: &str) -> Result<T> {
    Err(Error::Unsupported(format!("the spdk backend cannot {what}")))
}

/// SPDK keeps volumes in memory here; everything else is the business of other backends.
fn in_memory(image: &Image) -> Result<&VolumeName> {
    match (image.media, image.role) {
        (Media::Memory, Role::Volume) => Ok(&image.name),
        (Media::File, _) => unsupported("keep volumes on disk"),
        (Media::Memory, Role::Snapshot) => unsupported("make snapshots"),
    }
}

#[async_trait::async_trait]
impl Backend for Spdk {
    fn kind(&self) -> &'static str {
        "spdk"
    }

    async fn provision(&self, image: &Image, size: Size, from: Option<&Image>) -> Result<()> {
        let name = in_memory(image)?;
        if from.is_some() {
            return unsupported("copy volumes");
        }
        match self.check(image).await? {
            Some(found) if found == size => Ok(()),
            Some(found) => Err(Error::Conflict(format!("{name} exists in SPDK with {found}"))),
            None => match self.create_malloc(name, size).await {
                // Made by a call whose answer was lost.
                Err(Error::Conflict(_)) if self.check(image).await? == Some(size) => Ok(()),
                other => other,
            },
        }
    }

    async fn check(&self, image: &Image) -> Result<Option<Size>> {
        let name = in_memory(image)?;
        let found = self.bdevs(Some(name)).await?;
        let bytes = found.first().map(|bdev| bdev.block_size * bdev.num_blocks);
        bytes.map(Size::try_from).transpose()
    }

    async fn delete(&self, image: &Image) -> Result<()> {
        let params = json!({ "name": in_memory(image)?.as_str() });
        absent_is_fine(self.call("bdev_malloc_delete", params).await)
    }

    async fn resize(&self, _: &Image, _: Size) -> Result<()> {
        unsupported("grow volumes")
    }

    async fn settle(&self, _: &Image) -> Result<()> {
        Ok(())
    }

    async fn map(&self, name: &VolumeName, target: &Target) -> Result<Mapping> {
        match target {
            Target::Image(image) if self.check(image).await?.is_none() => {
                return Err(Error::not_found("device", name.as_str()));
            }
            Target::Image(_) => {}
            Target::Ceph(ceph) => self.ensure_rbd(name, ceph).await?,
        }
        let showing = self.showing.lock().await;
        let mapped = match &self.vhost {
            Vhost::Scsi { controller, device } => self.map_scsi(name, controller, device).await,
            Vhost::Blk { slots } => self.map_blk(name, slots).await,
        };
        drop(showing);
        if let (Err(_), Target::Ceph(_)) = (&mapped, target) {
            // Nothing half done; if SPDK is gone, so is the device.
            let _ = self.remove_rbd(name).await;
        }
        mapped
    }

    async fn unmap(&self, name: &VolumeName, target: &Target) -> Result<()> {
        match &self.vhost {
            Vhost::Scsi { controller, .. } => self.unmap_scsi(name, controller).await?,
            Vhost::Blk { slots } => self.unmap_blk(name, slots).await?,
        }
        match target {
            Target::Image(_) => Ok(()),
            Target::Ceph(_) => self.remove_rbd(name).await,
        }
    }

    async fn mapped(&self, name: &VolumeName, _: &Target) -> Result<Option<Mapping>> {
        match &self.vhost {
            Vhost::Scsi { controller, device } => self.find_scsi(name, controller, device).await,
            Vhost::Blk { slots } => self.find_blk(name, slots).await,
        }
    }

    async fn list(&self) -> Result<Vec<Image>> {
        let image = |bdev: Bdev| {
            let name = VolumeName::parse(&bdev.name).ok()?;
            Some(Image { name, media: Media::Memory, role: Role::Volume })
        };
        Ok(self.bdevs(None).await?.into_iter().filter_map(image).collect())
    }

    async fn capacity(&self, _: Media) -> Result<Option<Capacity>> {
        Ok(None)
    }

    async fn look_at(&self, ceph: &CephImage) -> Result<Size> {
        let name = VolumeName::parse(LOOK)?;
        let _one_at_a_time = self.looking.lock().await;
        // What an attempt left behind that was interrupted.
        self.remove_rbd(&name).await?;
        self.ensure_rbd(&name, ceph).await?;
        let found = self.bdevs(Some(&name)).await;
        self.remove_rbd(&name).await?;
        let bytes = found?.first().map(|bdev| bdev.block_size * bdev.num_blocks);
        Size::try_from(bytes.ok_or_else(|| Error::not_found("device in SPDK:", LOOK))?)
    }

    fn generation(&self) -> Option<watch::Receiver<u64>> {
        Some(self.link.generation())
    }
}
