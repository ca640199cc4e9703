//! After a start: finishes or undoes what was under way, and maps again what shall be mapped.
use super::Volumes;
use crate::{
    error::{Error, Result},
    ledger::{MappingEntry, Phase, SnapshotEntry, VolumeEntry},
    volume::Media,
};

impl Volumes {
    /// Brings books and data plane together. One volume that cannot be helped does not keep the
    /// others from being served.
    pub async fn recover(&self) -> Result<()> {
        for entry in self.books(|books| books.volumes.list()).await? {
            let name = entry.name.clone();
            if let Err(error) = self.recover_volume(entry).await {
                tracing::error!(volume = %name, %error, "an interrupted operation cannot be finished");
            }
        }
        for entry in self.books(|books| books.snapshots.list()).await? {
            let name = entry.name.clone();
            if let Err(error) = self.recover_snapshot(entry).await {
                tracing::error!(snapshot = %name, %error, "an interrupted operation cannot be finished");
            }
        }
        self.map_again().await
    }

    /// Applies the mappings that are written down, after the machine or the data plane was restarted.
    pub async fn map_again(&self) -> Result<()> {
        for MappingEntry { name, params } in self.books(|books| books.mappings.list()).await? {
            let mapped = match self.target(&name, &params).await {
                Ok(target) => self.backend.map(&name, &target).await.map(|_| ()),
                Err(Error::NotFound { .. }) => {
                    let gone = name.clone();
                    self.books(move |books| books.mappings.remove(&gone)).await
                }
                Err(error) => Err(error),
            };
            if let Err(error) = mapped {
                tracing::error!(volume = %name, %error, "a volume cannot be mapped again");
            }
        }
        Ok(())
    }

    async fn recover_volume(&self, mut entry: VolumeEntry) -> Result<()> {
        let image = entry.image();
        match entry.phase {
            Phase::Ready => {
                let missing = self.backend.check(&image).await?.is_none();
                if missing && entry.media == Media::Memory {
                    tracing::warn!(volume = %entry.name, "a volume in memory is gone with its machine's restart");
                    self.forget(&entry.name).await?;
                }
                Ok(())
            }
            Phase::Growing(size) => self.finish_growing(&mut entry, size).await,
            Phase::Deleting => {
                self.backend.delete(&image).await?;
                self.forget(&entry.name).await
            }
            // The caller never got an answer, so it asks again or has given up.
            Phase::Creating => {
                if let Some(crate::volume::Source::Volume(source)) = &entry.source
                    && let Ok(source) = self.existing(source).await
                {
                    self.backend.settle(&source.image()).await?;
                }
                self.backend.delete(&image).await?;
                self.forget(&entry.name).await
            }
        }
    }

    async fn recover_snapshot(&self, entry: SnapshotEntry) -> Result<()> {
        let image = entry.image();
        match entry.phase {
            Phase::Ready | Phase::Growing(_) => {
                if entry.media == Media::Memory && self.backend.check(&image).await?.is_none() {
                    self.forget_snapshot(&entry.name).await?;
                }
                Ok(())
            }
            Phase::Creating | Phase::Deleting => {
                if let Ok(source) = self.existing(&entry.volume).await {
                    self.backend.settle(&source.image()).await?;
                }
                self.backend.delete(&image).await?;
                self.forget_snapshot(&entry.name).await
            }
        }
    }
}
