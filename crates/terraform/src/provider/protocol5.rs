//! Terraform's protocol 5: the same answers under other names, and the types of the older style alone.
use super::exchange::{names, schemas};
use super::service::{Answer, ProviderService};
use crate::schema::Style;
use crate::wire::tfplugin5::PrepareResponse;
use crate::wire::tfplugin5::provider_server::Provider;
use crate::wire::tfplugin6 as wire;
use crate::wire::tfplugin6::provider_server::Provider as Newer;
use tonic::{Request, Response};

/// It has no nested attributes.
const STYLES: [Style; 1] = [Style::Blocks];

#[tonic::async_trait]
impl Provider for ProviderService {
    async fn get_metadata(
        &self,
        _: Request<wire::MetadataRequest>,
    ) -> Answer<wire::MetadataResponse> {
        Ok(Response::new(names(self.catalog()?, &STYLES)))
    }

    async fn get_schema(&self, _: Request<wire::SchemaRequest>) -> Answer<wire::SchemaResponse> {
        Ok(Response::new(schemas(self.catalog()?, &STYLES)))
    }

    async fn prepare_provider_config(
        &self,
        request: Request<wire::CheckProviderRequest>,
    ) -> Answer<PrepareResponse> {
        let prepared_config = request.get_ref().config.clone();
        let checked = Newer::validate_provider_config(self, request).await?.into_inner();
        Ok(Response::new(PrepareResponse { prepared_config, diagnostics: checked.diagnostics }))
    }

    async fn upgrade_resource_state(
        &self,
        request: Request<wire::UpgradeRequest>,
    ) -> Answer<wire::UpgradeResponse> {
        Newer::upgrade_resource_state(self, request).await
    }

    async fn validate_resource_type_config(
        &self,
        request: Request<wire::CheckRequest>,
    ) -> Answer<wire::CheckResponse> {
        Newer::validate_resource_config(self, request).await
    }

    async fn validate_data_source_config(
        &self,
        request: Request<wire::CheckRequest>,
    ) -> Answer<wire::CheckResponse> {
        Newer::validate_data_resource_config(self, request).await
    }

    async fn configure(
        &self,
        request: Request<wire::ConfigureRequest>,
    ) -> Answer<wire::ConfigureResponse> {
        Newer::configure_provider(self, request).await
    }

    async fn read_resource(
        &self,
        request: Request<wire::ReadRequest>,
    ) -> Answer<wire::ReadResponse> {
        Newer::read_resource(self, request).await
    }

    async fn plan_resource_change(
        &self,
        request: Request<wire::PlanRequest>,
    ) -> Answer<wire::PlanResponse> {
        Newer::plan_resource_change(self, request).await
    }

    async fn apply_resource_change(
        &self,
        request: Request<wire::ApplyRequest>,
    ) -> Answer<wire::ApplyResponse> {
        Newer::apply_resource_change(self, request).await
    }

    async fn import_resource_state(
        &self,
        request: Request<wire::ImportRequest>,
    ) -> Answer<wire::ImportResponse> {
        Newer::import_resource_state(self, request).await
    }

    async fn move_resource_state(
        &self,
        request: Request<wire::MoveRequest>,
    ) -> Answer<wire::MoveResponse> {
        Newer::move_resource_state(self, request).await
    }

    async fn read_data_source(
        &self,
        request: Request<wire::ReadDataRequest>,
    ) -> Answer<wire::ReadDataResponse> {
        Newer::read_data_source(self, request).await
    }

    async fn get_functions(
        &self,
        request: Request<wire::FunctionsRequest>,
    ) -> Answer<wire::FunctionsResponse> {
        Newer::get_functions(self, request).await
    }

    async fn stop(&self, request: Request<wire::StopRequest>) -> Answer<wire::StopResponse> {
        Newer::stop_provider(self, request).await
    }
}
