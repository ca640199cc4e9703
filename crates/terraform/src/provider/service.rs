//! Terraform's protocol 6: decode, decide or ask, encode.
use super::changes::{Change, check_timeouts};
use super::diagnostics::{error, of_problems};
use super::exchange::{give, names, schemas, split, stored, take, take_config};
use super::looking;
use super::server::Server;
use super::settings::{self, Settings};
use crate::resource::{Private, check, plan};
use crate::schema::{Catalog, ResourceType, Style};
use crate::value::Value;
use crate::wire::tfplugin6 as wire;
use crate::wire::tfplugin6::provider_server::Provider;
use std::ffi::OsString;
use std::sync::{Arc, OnceLock};
use tokio::sync::OnceCell;
use tokio_util::sync::CancellationToken;
use tonic::{Request, Response, Status};

/// Protocol 6 has both.
const STYLES: [Style; 2] = [Style::Attributes, Style::Blocks];

type Variables = Box<dyn Fn(&str) -> Option<OsString> + Send + Sync>;
pub(super) type Answer<T> = Result<Response<T>, Status>;

/// The provider. It is configured once, after some questions that need no configuration.
pub struct ProviderService {
    catalog: OnceLock<Result<Catalog, String>>,
    variables: Variables,
    /// `None` when the configuration is not known yet.
    server: OnceCell<Option<Arc<Server>>>,
    stop: CancellationToken,
}

impl ProviderService {
    pub fn new(variables: impl Fn(&str) -> Option<OsString> + Send + Sync + 'static) -> Self {
        Self {
            catalog: OnceLock::new(),
            variables: Box::new(variables),
            server: OnceCell::new(),
            stop: CancellationToken::new(),
        }
    }

    /// Made when it is first needed: some starts of the provider need none of it.
    pub(super) fn catalog(&self) -> Result<&Catalog, Status> {
        let made = self.catalog.get_or_init(|| Catalog::build().map_err(|error| error.to_string()));
        made.as_ref().map_err(|problem| Status::internal(problem.clone()))
    }

    fn resource(&self, name: &str) -> Result<&ResourceType, Status> {
        let found = self.catalog()?.resources.get(name);
        found.ok_or_else(|| Status::not_found(format!("there is no resource type {name:?}")))
    }

    fn data_source(&self, name: &str) -> Result<&ResourceType, Status> {
        let found = self.catalog()?.data_sources.get(name);
        found.ok_or_else(|| Status::not_found(format!("there is no data source {name:?}")))
    }

    fn configured(&self) -> Result<&Arc<Server>, Vec<wire::Diagnostic>> {
        let detail = "Parts of the provider's configuration are known only after an apply; apply what they \
                      come from first, with -target.";
        match self.server.get() {
            Some(Some(server)) => Ok(server),
            Some(None) => Err(vec![error("The provider's configuration is not known yet", detail)]),
            None => Err(vec![error(
                "The provider was not configured",
                "Terraform did not configure it.",
            )]),
        }
    }

    fn project(&self) -> Option<&str> {
        self.server.get()?.as_ref().map(|server| server.settings.project.as_str())
    }

    fn change<'a>(
        &self,
        of: &'a ResourceType,
        request: &wire::ApplyRequest,
    ) -> Result<Change<'a>, Status> {
        Ok(Change {
            of,
            prior: take(of, request.prior_state.as_ref())?,
            planned: take(of, request.planned_state.as_ref())?,
            config: take(of, request.config.as_ref())?,
            private: Private::read(&request.planned_private),
        })
    }
}

#[tonic::async_trait]
impl Provider for ProviderService {
    async fn get_metadata(
        &self,
        _: Request<wire::MetadataRequest>,
    ) -> Answer<wire::MetadataResponse> {
        Ok(Response::new(names(self.catalog()?, &STYLES)))
    }

