//! `orrery.hub.v1.Hub` for programs: a thin adapter.
use crate::api::{Front, to_wire};
use crate::gate::{Caller, Transport};
use futures::stream::{BoxStream, StreamExt};
use orrery_fleet::middleware::Peer;
use orrery_hub::Error;
use orrery_proto::hub::v1 as wire;
use orrery_proto::hub::v1::hub_server::{Hub, HubServer};
use tonic::codec::CompressionEncoding;
use tonic::{Code, Request, Response, Status, Streaming};
use tonic_types::{ErrorDetails, FieldViolation, StatusExt as _};

/// Largest request: an object of the largest size, as JSON, with room to spare.
const MESSAGE_BYTES_MAX: usize = 4 << 20;

/// What is said of a request that is larger.
const TOO_LARGE: &str = "message length too large";

pub struct HubService {
    front: Front,
}

impl HubService {
    pub fn server(front: Front) -> HubServer<Self> {
        HubServer::new(Self { front })
            .max_decoding_message_size(MESSAGE_BYTES_MAX)
            .accept_compressed(CompressionEncoding::Gzip)
    }
}

#[tonic::async_trait]
impl Hub for HubService {
    type ApplyEachStream = BoxStream<'static, Result<wire::ApplyEachResponse, Status>>;
    type WatchStream = BoxStream<'static, Result<wire::WatchResponse, Status>>;

    async fn discover(
        &self,
        request: Request<wire::DiscoverRequest>,
    ) -> Result<Response<wire::DiscoverResponse>, Status> {
        let (caller, _) = opened(request)?;
        answer(self.front.discover(&caller).await)
    }

    async fn get(
        &self,
        request: Request<wire::GetRequest>,
    ) -> Result<Response<wire::GetResponse>, Status> {
        let (caller, request) = opened(request)?;
        answer(self.front.get(&caller, request).await)
    }

    async fn list_versions(
        &self,
        request: Request<wire::ListVersionsRequest>,
    ) -> Result<Response<wire::ListVersionsResponse>, Status> {
        let (caller, request) = opened(request)?;
        answer(self.front.list_versions(&caller, request).await)
    }

    async fn list(
        &self,
        request: Request<wire::ListRequest>,
    ) -> Result<Response<wire::ListResponse>, Status> {
        let (caller, request) = opened(request)?;
        answer(self.front.list(&caller, request).await)
    }

    async fn apply(
        &self,
        request: Request<wire::ApplyRequest>,
    ) -> Result<Response<wire::ApplyResponse>, Status> {
        let (caller, request) = opened(request)?;
        answer(self.front.apply(&caller, request).await)
    }

    async fn apply_each(
        &self,
        request: Request<Streaming<wire::ApplyEachRequest>>,
    ) -> Result<Response<Self::ApplyEachStream>, Status> {
        let (caller, requests) = opened(request)?;
        let requests = requests.map(|request| request.map_err(coded));
        Ok(Response::new(self.front.apply_each(caller, requests, to_status)))
    }

    async fn delete(
        &self,
        request: Request<wire::DeleteRequest>,
    ) -> Result<Response<wire::DeleteResponse>, Status> {
        let (caller, request) = opened(request)?;
        answer(self.front.delete(&caller, request).await)
    }

    async fn watch(
        &self,
        request: Request<wire::WatchRequest>,
    ) -> Result<Response<Self::WatchStream>, Status> {
        let (caller, request) = opened(request)?;
        let events = self.front.watch(&caller, request).await.map_err(|e| to_status(&e))?;
        Ok(Response::new(events.map(|event| event.map_err(|e| to_status(&e))).boxed()))
    }
}

/// What is too large is said with the code that the protocol has for it; where it is read, another is used.
fn coded(status: Status) -> Status {
    match (status.code(), status.message().contains(TOO_LARGE)) {
        (Code::OutOfRange, true) => Status::resource_exhausted(status.message()),
        _ => status,
    }
}

/// The same of an answer that is nothing but a status.
pub fn coded_answer<B>(mut answer: axum::http::Response<B>) -> axum::http::Response<B> {
    let status = Status::from_header_map(answer.headers());
    let Some(status) = status.filter(|status| status.code() == Code::OutOfRange) else {
        return answer;
    };
    if coded(status).code() == Code::ResourceExhausted {
        let code = i32::from(Code::ResourceExhausted);
        answer.headers_mut().insert(Status::GRPC_STATUS, code.into());
    }
    answer
}

/// Who asks, and for what.
fn opened<T>(request: Request<T>) -> Result<(Caller, T), Status> {
    let (metadata, mut extensions, message) = request.into_parts();
    let peer = extensions.remove::<Peer>().unwrap_or_default();
    if !peer.is_known() {
        return Err(Status::unauthenticated("show a certificate or a token"));
    }
    let header = |name: &str| metadata.get(name).and_then(|value| value.to_str().ok());
    Ok((Caller::new(Transport::Grpc, peer.described(header)), message))
}

fn answer<T>(outcome: Result<T, Error>) -> Result<Response<T>, Status> {
    outcome.map(Response::new).map_err(|error| to_status(&error))
}

/// The error with its reason and, for an invalid resource, each field that is wrong.
pub fn to_status(error: &Error) -> Status {
    let wire = to_wire(error);
    let mut details = ErrorDetails::new();
    details.set_error_info(wire.reason, "orrery.dev", std::collections::HashMap::new());
    if let Error::TooManyRequests { retry_after, .. } = error {
        details.set_retry_info(Some(*retry_after));
    }
    if !wire.violations.is_empty() {
        details.set_bad_request(fitting(wire.violations));
    }
    let message = clip(&wire.message, MESSAGE_MAX);
    Status::with_error_details(tonic::Code::from_i32(wire.code), message, details)
}

/// How long the text of an error may be. It goes out twice, percent-encoded and in the details, in a header: clients
/// take 8 KiB of headers at least, and lose code and text of an error that is longer.
const MESSAGE_MAX: usize = 1024;
/// How many bytes of fields and what is wrong with them go with it.
const VIOLATIONS_MAX: usize = 2048;

/// As many violations as fit; the last one says how many are missing.
fn fitting(violations: Vec<wire::Violation>) -> Vec<FieldViolation> {
    let (all, mut room) = (violations.len(), VIOLATIONS_MAX);
    let mut fitting = Vec::new();
    for wire::Violation { field, message } in violations {
        let (field, message) = (clip(&field, MESSAGE_MAX / 2), clip(&message, MESSAGE_MAX / 2));
        let Some(left) = room.checked_sub(field.len() + message.len()) else {
            let more = format!("and {} more that are not shown", all - fitting.len());
            fitting.push(FieldViolation::new("", more));
            break;
        };
        room = left;
        fitting.push(FieldViolation::new(field, message));
    }
    fitting
}

/// The beginning of a text that is too long.
fn clip(text: &str, max: usize) -> String {
    if text.len() <= max {
        return text.to_owned();
    }
    format!("{}...", &text[..text.floor_char_boundary(max)])
}
