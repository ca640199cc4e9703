//! `csi.v1.Identity`.
use super::Driver;
use orrery_proto::csi::v1::{
    GetPluginCapabilitiesRequest, GetPluginCapabilitiesResponse, GetPluginInfoRequest,
    GetPluginInfoResponse, PluginCapability, ProbeRequest, ProbeResponse,
    identity_server::Identity,
    plugin_capability::{Service, Type, VolumeExpansion, service, volume_expansion},
};
use std::collections::HashMap;
use tonic::{Request, Response, Status};

#[tonic::async_trait]
impl Identity for Driver {
    async fn get_plugin_info(
        &self,
        _: Request<GetPluginInfoRequest>,
    ) -> Result<Response<GetPluginInfoResponse>, Status> {
        Ok(Response::new(GetPluginInfoResponse {
            name: self.config.name.clone(),
            vendor_version: env!("CARGO_PKG_VERSION").to_owned(),
            manifest: HashMap::new(),
        }))
    }

    async fn get_plugin_capabilities(
        &self,
        _: Request<GetPluginCapabilitiesRequest>,
    ) -> Result<Response<GetPluginCapabilitiesResponse>, Status> {
        let service = |kind: service::Type| Type::Service(Service { r#type: kind.into() });
        let when = match self.config.grows_online {
            true => volume_expansion::Type::Online,
            false => volume_expansion::Type::Offline,
        };
        let expansion = VolumeExpansion { r#type: when.into() };
        let capabilities = [
            service(service::Type::ControllerService),
            service(service::Type::VolumeAccessibilityConstraints),
            Type::VolumeExpansion(expansion),
        ];
        let capability = |kind| PluginCapability { r#type: Some(kind) };
        Ok(Response::new(GetPluginCapabilitiesResponse {
            capabilities: capabilities.into_iter().map(capability).collect(),
        }))
    }

    /// Healthy means that the volumes can be asked for.
    async fn probe(&self, _: Request<ProbeRequest>) -> Result<Response<ProbeResponse>, Status> {
        let answered = self.pool.list().await;
        answered.map_err(|error| Status::failed_precondition(error.to_string()))?;
        Ok(Response::new(ProbeResponse { ready: Some(true) }))
    }
}