    async fn get_provider_schema(
        &self,
        _: Request<wire::SchemaRequest>,
    ) -> Answer<wire::SchemaResponse> {
        Ok(Response::new(schemas(self.catalog()?, &STYLES)))
    }

    async fn validate_provider_config(
        &self,
        request: Request<wire::CheckProviderRequest>,
    ) -> Answer<wire::CheckProviderResponse> {
        let config = take_config(request.get_ref().config.as_ref())?;
        let diagnostics = of_problems(Style::Attributes, settings::check(&config, &self.variables));
        Ok(Response::new(wire::CheckProviderResponse { diagnostics }))
    }

    async fn validate_resource_config(
        &self,
        request: Request<wire::CheckRequest>,
    ) -> Answer<wire::CheckResponse> {
        let request = request.into_inner();
        let of = self.resource(&request.type_name)?;
        let config = take(of, request.config.as_ref())?;
        let mut diagnostics = of_problems(of.style, check(of, &config));
        diagnostics.extend(check_timeouts(of, &config));
        Ok(Response::new(wire::CheckResponse { diagnostics }))
    }

    async fn validate_data_resource_config(
        &self,
        request: Request<wire::CheckRequest>,
    ) -> Answer<wire::CheckResponse> {
        let request = request.into_inner();
        let of = self.data_source(&request.type_name)?;
        take(of, request.config.as_ref())?;
        Ok(Response::new(wire::CheckResponse { diagnostics: Vec::new() }))
    }

    async fn upgrade_resource_state(
        &self,
        request: Request<wire::UpgradeRequest>,
    ) -> Answer<wire::UpgradeResponse> {
        let request = request.into_inner();
        let of = self.resource(&request.type_name)?;
        let (state, diagnostics) =
            split(stored(of, request.raw_state.as_ref()).map(|state| give(of, state)));
        Ok(Response::new(wire::UpgradeResponse { upgraded_state: state, diagnostics }))
    }

    async fn configure_provider(
        &self,
        request: Request<wire::ConfigureRequest>,
    ) -> Answer<wire::ConfigureResponse> {
        let config = take_config(request.get_ref().config.as_ref())?;
        let settings = match config.has_unknowns() {
            true => Ok(None),
            false => Settings::find(&config, &self.variables).map(Some),
        };
        let mut diagnostics = Vec::new();
        match settings {
            Ok(settings) => {
                let server = settings.map(|settings| Arc::new(Server::new(settings)));
                if self.server.set(server).is_err() {
                    diagnostics.push(error(
                        "The provider is configured already",
                        "It is configured once.",
                    ));
                }
            }
            Err(problem) => diagnostics = of_problems(Style::Attributes, vec![problem]),
        }
        Ok(Response::new(wire::ConfigureResponse { diagnostics }))
    }

    async fn read_resource(
        &self,
        request: Request<wire::ReadRequest>,
    ) -> Answer<wire::ReadResponse> {
        let request = request.into_inner();
        let of = self.resource(&request.type_name)?;
        let known = take(of, request.current_state.as_ref())?;
        let private = Private::read(&request.private);
        let found = match self.configured() {
            Ok(server) => looking::read(of, server, &known, &private).await,
            Err(diagnostics) => Err(diagnostics),
        };
        let private = Private { imported: false, ..private }.write();
        Ok(Response::new(match found {
            Ok(state) => {
                wire::ReadResponse { new_state: give(of, state), private, diagnostics: Vec::new() }
            }
            Err(diagnostics) => wire::ReadResponse {
                new_state: request.current_state,
                private: request.private,
                diagnostics,
            },
        }))
    }

