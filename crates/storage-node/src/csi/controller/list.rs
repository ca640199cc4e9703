//! Lists, single volumes, and how much room there is.
use super::{capacity::MIN_BYTES, condition, published_nodes};
use crate::{
    csi::{Driver, capability, ids, labels, page, parameters, required},
    error::Result,
    volume::Volume,
};
use orrery_proto::csi::v1::{
    ControllerGetVolumeResponse, GetCapacityRequest, GetCapacityResponse, ListVolumesRequest,
    ListVolumesResponse, controller_get_volume_response, list_volumes_response,
};

impl Driver {
    pub(super) async fn list_volumes(
        &self,
        request: &ListVolumesRequest,
    ) -> Result<ListVolumesResponse> {
        let after = page::token(&request.starting_token, |id| ids::volume(id).is_some())?;
        let volumes = self.pool.list().await?.into_iter().filter(labels::is_ours).collect();
        let (shown, next_token) = page::page(
            volumes,
            |volume: &Volume| volume.name.as_str(),
            request.max_entries,
            after,
        )?;
        let entry = |volume: &Volume| list_volumes_response::Entry {
            volume: Some(self.show(volume)),
            status: Some(list_volumes_response::VolumeStatus {
                published_node_ids: published_nodes(volume),
                volume_condition: Some(condition(volume)),
            }),
        };
        Ok(ListVolumesResponse { entries: shown.iter().map(entry).collect(), next_token })
    }

    pub(super) async fn get_volume(&self, id: &str) -> Result<ControllerGetVolumeResponse> {
        required("volume_id", id)?;
        let volume = self.volume(id).await?;
        let status = controller_get_volume_response::VolumeStatus {
            published_node_ids: published_nodes(&volume),
            volume_condition: Some(condition(&volume)),
        };
        Ok(ControllerGetVolumeResponse { volume: Some(self.show(&volume)), status: Some(status) })
    }

    /// What is asked for in a way that is not supported has no room at all.
    pub(super) async fn get_capacity(
        &self,
        request: &GetCapacityRequest,
    ) -> Result<GetCapacityResponse> {
        let elsewhere =
            request.accessible_topology.as_ref().is_some_and(|asked| *asked != self.topology());
        let unsupported = !request.volume_capabilities.is_empty()
            && capability::read_all(&request.volume_capabilities).is_err();
        let media = parameters::media(&request.parameters)?;
        let available_capacity = if elsewhere || unsupported {
            0
        } else {
            i64::try_from(self.pool.capacity(media).await?.available_bytes).unwrap_or(i64::MAX)
        };
        Ok(GetCapacityResponse {
            available_capacity,
            maximum_volume_size: Some(available_capacity),
            minimum_volume_size: Some(MIN_BYTES),
        })
    }
}
