//! Snapshots: read-only copies with names of their own.
use super::Volumes;
use crate::{
    error::{Error, Result},
    ledger::{Phase, SnapshotEntry},
    volume::{Labels, Snapshot, VolumeName},
};

impl Volumes {
    /// Keeps the present content of a volume. The same name for the same volume again is the same
    /// snapshot; for another volume it is refused.
    pub async fn create_snapshot(
        &self,
        name: &VolumeName,
        volume: &VolumeName,
        labels: Labels,
    ) -> Result<Snapshot> {
        let _guard = self.guards.all(&[&lock(name), volume.as_str()]).await?;
        let mut entry = match self.snapshot_entry(name).await? {
            Some(entry) if entry.volume != *volume => {
                return Err(Error::Conflict(format!(
                    "the snapshot {name} exists and is of the volume {}",
                    entry.volume
                )));
            }
            Some(entry) if entry.phase == Phase::Ready => return Ok(show(entry)),
            Some(entry) => entry,
            None => self.begin_snapshot(name, volume, labels).await?,
        };
        let source = self.existing(volume).await?.image();
        if let Err(error) = self.backend.provision(&entry.image(), entry.size, Some(&source)).await
        {
            self.forget_snapshot(name).await?;
            return Err(error);
        }
        entry.phase = Phase::Ready;
        self.write_snapshot(entry.clone()).await?;
        tracing::info!(snapshot = %name, %volume, "snapshot created");
        Ok(show(entry))
    }

    async fn begin_snapshot(
        &self,
        name: &VolumeName,
        volume: &VolumeName,
        labels: Labels,
    ) -> Result<SnapshotEntry> {
        let source = self.existing(volume).await?;
        let entry = SnapshotEntry {
            name: name.clone(),
            volume: volume.clone(),
            media: source.media,
            size: source.size,
            labels,
            created: self.clock.now(),
            phase: Phase::Creating,
        };
        self.write_snapshot(entry.clone()).await?;
        Ok(entry)
    }

    /// Deletes a snapshot; one that is not there is fine.
    pub async fn delete_snapshot(&self, name: &VolumeName) -> Result<()> {
        let _guard = self.guards.all(&[&lock(name)]).await?;
        let Some(mut entry) = self.snapshot_entry(name).await? else { return Ok(()) };
        entry.phase = Phase::Deleting;
        self.write_snapshot(entry.clone()).await?;
        self.backend.delete(&entry.image()).await?;
        self.forget_snapshot(name).await?;
        tracing::info!(snapshot = %name, "snapshot deleted");
        Ok(())
    }

    /// All snapshots, sorted by name.
    pub async fn list_snapshots(&self) -> Result<Vec<Snapshot>> {
        let entries = self.books(|books| books.snapshots.list()).await?;
        let ready = entries.into_iter().filter(|entry| entry.phase == Phase::Ready);
        Ok(ready.map(show).collect())
    }

    pub(super) async fn existing_snapshot(&self, name: &VolumeName) -> Result<SnapshotEntry> {
        let entry = self.snapshot_entry(name).await?;
        let ready = entry.filter(|entry| entry.phase == Phase::Ready);
        ready.ok_or_else(|| Error::not_found("snapshot", name.as_str()))
    }

    pub(super) async fn snapshot_entry(&self, name: &VolumeName) -> Result<Option<SnapshotEntry>> {
        let name = name.clone();
        self.books(move |books| books.snapshots.get(&name)).await
    }

    pub(super) async fn write_snapshot(&self, entry: SnapshotEntry) -> Result<()> {
        self.books(move |books| books.snapshots.put(&entry.name, &entry)).await
    }

    pub(super) async fn forget_snapshot(&self, name: &VolumeName) -> Result<()> {
        let name = name.clone();
        self.books(move |books| books.snapshots.remove(&name)).await
    }
}

/// Snapshots and volumes may have the same names, but not the same locks. A slash is in no name.
pub(super) fn lock(name: &VolumeName) -> String {
    format!("snapshot/{name}")
}

fn show(entry: SnapshotEntry) -> Snapshot {
    let SnapshotEntry { name, volume, size, labels, created, .. } = entry;
    Snapshot { name, volume, size, created, labels }
}
