//! Growing a volume, and changing what may be changed.
use crate::{
    csi::{Driver, capability, capability::Access, capacity, labels, parameters, required},
    error::{Error, Result},
    host::block,
};
use orrery_proto::csi::v1::{
    ControllerExpandVolumeRequest, ControllerExpandVolumeResponse, ControllerModifyVolumeRequest,
};

impl Driver {
    /// Grows the image and its device. A file system on it is for the node to grow.
    pub(super) async fn expand(
        &self,
        request: &ControllerExpandVolumeRequest,
    ) -> Result<ControllerExpandVolumeResponse> {
        required("volume_id", &request.volume_id)?;
        let range = request.capacity_range.as_ref();
        let range = range.ok_or_else(|| Error::Invalid("capacity_range is missing".to_owned()))?;
        let wanted = request.volume_capability.as_ref();
        let wanted = wanted.map(|wanted| capability::read(Some(wanted))).transpose()?;
        let _guard = self.lock(&request.volume_id).await?;
        let volume = self.volume(&request.volume_id).await?;
        let size = capacity::of_grown(range, volume.size)?;
        let used = labels::published(&volume.labels).is_some() || volume.mapping.is_some();
        if used && size != volume.size && !self.config.grows_online {
            return Err(Error::InUse(format!(
                "the volume {} is in use, and without the capability CAP_SYS_RESOURCE file systems \
                 cannot grow then: unpublish it first",
                request.volume_id
            )));
        }
        let volume = self.pool.resize(&volume.name, size).await?;
        let block = wanted.is_some_and(|wanted| wanted.access == Access::Block);
        Ok(ControllerExpandVolumeResponse {
            capacity_bytes: volume.size.to_i64(),
            // Offline, the file system grows when the volume is staged.
            node_expansion_required: !block && self.config.grows_online,
        })
    }

    /// Applies at once where the volume is in use, and otherwise when it is staged.
    pub(super) async fn modify(&self, request: &ControllerModifyVolumeRequest) -> Result<()> {
        required("volume_id", &request.volume_id)?;
        let _guard = self.lock(&request.volume_id).await?;
        let volume = self.volume(&request.volume_id).await?;
        let changed = parameters::mutable(&request.mutable_parameters)?;
        let volume = self
            .relabel(&volume, |labels| labels::merge_mutable(labels, &request.mutable_parameters))
            .await?;
        if let (Some(mapping), Some(kilobytes)) = (&volume.mapping, changed.read_ahead_kb)
            && let Some(device) = block::find(mapping, &self.config.nodes)?
        {
            device.set_read_ahead(kilobytes)?;
        }
        Ok(())
    }
}
