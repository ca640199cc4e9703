//! Connections of agents and commanders, and callers of gRPC that are turned away at the door: both
//! are written down, though no request of theirs reaches the gate.
use super::{Asked, Caller, Gate, Transport};
use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::Response;
use orrery_fleet::middleware::Peer;
use tokio::time::Instant;

/// What a peer opens one connection with and keeps it.
const SESSIONS: &str = "/orrery.fleet.v1.";

/// The headers that tell of a peer; see [`Peer::described`].
const DESCRIBING: [&str; 2] = ["user-agent", "traceparent"];

/// A layer around the services of gRPC.
pub async fn connects(State(gate): State<Gate>, request: Request, next: Next) -> Response {
    // Cheap to clone; who it is, is told only of the few that are written down here.
    let (uri, headers) = (request.uri().clone(), request.headers());
    let told = DESCRIBING.map(|name| (name, headers.get(name).cloned()));
    let peer = request.extensions().get::<Peer>().cloned().unwrap_or_default();
    let began = Instant::now();
    let response = next.run(request).await;
    let code = answered(&response);
    if uri.path().starts_with(SESSIONS) || code == tonic::Code::Unauthenticated {
        let value = |name: &str| told.iter().find(|(told, _)| *told == name)?.1.as_ref();
        let header = |name: &str| value(name).and_then(|value| value.to_str().ok());
        let caller = Caller::new(Transport::Grpc, peer.described(header));
        let asked = Asked::path("connect", uri.path());
        gate.inner.requests.began(caller.transport);
        let written = gate.inner.audit.is_on().then_some(&caller);
        gate.ended(caller.transport, written, &asked, as_http(code), began.elapsed());
    }
    response
}

/// A refusal stands in the head of the answer; what goes on has none there.
fn answered(response: &Response) -> tonic::Code {
    let code = response.headers().get("grpc-status");
    code.map_or(tonic::Code::Ok, |code| tonic::Code::from_bytes(code.as_bytes()))
}

fn as_http(code: tonic::Code) -> u16 {
    use tonic::Code;
    match code {
        Code::Ok => 200,
        Code::InvalidArgument | Code::FailedPrecondition | Code::OutOfRange => 400,
        Code::Unauthenticated => 401,
        Code::PermissionDenied => 403,
        Code::NotFound | Code::Unimplemented => 404,
        Code::AlreadyExists | Code::Aborted => 409,
        Code::ResourceExhausted => 429,
        Code::Cancelled => 499,
        Code::Unavailable | Code::DeadlineExceeded => 503,
        Code::Internal | Code::Unknown | Code::DataLoss => 500,
    }
}
