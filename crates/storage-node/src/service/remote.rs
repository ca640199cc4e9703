//! A controller elsewhere, reached through the registry's proxy.
use super::{
    Endpoint,
    convert::{capacity_from, media_to, request_to, snapshot_from, volume_from},
};
use crate::{
    Pool, Request as NewVolume,
    error::{Error, Result},
    volume::{Capacity, Labels, Mapping, Media, Size, Snapshot, Volume, VolumeName},
};
use orrery_proto::{
    oim::v0::{
        MallocParams, MapVolumeRequest, UnmapVolumeRequest, controller_client::ControllerClient,
        map_volume_request::Params,
    },
    volumes::v1::{self as pb, pool_client::PoolClient},
};
use tonic::{
    Request,
    metadata::{Ascii, MetadataValue},
    transport::Channel,
};

/// The metadata key by which the registry's proxy chooses the controller.
const CONTROLLER_ID_KEY: &str = "controllerid";

pub struct RemotePool {
    controller: ControllerClient<Channel>,
    pool: PoolClient<Channel>,
    id: MetadataValue<Ascii>,
}

impl RemotePool {
    /// The controller `id` behind the given registry. Nothing is sent before the first call.
    pub fn new(registry: &Endpoint, id: &str) -> Result<Self> {
        let id = id
            .parse()
            .map_err(|_| Error::Invalid(format!("{id:?} cannot be the id of a controller")))?;
        let channel = registry.channel();
        let (controller, pool) = (ControllerClient::new(channel.clone()), PoolClient::new(channel));
        Ok(Self { controller, pool, id })
    }

    fn to<T>(&self, message: T) -> Request<T> {
        let mut request = Request::new(message);
        request.metadata_mut().insert(CONTROLLER_ID_KEY, self.id.clone());
        request
    }
}

#[async_trait::async_trait]
impl Pool for RemotePool {
    async fn create(&self, request: NewVolume) -> Result<Volume> {
        let request = self.to(request_to(request));
        volume_from(self.pool.clone().create_volume(request).await?.into_inner())
    }

    async fn delete(&self, name: &VolumeName) -> Result<()> {
        let request = self.to(pb::DeleteVolumeRequest { name: name.to_string() });
        self.pool.clone().delete_volume(request).await?;
        Ok(())
    }

    async fn get(&self, name: &VolumeName) -> Result<Volume> {
        let request = self.to(pb::GetVolumeRequest { name: name.to_string() });
        volume_from(self.pool.clone().get_volume(request).await?.into_inner())
    }

    async fn list(&self) -> Result<Vec<Volume>> {
        let request = self.to(pb::ListVolumesRequest {});
        let reply = self.pool.clone().list_volumes(request).await?.into_inner();
        reply.volumes.into_iter().map(volume_from).collect()
    }

    async fn resize(&self, name: &VolumeName, size: Size) -> Result<Volume> {
        let (name, size_bytes) = (name.to_string(), size.to_i64());
        let request = self.to(pb::ResizeVolumeRequest { name, size_bytes });
        volume_from(self.pool.clone().resize_volume(request).await?.into_inner())
    }

    async fn set_labels(&self, name: &VolumeName, seen: &Labels, labels: Labels) -> Result<Volume> {
        let request = self.to(pb::SetLabelsRequest {
            name: name.to_string(),
            expected: seen.clone().into_iter().collect(),
            labels: labels.into_iter().collect(),
        });
        volume_from(self.pool.clone().set_labels(request).await?.into_inner())
    }

    async fn create_snapshot(
        &self,
        name: &VolumeName,
        volume: &VolumeName,
        labels: Labels,
    ) -> Result<Snapshot> {
        let (name, volume) = (name.to_string(), volume.to_string());
        let labels = labels.into_iter().collect();
        let request = self.to(pb::CreateSnapshotRequest { name, volume, labels });
        snapshot_from(self.pool.clone().create_snapshot(request).await?.into_inner())
    }

    async fn delete_snapshot(&self, name: &VolumeName) -> Result<()> {
        let request = self.to(pb::DeleteSnapshotRequest { name: name.to_string() });
        self.pool.clone().delete_snapshot(request).await?;
        Ok(())
    }

    async fn list_snapshots(&self) -> Result<Vec<Snapshot>> {
        let request = self.to(pb::ListSnapshotsRequest {});
        let reply = self.pool.clone().list_snapshots(request).await?.into_inner();
        reply.snapshots.into_iter().map(snapshot_from).collect()
    }

    async fn capacity(&self, media: Media) -> Result<Capacity> {
        let request = self.to(pb::GetCapacityRequest { media: media_to(media).into() });
        Ok(capacity_from(self.pool.clone().get_capacity(request).await?.get_ref()))
    }

    async fn map(&self, name: &VolumeName) -> Result<Mapping> {
        let request = self.to(MapVolumeRequest {
            volume_id: name.to_string(),
            params: Some(Params::Malloc(MallocParams {})),
        });
        let reply = self.controller.clone().map_volume(request).await?.into_inner();
        Ok(Mapping { device: reply.device, scsi: reply.scsi })
    }

    async fn unmap(&self, name: &VolumeName) -> Result<()> {
        let request = self.to(UnmapVolumeRequest { volume_id: name.to_string() });
        self.controller.clone().unmap_volume(request).await?;
        Ok(())
    }
}
