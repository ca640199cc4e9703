//! `orrery.hub.v1.Hub` for programs: a thin adapter.
use crate::api::{HubApi, to_wire};
use futures::stream::{BoxStream, StreamExt};
use orrery_fleet::middleware::Peer;
use orrery_hub::Error;
use orrery_pki::KnownBy;
use orrery_proto::hub::v1 as wire;
use orrery_proto::hub::v1::hub_server::{Hub, HubServer};
use tonic::{Request, Response, Status};
use tonic_types::{ErrorDetails, FieldViolation, StatusExt as _};

/// Largest request: an object of the largest size, as JSON, with room to spare.
const MESSAGE_BYTES_MAX: usize = 4 << 20;

pub struct HubService {
    api: HubApi,
}

impl HubService {
    pub fn server(api: HubApi) -> HubServer<Self> {
        HubServer::new(Self { api }).max_decoding_message_size(MESSAGE_BYTES_MAX)
    }

    /// The operations for the one who asks, and what is asked.
    fn opened<T>(&self, request: Request<T>) -> Result<(HubApi, T), Status> {
        let peer = request.extensions().get::<Peer>().cloned().unwrap_or_default();
        if peer.subject().known_by == KnownBy::Nothing {
            return Err(Status::unauthenticated("show a certificate or a token"));
        }
        Ok((self.api.of(&peer), request.into_inner()))
    }
}

#[tonic::async_trait]
impl Hub for HubService {
    type WatchStream = BoxStream<'static, Result<wire::WatchResponse, Status>>;

    async fn discover(
        &self,
        request: Request<wire::DiscoverRequest>,
    ) -> Result<Response<wire::DiscoverResponse>, Status> {
        let (api, _) = self.opened(request)?;
        Ok(Response::new(api.discover()))
    }

    async fn get(
        &self,
        request: Request<wire::GetRequest>,
    ) -> Result<Response<wire::GetResponse>, Status> {
        let (api, request) = self.opened(request)?;
        answer(api.get(request).await)
    }

    async fn list(
        &self,
        request: Request<wire::ListRequest>,
    ) -> Result<Response<wire::ListResponse>, Status> {
        let (api, request) = self.opened(request)?;
        answer(api.list(request).await)
    }

    async fn apply(
        &self,
        request: Request<wire::ApplyRequest>,
    ) -> Result<Response<wire::ApplyResponse>, Status> {
        let (api, request) = self.opened(request)?;
        answer(api.apply(request).await)
    }

    async fn delete(
        &self,
        request: Request<wire::DeleteRequest>,
    ) -> Result<Response<wire::DeleteResponse>, Status> {
        let (api, request) = self.opened(request)?;
        answer(api.delete(request).await)
    }

    async fn watch(
        &self,
        request: Request<wire::WatchRequest>,
    ) -> Result<Response<Self::WatchStream>, Status> {
        let (api, request) = self.opened(request)?;
        let events = api.watch(request).await.map_err(|e| to_status(&e))?;
        Ok(Response::new(events.map(|event| event.map_err(|e| to_status(&e))).boxed()))
    }
}

fn answer<T>(outcome: Result<T, Error>) -> Result<Response<T>, Status> {
    outcome.map(Response::new).map_err(|error| to_status(&error))
}

/// The error with its reason and, for an invalid resource, each field that is wrong.
fn to_status(error: &Error) -> Status {
    let wire = to_wire(error);
    let mut details = ErrorDetails::new();
    details.set_error_info(wire.reason, "orrery.dev", std::collections::HashMap::new());
    if !wire.violations.is_empty() {
        let violations = wire.violations.into_iter();
        let violations = violations.map(|v| FieldViolation::new(v.field, v.message));
        details.set_bad_request(violations.collect::<Vec<_>>());
    }
    Status::with_error_details(tonic::Code::from_i32(wire.code), wire.message, details)
}
