//! `csi.v1.Controller`: the calls, each in the file of its subject.

mod expand;
mod list;
mod publish;
mod snapshots;
mod volumes;

use super::{Driver, capacity, labels};
use crate::volume::{Source, Volume};
use orrery_proto::csi::v1::{
    self as pb, ControllerExpandVolumeRequest, ControllerExpandVolumeResponse,
    ControllerGetCapabilitiesRequest, ControllerGetCapabilitiesResponse,
    ControllerGetVolumeRequest, ControllerGetVolumeResponse, ControllerModifyVolumeRequest,
    ControllerModifyVolumeResponse, ControllerPublishVolumeRequest,
    ControllerPublishVolumeResponse, ControllerServiceCapability, ControllerUnpublishVolumeRequest,
    ControllerUnpublishVolumeResponse, CreateSnapshotRequest, CreateSnapshotResponse,
    CreateVolumeRequest, CreateVolumeResponse, DeleteSnapshotRequest, DeleteSnapshotResponse,
    DeleteVolumeRequest, DeleteVolumeResponse, GetCapacityRequest, GetCapacityResponse,
    GetSnapshotRequest, GetSnapshotResponse, ListSnapshotsRequest, ListSnapshotsResponse,
    ListVolumesRequest, ListVolumesResponse, ValidateVolumeCapabilitiesRequest,
    ValidateVolumeCapabilitiesResponse, VolumeCondition, VolumeContentSource,
    controller_server::Controller,
    controller_service_capability::{Rpc, Type, rpc},
    volume_content_source::{SnapshotSource, Type as SourceType, VolumeSource},
};
use tonic::{Request, Response, Status};

/// What the service can do. `GetSnapshot` works but is not in the list: it is an alpha feature, and
/// callers of the released interface refuse a driver that names a capability they do not know.
const CAPABILITIES: [rpc::Type; 14] = [
    rpc::Type::CreateDeleteVolume,
    rpc::Type::PublishUnpublishVolume,
    rpc::Type::ListVolumes,
    rpc::Type::GetCapacity,
    rpc::Type::CreateDeleteSnapshot,
    rpc::Type::ListSnapshots,
    rpc::Type::CloneVolume,
    rpc::Type::PublishReadonly,
    rpc::Type::ExpandVolume,
    rpc::Type::ListVolumesPublishedNodes,
    rpc::Type::VolumeCondition,
    rpc::Type::GetVolume,
    rpc::Type::SingleNodeMultiWriter,
    rpc::Type::ModifyVolume,
];

impl Driver {
    /// A volume as callers see it.
    fn show(&self, volume: &Volume) -> pb::Volume {
        pb::Volume {
            capacity_bytes: volume.size.to_i64(),
            volume_id: super::text(&volume.name),
            volume_context: Default::default(),
            content_source: volume.source.as_ref().map(show_source),
            accessible_topology: vec![self.topology()],
        }
    }
}

