//! Volumes as devices.
use super::Volumes;
use crate::{
    backend::Target,
    error::{Error, Result},
    ledger::MappingEntry,
    volume::{CephImage, Mapping, Params, Size, VolumeName},
};

impl Volumes {
    /// Shows a volume as a device. The same parameters again give the same answer; others are refused.
    pub async fn map(&self, name: &VolumeName, params: Params) -> Result<Mapping> {
        let _guard = self.guards.one(name).await?;
        let wanted = self.wanted(name).await?;
        if wanted.as_ref().is_some_and(|entry| entry.params != params) {
            return Err(Error::Conflict(format!(
                "the volume {name} is mapped already, with other parameters"
            )));
        }
        let target = self.target(name, &params).await?;
        if wanted.is_none() {
            let entry = MappingEntry { name: name.clone(), params };
            self.books(move |books| books.mappings.put(&entry.name, &entry)).await?;
        }
        match self.backend.map(name, &target).await {
            Ok(mapping) => {
                tracing::info!(volume = %name, device = mapping.device, scsi = mapping.scsi, "volume mapped");
                Ok(mapping)
            }
            Err(error) if wanted.is_none() => {
                self.unwant(name).await?;
                Err(error)
            }
            Err(error) => Err(error),
        }
    }

    /// The size of an image of Ceph, whether it is mapped or not.
    pub async fn look_at(&self, ceph: &CephImage) -> Result<Size> {
        self.backend.look_at(ceph).await
    }

    /// Takes the device away; none being there is fine.
    pub async fn unmap(&self, name: &VolumeName) -> Result<()> {
        let _guard = self.guards.one(name).await?;
        let Some(entry) = self.wanted(name).await? else { return Ok(()) };
        let target = self.target(name, &entry.params).await?;
        self.backend.unmap(name, &target).await?;
        self.unwant(name).await?;
        tracing::info!(volume = %name, "volume unmapped");
        Ok(())
    }

    /// The intent to have the volume as a device, if there is one.
    pub(super) async fn wanted(&self, name: &VolumeName) -> Result<Option<MappingEntry>> {
        let name = name.clone();
        self.books(move |books| books.mappings.get(&name)).await
    }

    async fn unwant(&self, name: &VolumeName) -> Result<()> {
        let name = name.clone();
        self.books(move |books| books.mappings.remove(&name)).await
    }

    /// Where the device of a volume is, if it is mapped and there.
    pub(super) async fn mapping(&self, name: &VolumeName) -> Result<Option<Mapping>> {
        let Some(entry) = self.wanted(name).await? else { return Ok(None) };
        let target = self.target(name, &entry.params).await?;
        self.backend.mapped(name, &target).await
    }

    pub(super) async fn target(&self, name: &VolumeName, params: &Params) -> Result<Target> {
        Ok(match params {
            Params::Provisioned => Target::Image(self.existing(name).await?.image()),
            Params::Ceph(image) => Target::Ceph(image.clone()),
        })
    }
}