    async fn plan_resource_change(
        &self,
        request: Request<wire::PlanRequest>,
    ) -> Answer<wire::PlanResponse> {
        let request = request.into_inner();
        let of = self.resource(&request.type_name)?;
        let config = take(of, request.config.as_ref())?;
        let prior = take(of, request.prior_state.as_ref())?;
        let private = Private::read(&request.prior_private);
        if config.is_null() {
            let planned_state = give(of, Value::Null);
            return Ok(Response::new(wire::PlanResponse { planned_state, ..<_>::default() }));
        }
        let planned = plan(of.object(), &config, &prior, &private.owned, self.project());
        Ok(Response::new(wire::PlanResponse {
            planned_state: give(of, planned.state),
            requires_replace: planned.replaces.iter().map(|path| path.to_wire()).collect(),
            planned_private: private.write(),
            diagnostics: Vec::new(),
        }))
    }

    async fn apply_resource_change(
        &self,
        request: Request<wire::ApplyRequest>,
    ) -> Answer<wire::ApplyResponse> {
        let request = request.into_inner();
        let of = self.resource(&request.type_name)?;
        let change = self.change(of, &request)?;
        let server = match self.configured() {
            Ok(server) => server,
            Err(diagnostics) => {
                let (new_state, private) = (request.prior_state, request.planned_private);
                return Ok(Response::new(wire::ApplyResponse { new_state, private, diagnostics }));
            }
        };
        let changed = Box::pin(change.run(server, &self.stop)).await;
        Ok(Response::new(wire::ApplyResponse {
            new_state: give(of, changed.state),
            private: changed.private.write(),
            diagnostics: changed.diagnostics,
        }))
    }

    async fn import_resource_state(
        &self,
        request: Request<wire::ImportRequest>,
    ) -> Answer<wire::ImportResponse> {
        let request = request.into_inner();
        let of = self.resource(&request.type_name)?;
        let server = self.configured();
        let imported =
            server.and_then(|server| looking::imported(of, &server.settings.project, &request.id));
        let private = Private { imported: true, ..Private::default() }.write();
        let (imported_resources, diagnostics) = split(imported.map(|state| {
            let state = give(of, state);
            vec![wire::import_response::Imported { type_name: request.type_name, state, private }]
        }));
        Ok(Response::new(wire::ImportResponse { imported_resources, diagnostics }))
    }

    async fn move_resource_state(
        &self,
        request: Request<wire::MoveRequest>,
    ) -> Answer<wire::MoveResponse> {
        let request = request.into_inner();
        let of = self.resource(&request.target_type_name)?;
        // In whichever style it was written.
        let source = self.catalog()?.resources.get(&request.source_type_name);
        let moved = match source.filter(|source| source.kind == of.kind) {
            Some(source) => {
                stored(source, request.source_state.as_ref()).map(|state| give(of, state))
            }
            None => {
                let detail = format!(
                    "A {} cannot become a {}: they are different kinds.",
                    request.source_type_name, request.target_type_name
                );
                Err(vec![error("Cannot move between kinds", detail)])
            }
        };
        let (target_state, diagnostics) = split(moved);
        let target_private = Private::read(&request.source_private).write();
        Ok(Response::new(wire::MoveResponse { target_state, diagnostics, target_private }))
    }

    async fn read_data_source(
        &self,
        request: Request<wire::ReadDataRequest>,
    ) -> Answer<wire::ReadDataResponse> {
        let request = request.into_inner();
        let of = self.data_source(&request.type_name)?;
        let config = take(of, request.config.as_ref())?;
        let found = match self.configured() {
            Ok(server) => looking::data(of, server, &config).await,
            Err(diagnostics) => Err(diagnostics),
        };
        let (state, diagnostics) = split(found.map(|state| give(of, state)));
        Ok(Response::new(wire::ReadDataResponse { state, diagnostics }))
    }

    async fn get_functions(
        &self,
        _: Request<wire::FunctionsRequest>,
    ) -> Answer<wire::FunctionsResponse> {
        Ok(Response::new(wire::FunctionsResponse::default()))
    }

    async fn stop_provider(&self, _: Request<wire::StopRequest>) -> Answer<wire::StopResponse> {
        self.stop.cancel();
        Ok(Response::new(wire::StopResponse::default()))
    }
}
