//! After a start: finishes or undoes what was under way, and maps again what shall be mapped.
use super::Volumes;
use crate::{
    error::{Error, Result},
    ledger::{MappingEntry, Phase, SnapshotEntry, VolumeEntry},
    volume::{Media, VolumeName},
};
use futures::StreamExt;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// Beside each other, since an image whose cluster is silent takes its time.
const MAPPINGS_AT_ONCE: usize = 64;
/// How often a data plane in another process is asked whether it is still the same.
const LOOK_INTERVAL: Duration = Duration::from_secs(2);

impl Volumes {
    /// Brings books and data plane together. One volume that cannot be helped does not keep the
    /// others from being served.
    pub async fn recover(&self) -> Result<()> {
        for VolumeEntry { name, .. } in self.books(|books| books.volumes.list()).await? {
            if let Err(error) = self.recover_volume(&name).await {
                tracing::error!(volume = %name, %error, "an interrupted operation cannot be finished");
            }
        }
        for entry in self.books(|books| books.snapshots.list()).await? {
            let name = entry.name.clone();
            if let Err(error) = self.recover_snapshot(entry).await {
                tracing::error!(snapshot = %name, %error, "an interrupted operation cannot be finished");
            }
        }
        let mappings = self.books(|books| books.mappings.list()).await?;
        let again = async |MappingEntry { name, .. }| {
            if let Err(error) = self.map_again(&name).await {
                tracing::error!(volume = %name, %error, "a volume cannot be mapped again");
            }
        };
        futures::stream::iter(mappings).for_each_concurrent(MAPPINGS_AT_ONCE, again).await;
        Ok(())
    }

    /// Does so again whenever the data plane may have been restarted, until `stop` is cancelled.
    pub async fn follow_backend(&self, stop: CancellationToken) {
        let Some(mut generation) = self.backend.generation() else { return stop.cancelled().await };
        generation.mark_unchanged();
        loop {
            tokio::select! {
                () = stop.cancelled() => return,
                () = tokio::time::sleep(LOOK_INTERVAL) => {
                    // Only to notice a lost connection, which makes a new one and so a new generation.
                    if let Err(error) = self.backend.list().await {
                        tracing::debug!(%error, "the data plane does not answer");
                    }
                }
                Ok(()) = generation.changed() => {
                    tracing::warn!(backend = self.backend.kind(), "telling a new data plane everything again");
                    if let Err(error) = self.recover().await {
                        tracing::error!(%error, "the data plane cannot be brought to what it should be");
                    }
                }
            }
        }
    }

    /// Applies a mapping that is written down, after the machine or the data plane was restarted.
    async fn map_again(&self, name: &VolumeName) -> Result<()> {
        let _guard = self.guards.one(name).await?;
        let Some(MappingEntry { params, .. }) = self.wanted(name).await? else { return Ok(()) };
        match self.target(name, &params).await {
            Ok(target) => self.backend.map(name, &target).await.map(|_| ()),
            Err(Error::NotFound { .. }) => {
                let gone = name.clone();
                self.books(move |books| books.mappings.remove(&gone)).await
            }
            Err(error) => Err(error),
        }
    }

    async fn recover_volume(&self, name: &VolumeName) -> Result<()> {
        let _guard = self.guards.one(name).await?;
        let Some(mut entry) = self.entry(name).await? else { return Ok(()) };
        let image = entry.image();
        match entry.phase {
            Phase::Ready => {
                let missing = self.backend.check(&image).await?.is_none();
                if missing && entry.media == Media::Memory {
                    tracing::warn!(volume = %entry.name, "a volume in memory is gone with the restart");
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
        let names = [super::snapshots::lock(&entry.name), entry.volume.to_string()];
        let _guard = self.guards.all(&[&names[0], &names[1]]).await?;
        let Some(entry) = self.snapshot_entry(&entry.name).await? else { return Ok(()) };
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
