//! What the CSI driver needs of a storage controller, be it in the same process or elsewhere.
use crate::{
    Request, Volumes,
    error::{Error, Result},
    volume::{Capacity, Labels, Mapping, Media, Params, Size, Snapshot, Volume, VolumeName},
};

/// A controller's volumes. The rules are those of [`Volumes`], which is the one implementation that
/// acts; the other passes calls on.
#[async_trait::async_trait]
pub trait Pool: Send + Sync + 'static {
    async fn create(&self, request: Request) -> Result<Volume>;
    async fn delete(&self, name: &VolumeName) -> Result<()>;
    async fn get(&self, name: &VolumeName) -> Result<Volume>;
    async fn list(&self) -> Result<Vec<Volume>>;
    async fn resize(&self, name: &VolumeName, size: Size) -> Result<Volume>;
    async fn set_labels(&self, name: &VolumeName, seen: &Labels, labels: Labels) -> Result<Volume>;
    async fn create_snapshot(
        &self,
        name: &VolumeName,
        volume: &VolumeName,
        labels: Labels,
    ) -> Result<Snapshot>;
    async fn delete_snapshot(&self, name: &VolumeName) -> Result<()>;
    async fn list_snapshots(&self) -> Result<Vec<Snapshot>>;
    async fn capacity(&self, media: Media) -> Result<Capacity>;
    async fn map(&self, name: &VolumeName) -> Result<Mapping>;
    async fn unmap(&self, name: &VolumeName) -> Result<()>;
}

/// The volume, or nothing where there is none.
pub async fn find(pool: &dyn Pool, name: &VolumeName) -> Result<Option<Volume>> {
    match pool.get(name).await {
        Ok(volume) => Ok(Some(volume)),
        Err(Error::NotFound { .. } | Error::Missing(_)) => Ok(None),
        Err(error) => Err(error),
    }
}

#[async_trait::async_trait]
impl Pool for Volumes {
    async fn create(&self, request: Request) -> Result<Volume> {
        Volumes::create(self, request).await
    }
    async fn delete(&self, name: &VolumeName) -> Result<()> {
        Volumes::delete(self, name).await
    }
    async fn get(&self, name: &VolumeName) -> Result<Volume> {
        Volumes::get(self, name).await
    }
    async fn list(&self) -> Result<Vec<Volume>> {
        Volumes::list(self).await
    }
    async fn resize(&self, name: &VolumeName, size: Size) -> Result<Volume> {
        Volumes::resize(self, name, size).await
    }
    async fn set_labels(&self, name: &VolumeName, seen: &Labels, labels: Labels) -> Result<Volume> {
        Volumes::set_labels(self, name, seen, labels).await
    }
    async fn create_snapshot(
        &self,
        name: &VolumeName,
        volume: &VolumeName,
        labels: Labels,
    ) -> Result<Snapshot> {
        Volumes::create_snapshot(self, name, volume, labels).await
    }
    async fn delete_snapshot(&self, name: &VolumeName) -> Result<()> {
        Volumes::delete_snapshot(self, name).await
    }
    async fn list_snapshots(&self) -> Result<Vec<Snapshot>> {
        Volumes::list_snapshots(self).await
    }
    async fn capacity(&self, media: Media) -> Result<Capacity> {
        Volumes::capacity(self, media).await
    }
    async fn map(&self, name: &VolumeName) -> Result<Mapping> {
        Volumes::map(self, name, Params::Provisioned).await
    }
    async fn unmap(&self, name: &VolumeName) -> Result<()> {
        Volumes::unmap(self, name).await
    }
}
