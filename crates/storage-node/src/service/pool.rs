//! `orrery.volumes.v1.Pool`.
use super::convert::{capacity_to, media_from, request_from, snapshot_to, volume_to};
use super::oim::ceph_image;
use crate::{
    Volumes,
    volume::{Size, VolumeName},
};
use orrery_proto::oim::v0::CephParams;
use orrery_proto::volumes::v1::{
    Capacity, CheckCephRequest, CheckCephResponse, CreateSnapshotRequest, CreateVolumeRequest,
    DeleteSnapshotRequest, DeleteSnapshotResponse, DeleteVolumeRequest, DeleteVolumeResponse,
    GetCapacityRequest, GetVolumeRequest, ListSnapshotsRequest, ListSnapshotsResponse,
    ListVolumesRequest, ListVolumesResponse, ResizeVolumeRequest, SetLabelsRequest, Snapshot,
    Volume, pool_server::Pool,
};
use std::sync::Arc;
use tonic::{Request, Response, Status};

pub struct PoolService {
    volumes: Arc<Volumes>,
}

impl PoolService {
    pub fn new(volumes: Arc<Volumes>) -> Self {
        Self { volumes }
    }
}

type Answer<T> = Result<Response<T>, Status>;

#[tonic::async_trait]
impl Pool for PoolService {
    async fn create_volume(&self, request: Request<CreateVolumeRequest>) -> Answer<Volume> {
        let volume = self.volumes.create(request_from(request.into_inner())?).await?;
        Ok(Response::new(volume_to(volume)))
    }

    async fn delete_volume(
        &self,
        request: Request<DeleteVolumeRequest>,
    ) -> Answer<DeleteVolumeResponse> {
        self.volumes.delete(&VolumeName::parse(&request.into_inner().name)?).await?;
        Ok(Response::new(DeleteVolumeResponse {}))
    }

    async fn get_volume(&self, request: Request<GetVolumeRequest>) -> Answer<Volume> {
        let volume = self.volumes.get(&VolumeName::parse(&request.into_inner().name)?).await?;
        Ok(Response::new(volume_to(volume)))
    }

    async fn list_volumes(&self, _: Request<ListVolumesRequest>) -> Answer<ListVolumesResponse> {
        let volumes = self.volumes.list().await?.into_iter().map(volume_to).collect();
        Ok(Response::new(ListVolumesResponse { volumes }))
    }

    async fn resize_volume(&self, request: Request<ResizeVolumeRequest>) -> Answer<Volume> {
        let ResizeVolumeRequest { name, size_bytes } = request.into_inner();
        let (name, size) = (VolumeName::parse(&name)?, Size::from_bytes(size_bytes)?);
        Ok(Response::new(volume_to(self.volumes.resize(&name, size).await?)))
    }

    async fn set_labels(&self, request: Request<SetLabelsRequest>) -> Answer<Volume> {
        let SetLabelsRequest { name, expected, labels } = request.into_inner();
        let (expected, labels) = (expected.into_iter().collect(), labels.into_iter().collect());
        let volume = self.volumes.set_labels(&VolumeName::parse(&name)?, &expected, labels).await?;
        Ok(Response::new(volume_to(volume)))
    }

    async fn create_snapshot(&self, request: Request<CreateSnapshotRequest>) -> Answer<Snapshot> {
        let CreateSnapshotRequest { name, volume, labels } = request.into_inner();
        let (name, volume) = (VolumeName::parse(&name)?, VolumeName::parse(&volume)?);
        let labels = labels.into_iter().collect();
        let snapshot = self.volumes.create_snapshot(&name, &volume, labels).await?;
        Ok(Response::new(snapshot_to(snapshot)))
    }

    async fn delete_snapshot(
        &self,
        request: Request<DeleteSnapshotRequest>,
    ) -> Answer<DeleteSnapshotResponse> {
        self.volumes.delete_snapshot(&VolumeName::parse(&request.into_inner().name)?).await?;
        Ok(Response::new(DeleteSnapshotResponse {}))
    }

    async fn list_snapshots(
        &self,
        _: Request<ListSnapshotsRequest>,
    ) -> Answer<ListSnapshotsResponse> {
        let snapshots = self.volumes.list_snapshots().await?.into_iter().map(snapshot_to).collect();
        Ok(Response::new(ListSnapshotsResponse { snapshots }))
    }

    async fn get_capacity(&self, request: Request<GetCapacityRequest>) -> Answer<Capacity> {
        let capacity = self.volumes.capacity(media_from(request.into_inner().media)?).await?;
        Ok(Response::new(capacity_to(capacity)))
    }
    async fn check_ceph(&self, request: Request<CheckCephRequest>) -> Answer<CheckCephResponse> {
        let CheckCephRequest { secret, user, monitors, pool, image } = request.into_inner();
        let params = CephParams { secret, user_id: user, monitors, pool, image };
        let size = self.volumes.look_at(&ceph_image("", params)?).await?;
        Ok(Response::new(CheckCephResponse { size_bytes: size.to_i64() }))
    }
}
