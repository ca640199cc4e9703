//! The backend for virtual machines: image files and RBD images in a `qemu-storage-daemon`, shown by
//! vhost-user-blk or NBD.
//!
//! ```text
//!  images/<name>.img, Ceph --> blockdev-add: a node --> block-export-add: an export --> slot's socket
//!                                 v<hash>                  v<hash>.<slot>
//! ```
//!
//! The daemon is asked what there is every time. The slot is a part of the export's name, so it is
//! known after a restart of the controller; after one of the daemon, everything is added again.

mod ceph;
mod export;
mod look;
mod nodes;
mod qmp;

use super::{Backend, Image, Target, files::Files, image, json::Link};
use crate::{
    error::{Error, Result, blocking},
    volume::{Capacity, CephImage, Mapping, Media, Size, VolumeName},
};
use nodes::node_name;
use qmp::Qmp;
use serde_json::Value;
use std::path::PathBuf;
use tokio::sync::{Semaphore, watch};

/// Each look is a process for up to ten seconds in a minute, so that it takes six times as many refused
/// images until one of them waits for another.
const LOOKS_MAX: usize = 16;

/// How the daemon is reached, where images are, and how they get to a machine.
#[derive(Clone, Debug)]
pub struct QemuConfig {
    /// The daemon's monitor.
    pub socket: PathBuf,
    pub images: PathBuf,
    pub memory: PathBuf,
    pub export: Export,
}

#[derive(Clone, Debug)]
pub enum Export {
    /// A socket per slot, to which a machine's vhost-user-blk device connects.
    VhostUserBlk { slots: Vec<Slot> },
    /// One NBD server for all volumes. Its clients are told a URI, since no device appears by itself.
    Nbd { socket: PathBuf },
}

/// A device of the machine: the socket behind it, and where the machine sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Slot {
    pub socket: PathBuf,
    /// The PCI function in `/sys`, such as `/devices/pci0000:00/0000:00:15.0/`.
    pub device: String,
}

pub struct Qemu {
    link: Link<Qmp>,
    files: Files,
    export: Export,
    confs: ceph::Confs,
    /// Held while a volume gets the first free slot, or the server that all of them share is started.
    exporting: tokio::sync::Mutex<()>,
    /// As many images of Ceph are looked at beside each other.
    looking: Semaphore,
}

impl Qemu {
    pub fn open(config: QemuConfig) -> Result<Self> {
        let files = Files::open(&config.images, &config.memory)?;
        let confs = ceph::Confs::write(files.folder(Media::File))?;
        let (link, looking) = (Link::new(Qmp, config.socket), Semaphore::new(LOOKS_MAX));
        Ok(Self {
            link,
            files,
            export: config.export,
            exporting: Default::default(),
            confs,
            looking,
        })
    }

    async fn call(&self, command: &str, arguments: Value) -> Result<Value> {
        self.link.call(command, arguments).await
    }
}

#[async_trait::async_trait]
impl Backend for Qemu {
    fn kind(&self) -> &'static str {
        "qemu"
    }

    async fn provision(&self, image: &Image, size: Size, from: Option<&Image>) -> Result<()> {
        let path = self.files.path(image);
        match from {
            Some(from) if self.exported(&from.name).await?.is_some() => {
                self.back_up(from, &path, size).await
            }
            from => {
                let from = from.map(|image| self.files.path(image));
                blocking(move || image::create(&path, size, from.as_deref())).await
            }
        }
    }

    async fn check(&self, image: &Image) -> Result<Option<Size>> {
        image::size_of(&self.files.path(image))
    }

    async fn delete(&self, image: &Image) -> Result<()> {
        let path = self.files.path(image);
        blocking(move || image::delete(&path)).await
    }

    /// The daemon does not grow what is exported, since vhost-user-blk has no way to say so.
    async fn resize(&self, image: &Image, size: Size) -> Result<()> {
        if self.exported(&image.name).await?.is_some() {
            return Err(Error::InUse(format!("{} is mapped: unmap it to let it grow", image.name)));
        }
        let path = self.files.path(image);
        blocking(move || image::grow(&path, size)).await
    }

    async fn settle(&self, source: &Image) -> Result<()> {
        self.end_copy(&source.name).await
    }

    async fn map(&self, name: &VolumeName, target: &Target) -> Result<Mapping> {
        if let Some(export) = self.exported(name).await? {
            return self.mapping(name, &export);
        }
        let added = match self.add_node(name, target).await {
            Ok(()) => self.add_export(name).await,
            Err(error) => Err(error),
        };
        if added.is_err() {
            // Nothing half done, not even a key; if the daemon is gone, so is the node.
            let _ = self.remove_node(name).await;
        }
        added
    }

    async fn unmap(&self, name: &VolumeName, target: &Target) -> Result<()> {
        let export = self.exported(name).await?;
        if let Target::Ceph(ceph) = target
            && (export.is_some() || self.has_node(&node_name(name)).await?)
        {
            self.answers(ceph).await?;
        }
        if let Some(export) = export {
            self.remove_export(name, &export).await?;
        }
        self.remove_node(name).await
    }

    async fn mapped(&self, name: &VolumeName, _: &Target) -> Result<Option<Mapping>> {
        let export = self.exported(name).await?;
        export.map(|export| self.mapping(name, &export)).transpose()
    }

    async fn list(&self) -> Result<Vec<Image>> {
        // Also finds out whether the daemon is there.
        self.exports().await?;
        self.files.list()
    }

    async fn capacity(&self, media: Media) -> Result<Option<Capacity>> {
        self.files.capacity(media).map(Some)
    }

    async fn look_at(&self, ceph: &CephImage) -> Result<Size> {
        self.look_at_image(ceph).await
    }

    fn generation(&self) -> Option<watch::Receiver<u64>> {
        Some(self.link.generation())
    }
}
