//! `csi.v1.Node`: the calls, each in the file of its subject.

mod publish;
mod stage;
mod stats;

use super::{Driver, labels};
use crate::{
    error::{Error, Result},
    host::block::{self, BlockDevice},
    volume::Volume,
};
use orrery_proto::csi::v1::{
    NodeExpandVolumeRequest, NodeExpandVolumeResponse, NodeGetCapabilitiesRequest,
    NodeGetCapabilitiesResponse, NodeGetInfoRequest, NodeGetInfoResponse,
    NodeGetVolumeStatsRequest, NodeGetVolumeStatsResponse, NodePublishVolumeRequest,
    NodePublishVolumeResponse, NodeServiceCapability, NodeStageVolumeRequest,
    NodeStageVolumeResponse, NodeUnpublishVolumeRequest, NodeUnpublishVolumeResponse,
    NodeUnstageVolumeRequest, NodeUnstageVolumeResponse,
    node_server::Node,
    node_service_capability::{Rpc, Type, rpc},
};
use tonic::{Request, Response, Status};

const CAPABILITIES: [rpc::Type; 5] = [
    rpc::Type::StageUnstageVolume,
    rpc::Type::GetVolumeStats,
    rpc::Type::ExpandVolume,
    rpc::Type::VolumeCondition,
    rpc::Type::SingleNodeMultiWriter,
];

impl Driver {
    /// The device of a volume that is mapped; `None` if it is not, or not there.
    fn device(&self, volume: &Volume) -> Result<Option<BlockDevice>> {
        match &volume.mapping {
            Some(mapping) => block::find(mapping, &self.config.nodes),
            None => Ok(None),
        }
    }

    /// Maps the volume and waits until its device is there.
    async fn bring(&self, volume: &Volume) -> Result<BlockDevice> {
        let mapping = self.pool.map(&volume.name).await?;
        let device =
            block::wait_for(&mapping, self.config.device_timeout, &self.config.nodes).await?;
        let mutable = super::parameters::mutable(&labels::mutable(&volume.labels))?;
        if let Some(kilobytes) = mutable.read_ahead_kb {
            device.set_read_ahead(kilobytes)?;
        }
        Ok(device)
    }
}

/// A path on this node has to be absolute, so that it means the same to everybody.
fn absolute(field: &str, path: &str) -> Result<()> {
    super::required(field, path)?;
    if path.starts_with('/') {
        return Ok(());
    }
    Err(Error::Invalid(format!("{field} has to be an absolute path: {path:?}")))
}

type Answer<T> = Result<Response<T>, Status>;

#[tonic::async_trait]
impl Node for Driver {
    async fn node_stage_volume(
        &self,
        request: Request<NodeStageVolumeRequest>,
    ) -> Answer<NodeStageVolumeResponse> {
        self.stage(&request.into_inner()).await?;
        Ok(Response::new(NodeStageVolumeResponse {}))
    }

    async fn node_unstage_volume(
        &self,
        request: Request<NodeUnstageVolumeRequest>,
    ) -> Answer<NodeUnstageVolumeResponse> {
        self.unstage(&request.into_inner()).await?;
        Ok(Response::new(NodeUnstageVolumeResponse {}))
    }

    async fn node_publish_volume(
        &self,
        request: Request<NodePublishVolumeRequest>,
    ) -> Answer<NodePublishVolumeResponse> {
        self.publish(&request.into_inner()).await?;
        Ok(Response::new(NodePublishVolumeResponse {}))
    }

    async fn node_unpublish_volume(
        &self,
        request: Request<NodeUnpublishVolumeRequest>,
    ) -> Answer<NodeUnpublishVolumeResponse> {
        self.unpublish(&request.into_inner()).await?;
        Ok(Response::new(NodeUnpublishVolumeResponse {}))
    }

    async fn node_get_volume_stats(
        &self,
        request: Request<NodeGetVolumeStatsRequest>,
    ) -> Answer<NodeGetVolumeStatsResponse> {
        Ok(Response::new(self.stats(&request.into_inner()).await?))
    }

    async fn node_expand_volume(
        &self,
        request: Request<NodeExpandVolumeRequest>,
    ) -> Answer<NodeExpandVolumeResponse> {
        let capacity_bytes = self.expand_here(&request.into_inner()).await?;
        Ok(Response::new(NodeExpandVolumeResponse { capacity_bytes }))
    }

    async fn node_get_capabilities(
        &self,
        _: Request<NodeGetCapabilitiesRequest>,
    ) -> Answer<NodeGetCapabilitiesResponse> {
        let capability = |kind: rpc::Type| NodeServiceCapability {
            r#type: Some(Type::Rpc(Rpc { r#type: kind.into() })),
        };
        let offered =
            |kind: &rpc::Type| self.config.grows_online || *kind != rpc::Type::ExpandVolume;
        let capabilities = CAPABILITIES.into_iter().filter(offered).map(capability).collect();
        Ok(Response::new(NodeGetCapabilitiesResponse { capabilities }))
    }

    async fn node_get_info(&self, _: Request<NodeGetInfoRequest>) -> Answer<NodeGetInfoResponse> {
        Ok(Response::new(NodeGetInfoResponse {
            node_id: self.config.node_id.clone(),
            max_volumes_per_node: self.config.volumes_max,
            accessible_topology: Some(self.topology()),
        }))
    }
}
