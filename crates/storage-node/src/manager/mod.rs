//! The rules of a storage controller, above any backend.
//!
//! Every operation takes the lock of its volume, writes down what it is about to do, does it, and
//! writes down that it is done. So each may be repeated at any time, and after a crash
//! [`Volumes::recover`] finishes or undoes what was under way.

mod mapping;
mod recover;
mod snapshots;

use crate::{
    Clock,
    backend::{Backend, Image, Role},
    error::{Error, Result, blocking},
    guard::Guards,
    ledger::{self, Ledger, MappingEntry, Phase, SnapshotEntry, VolumeEntry},
    volume::{Capacity, Labels, Media, Size, Source, Volume, VolumeName},
};
use std::{path::Path, sync::Arc};

/// The volumes of one controller.
pub struct Volumes {
    books: Arc<Books>,
    backend: Arc<dyn Backend>,
    guards: Guards,
    clock: Clock,
    id: String,
}

/// What is written down.
struct Books {
    volumes: Ledger<VolumeEntry>,
    snapshots: Ledger<SnapshotEntry>,
    mappings: Ledger<MappingEntry>,
}

/// What a new volume shall be like.
#[derive(Clone, Debug, PartialEq)]
pub struct Request {
    pub name: VolumeName,
    pub size: Size,
    pub media: Media,
    pub source: Option<Source>,
    pub labels: Labels,
}

impl VolumeEntry {
    fn image(&self) -> Image {
        Image { name: self.name.clone(), media: self.media, role: Role::Volume }
    }

    /// Whether the volume is what a request asks for. Labels may have changed since it was made.
    fn fits(&self, request: &Request) -> bool {
        (self.size, self.media, &self.source) == (request.size, request.media, &request.source)
    }
}

impl SnapshotEntry {
    fn image(&self) -> Image {
        Image { name: self.name.clone(), media: self.media, role: Role::Snapshot }
    }
}

impl Volumes {
    /// Opens the books in `folder`, creates them if there are none, and finishes what was interrupted.
    pub async fn open(folder: &Path, backend: Arc<dyn Backend>, clock: Clock) -> Result<Self> {
        let books = Books {
            volumes: Ledger::open(folder.join("volumes"))?,
            snapshots: Ledger::open(folder.join("snapshots"))?,
            mappings: Ledger::open(folder.join("mappings"))?,
        };
        let (books, guards, id) = (Arc::new(books), Guards::default(), ledger::id(folder)?);
        let volumes = Self { books, backend, guards, clock, id };
        volumes.recover().await?;
        Ok(volumes)
    }

    /// Of these books: another one for every state folder.
    pub fn id(&self) -> &str {
        &self.id
    }

