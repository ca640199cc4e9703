//! Allowing a node to use a volume, and checking how it could be used.
use crate::{
    csi::{
        Driver, capability,
        capability::Access,
        labels::{self, Published},
        parameters, required,
    },
    error::{Error, Result},
};
use orrery_proto::csi::v1::{
    ControllerPublishVolumeRequest, ValidateVolumeCapabilitiesRequest,
    ValidateVolumeCapabilitiesResponse, validate_volume_capabilities_response::Confirmed,
};

impl Driver {
    pub(super) async fn publish_to_node(
        &self,
        request: ControllerPublishVolumeRequest,
    ) -> Result<()> {
        let ControllerPublishVolumeRequest {
            volume_id, node_id, volume_capability, readonly, ..
        } = request;
        required("volume_id", &volume_id)?;
        required("node_id", &node_id)?;
        let wanted = capability::read(volume_capability.as_ref())?;
        let _guard = self.lock(&volume_id).await?;
        let volume = self.volume(&volume_id).await?;
        if node_id != self.config.node_id {
            return Err(Error::not_found("node", node_id));
        }
        let wanted = Published {
            node: node_id,
            read_only: readonly,
            mode: wanted.mode.into(),
            block: wanted.access == Access::Block,
        };
        match labels::published(&volume.labels) {
            Some(published) if published == wanted => return Ok(()),
            Some(_) => {
                return Err(Error::Conflict(format!(
                    "the volume {volume_id} is published to this node in another way"
                )));
            }
            None => self.check_room().await?,
        }
        self.relabel(&volume, |labels| labels::set_published(labels, Some(&wanted))).await?;
        Ok(())
    }

    /// Refuses if the node has all the volumes it may have.
    async fn check_room(&self) -> Result<()> {
        let Ok(limit @ 1..) = usize::try_from(self.config.volumes_max) else { return Ok(()) };
        let volumes = self.pool.list().await?;
        let there = volumes.iter().filter(|volume| labels::published(&volume.labels).is_some());
        if there.count() < limit {
            return Ok(());
        }
        Err(Error::Exhausted(format!("the node has its {limit} volumes already")))
    }

    /// A volume or node that is not there is as unpublished as can be.
    pub(super) async fn unpublish_from_node(&self, volume_id: &str, node_id: &str) -> Result<()> {
        required("volume_id", volume_id)?;
        if !node_id.is_empty() && node_id != self.config.node_id {
            return Ok(());
        }
        let _guard = match self.lock(volume_id).await {
            Err(Error::NotFound { .. }) => return Ok(()),
            other => other?,
        };
        let volume = match self.volume(volume_id).await {
            Err(Error::NotFound { .. }) => return Ok(()),
            other => other?,
        };
        self.relabel(&volume, |labels| labels::set_published(labels, None)).await?;
        Ok(())
    }

    pub(super) async fn validate(
        &self,
        request: ValidateVolumeCapabilitiesRequest,
    ) -> Result<ValidateVolumeCapabilitiesResponse> {
        required("volume_id", &request.volume_id)?;
        if request.volume_capabilities.is_empty() {
            return Err(Error::Invalid("volume_capabilities are missing".to_owned()));
        }
        let volume = self.volume(&request.volume_id).await?;
        let known = labels::parameters(&volume.labels);
        let unsupported = capability::read_all(&request.volume_capabilities).err();
        let message = if let Some(error) = unsupported {
            error.to_string()
        } else if !request.volume_context.is_empty() {
            "volumes of this driver have no volume_context".to_owned()
        } else if !request.parameters.is_empty() && request.parameters != known {
            "the volume was created with other parameters".to_owned()
        } else if let Err(error) = parameters::mutable(&request.mutable_parameters) {
            error.to_string()
        } else {
            let confirmed = Confirmed {
                volume_context: request.volume_context,
                volume_capabilities: request.volume_capabilities,
                parameters: request.parameters,
                mutable_parameters: request.mutable_parameters,
            };
            return Ok(ValidateVolumeCapabilitiesResponse {
                confirmed: Some(confirmed),
                message: String::new(),
            });
        };
        Ok(ValidateVolumeCapabilitiesResponse { confirmed: None, message })
    }
}