fn show_source(source: &Source) -> VolumeContentSource {
    let kind = match source {
        Source::Snapshot(name) => {
            SourceType::Snapshot(SnapshotSource { snapshot_id: super::text(name) })
        }
        Source::Volume(name) => SourceType::Volume(VolumeSource { volume_id: super::text(name) }),
    };
    VolumeContentSource { r#type: Some(kind) }
}

fn condition(volume: &Volume) -> VolumeCondition {
    match &volume.fault {
        Some(fault) => VolumeCondition { abnormal: true, message: fault.clone() },
        None => VolumeCondition { abnormal: false, message: "the volume is in order".to_owned() },
    }
}

fn published_nodes(volume: &Volume) -> Vec<String> {
    labels::published(&volume.labels).map(|published| published.node).into_iter().collect()
}

type Answer<T> = Result<Response<T>, Status>;

#[tonic::async_trait]
impl Controller for Driver {
    async fn create_volume(
        &self,
        request: Request<CreateVolumeRequest>,
    ) -> Answer<CreateVolumeResponse> {
        let volume = Driver::create_volume(self, request.into_inner()).await?;
        Ok(Response::new(CreateVolumeResponse { volume: Some(volume) }))
    }

    async fn delete_volume(
        &self,
        request: Request<DeleteVolumeRequest>,
    ) -> Answer<DeleteVolumeResponse> {
        Driver::delete_volume(self, &request.into_inner().volume_id).await?;
        Ok(Response::new(DeleteVolumeResponse {}))
    }

    async fn controller_publish_volume(
        &self,
        request: Request<ControllerPublishVolumeRequest>,
    ) -> Answer<ControllerPublishVolumeResponse> {
        self.publish_to_node(request.into_inner()).await?;
        Ok(Response::new(ControllerPublishVolumeResponse::default()))
    }

    async fn controller_unpublish_volume(
        &self,
        request: Request<ControllerUnpublishVolumeRequest>,
    ) -> Answer<ControllerUnpublishVolumeResponse> {
        let ControllerUnpublishVolumeRequest { volume_id, node_id, .. } = request.into_inner();
        self.unpublish_from_node(&volume_id, &node_id).await?;
        Ok(Response::new(ControllerUnpublishVolumeResponse {}))
    }

    async fn validate_volume_capabilities(
        &self,
        request: Request<ValidateVolumeCapabilitiesRequest>,
    ) -> Answer<ValidateVolumeCapabilitiesResponse> {
        Ok(Response::new(self.validate(request.into_inner()).await?))
    }

    async fn list_volumes(
        &self,
        request: Request<ListVolumesRequest>,
    ) -> Answer<ListVolumesResponse> {
        Ok(Response::new(Driver::list_volumes(self, &request.into_inner()).await?))
    }

    async fn get_capacity(
        &self,
        request: Request<GetCapacityRequest>,
    ) -> Answer<GetCapacityResponse> {
        Ok(Response::new(Driver::get_capacity(self, &request.into_inner()).await?))
    }

    async fn controller_get_capabilities(
        &self,
        _: Request<ControllerGetCapabilitiesRequest>,
    ) -> Answer<ControllerGetCapabilitiesResponse> {
        let capability = |kind: rpc::Type| ControllerServiceCapability {
            r#type: Some(Type::Rpc(Rpc { r#type: kind.into() })),
        };
        let capabilities = CAPABILITIES.map(capability).into();
        Ok(Response::new(ControllerGetCapabilitiesResponse { capabilities }))
    }

    async fn create_snapshot(
        &self,
        request: Request<CreateSnapshotRequest>,
    ) -> Answer<CreateSnapshotResponse> {
        let snapshot = Driver::create_snapshot(self, &request.into_inner()).await?;
        Ok(Response::new(CreateSnapshotResponse { snapshot: Some(snapshot) }))
    }

    async fn delete_snapshot(
        &self,
        request: Request<DeleteSnapshotRequest>,
    ) -> Answer<DeleteSnapshotResponse> {
        Driver::delete_snapshot(self, &request.into_inner().snapshot_id).await?;
        Ok(Response::new(DeleteSnapshotResponse {}))
    }

    async fn list_snapshots(
        &self,
        request: Request<ListSnapshotsRequest>,
    ) -> Answer<ListSnapshotsResponse> {
        Ok(Response::new(Driver::list_snapshots(self, &request.into_inner()).await?))
    }

    async fn get_snapshot(
        &self,
        request: Request<GetSnapshotRequest>,
    ) -> Answer<GetSnapshotResponse> {
        let snapshot = Driver::get_snapshot(self, &request.into_inner().snapshot_id).await?;
        Ok(Response::new(GetSnapshotResponse { snapshot: Some(snapshot) }))
    }

    async fn controller_expand_volume(
        &self,
        request: Request<ControllerExpandVolumeRequest>,
    ) -> Answer<ControllerExpandVolumeResponse> {
        Ok(Response::new(self.expand(&request.into_inner()).await?))
    }

    async fn controller_get_volume(
        &self,
        request: Request<ControllerGetVolumeRequest>,
    ) -> Answer<ControllerGetVolumeResponse> {
        Ok(Response::new(self.get_volume(&request.into_inner().volume_id).await?))
    }

    async fn controller_modify_volume(
        &self,
        request: Request<ControllerModifyVolumeRequest>,
    ) -> Answer<ControllerModifyVolumeResponse> {
        self.modify(&request.into_inner()).await?;
        Ok(Response::new(ControllerModifyVolumeResponse {}))
    }
}