    pub fn backend(&self) -> &'static str {
        self.backend.kind()
    }

    /// Reads or writes the books on a thread that may block.
    async fn books<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Books) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let books = self.books.clone();
        blocking(move || work(&books)).await
    }

    async fn entry(&self, name: &VolumeName) -> Result<Option<VolumeEntry>> {
        let name = name.clone();
        self.books(move |books| books.volumes.get(&name)).await
    }

    async fn existing(&self, name: &VolumeName) -> Result<VolumeEntry> {
        let entry = self.entry(name).await?;
        let there = entry.filter(|entry| entry.phase.is_there());
        there.ok_or_else(|| Error::not_found("volume", name.as_str()))
    }

    async fn write(&self, entry: VolumeEntry) -> Result<()> {
        self.books(move |books| books.volumes.put(&entry.name, &entry)).await
    }

    async fn forget(&self, name: &VolumeName) -> Result<()> {
        let name = name.clone();
        self.books(move |books| books.volumes.remove(&name)).await
    }

    /// Creates a volume, or finds that it is there already and is the same.
    pub async fn create(&self, request: Request) -> Result<Volume> {
        let source = request.source.as_ref().map(|source| match source {
            Source::Snapshot(name) => snapshots::lock(name),
            Source::Volume(name) => name.to_string(),
        });
        let names: Vec<&str> =
            [request.name.as_str()].into_iter().chain(source.as_deref()).collect();
        let _guard = self.guards.all(&names).await?;
        let mut entry = match self.entry(&request.name).await? {
            Some(entry) if entry.phase == Phase::Deleting => {
                return Err(Error::Pending(format!(
                    "{} is being deleted, try again",
                    request.name
                )));
            }
            Some(entry) if !entry.fits(&request) => return Err(conflict(&entry)),
            Some(entry) if entry.phase.is_there() => return self.show(entry).await,
            Some(entry) => entry,
            None => self.begin(&request).await?,
        };
        let from = self.source_image(&request).await?;
        if let Err(error) =
            self.backend.provision(&entry.image(), request.size, from.as_ref()).await
        {
            self.forget(&request.name).await?;
            return Err(error);
        }
        entry.phase = Phase::Ready;
        self.write(entry.clone()).await?;
        tracing::info!(volume = %entry.name, size = %entry.size, media = ?entry.media, "volume created");
        self.show(entry).await
    }

    /// Checks what has to be true before anything is done, and writes down the intent.
    async fn begin(&self, request: &Request) -> Result<VolumeEntry> {
        self.source_image(request).await?;
        self.check_space(request.media, request.size.bytes()).await?;
        let entry = VolumeEntry {
            name: request.name.clone(),
            size: request.size,
            media: request.media,
            labels: request.labels.clone(),
            created: self.clock.now(),
            source: request.source.clone(),
            phase: Phase::Creating,
        };
        self.write(entry.clone()).await?;
        Ok(entry)
    }

    async fn source_image(&self, request: &Request) -> Result<Option<Image>> {
        let (image, size) = match &request.source {
            None => return Ok(None),
            Some(Source::Volume(name)) => {
                let entry = self.existing(name).await?;
                (entry.image(), entry.size)
            }
            Some(Source::Snapshot(name)) => {
                let entry = self.existing_snapshot(name).await?;
                (entry.image(), entry.size)
            }
        };
        if request.size < size {
            return Err(Error::OutOfRange(format!(
                "{} does not fit into {}: its source {} has {size}",
                request.name, request.size, image.name
            )));
        }
        Ok(Some(image))
    }

    /// Images take space as they are written, so what counts is what is free now.
    async fn check_space(&self, media: Media, more_bytes: u64) -> Result<()> {
        match self.backend.capacity(media).await? {
            Some(capacity) if more_bytes > capacity.available_bytes => Err(Error::Exhausted(
                format!("{more_bytes} bytes are wanted and {} are free", capacity.available_bytes),
            )),
            Some(_) | None => Ok(()),
        }
    }

    /// Deletes a volume and its data; one that is not there is fine.
    pub async fn delete(&self, name: &VolumeName) -> Result<()> {
        let _guard = self.guards.one(name).await?;
        let Some(mut entry) = self.entry(name).await? else { return Ok(()) };
        if self.wanted(name).await?.is_some() {
            return Err(Error::InUse(format!("the volume {name} is mapped: unmap it first")));
        }
        entry.phase = Phase::Deleting;
        self.write(entry.clone()).await?;
        self.backend.delete(&entry.image()).await?;
        self.forget(name).await?;
        tracing::info!(volume = %name, "volume deleted");
        Ok(())
    }

    pub async fn get(&self, name: &VolumeName) -> Result<Volume> {
        let entry = self.existing(name).await?;
        self.show(entry).await
    }

    /// All volumes, sorted by name.
    pub async fn list(&self) -> Result<Vec<Volume>> {
        let entries = self.books(|books| books.volumes.list()).await?;
        let mut volumes = Vec::with_capacity(entries.len());
        for entry in entries.into_iter().filter(|entry| entry.phase.is_there()) {
            volumes.push(self.show(entry).await?);
        }
        Ok(volumes)
    }

    /// Grows a volume; a size it has already is fine.
    pub async fn resize(&self, name: &VolumeName, size: Size) -> Result<Volume> {
        let _guard = self.guards.one(name).await?;
        let mut entry = self.existing(name).await?;
        if size < entry.size {
            return Err(Error::OutOfRange(format!(
                "the volume {name} has {} and cannot shrink to {size}",
                entry.size
            )));
        }
        if size > entry.size {
            self.check_space(entry.media, size.bytes() - entry.size.bytes()).await?;
            entry.phase = Phase::Growing(size);
            self.write(entry.clone()).await?;
            self.finish_growing(&mut entry, size).await?;
        }
        self.show(entry).await
    }

    async fn finish_growing(&self, entry: &mut VolumeEntry, size: Size) -> Result<()> {
        self.backend.resize(&entry.image(), size).await?;
        entry.size = size;
        entry.phase = Phase::Ready;
        self.write(entry.clone()).await
    }

    /// Replaces the labels if they are still those that the caller saw.
    pub async fn set_labels(
        &self,
        name: &VolumeName,
        seen: &Labels,
        labels: Labels,
    ) -> Result<Volume> {
        let _guard = self.guards.one(name).await?;
        let mut entry = self.existing(name).await?;
        if entry.labels != *seen {
            return Err(Error::Pending(format!("the labels of {name} have changed, look again")));
        }
        entry.labels = labels;
        self.write(entry.clone()).await?;
        self.show(entry).await
    }

    pub async fn capacity(&self, media: Media) -> Result<Capacity> {
        let capacity = self.backend.capacity(media).await?;
        capacity.ok_or_else(|| {
            let kind = self.backend.kind();
            Error::Unsupported(format!("the {kind} backend does not say how much room there is"))
        })
    }

    /// Adds what the data plane says to what is written down.
    async fn show(&self, entry: VolumeEntry) -> Result<Volume> {
        let fault = match self.backend.check(&entry.image()).await {
            Ok(Some(size)) if size >= entry.size => None,
            Ok(Some(size)) => Some(format!("its image has {size} instead of {}", entry.size)),
            Ok(None) => Some("its image is missing".to_owned()),
            Err(Error::Lost(reason)) => Some(reason),
            Err(error) => return Err(error),
        };
        let mapping = self.mapping(&entry.name).await?;
        let VolumeEntry { name, size, media, labels, created, source, .. } = entry;
        Ok(Volume { name, size, media, labels, created, source, mapping, fault })
    }
}

fn conflict(entry: &VolumeEntry) -> Error {
    Error::Conflict(format!(
        "the volume {} exists with {} on {:?}, made from {:?}",
        entry.name, entry.size, entry.media, entry.source
    ))
}
