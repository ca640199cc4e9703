//! Who asks, where a token says so; and nobody whose identity is disabled, or whose proof has ended.
use super::ending::{Ending, Lasts, Proof};
use crate::browsers::is_grpc;
use crate::gate::Gate;
use crate::websocket;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::middleware::Next;
use axum::response::Response;
use orrery_access::Access;
use orrery_fleet::middleware::Peer;

const BEARER: &str = "Bearer ";
/// Longest token that is looked at; those of large issuers have half as much.
pub const TOKEN_BYTES_MAX: usize = 16 << 10;

/// In front of every service. The proof of a token goes into the peer; what was opened with a proof
/// ends with it.
pub async fn authenticate(
    State((access, gate)): State<(Access, Gate)>,
    mut request: Request,
    next: Next,
) -> Response {
    let proof = match proven(&access, &gate, &mut request).await {
        Ok(proof) => proof,
        Err(refusal) => return *refusal,
    };
    if let Some(proof) = proof.as_ref().filter(|_| websocket::is_asked(&request)) {
        // What comes of it outlives its answer.
        request.extensions_mut().insert(Lasts::new(&access, proof));
    }
    let response = next.run(request).await;
    match proof {
        Some(proof) => Ending::around(response, access, proof),
        None => response,
    }
}

/// By what the one who asks is known, if by anything; or the answer to one whose proof is not good.
pub async fn proven<B>(
    access: &Access,
    gate: &Gate,
    request: &mut axum::http::Request<B>,
) -> Result<Option<Proof>, Box<Response>> {
    access.ready().await;
    if is_grpc(request.headers()) && crate::rest::impersonates(request.headers()) {
        return Err(not_as_another(gate, request));
    }
    let bearer = bearer(request);
    let peer = request.extensions().get::<Peer>();
    let identity = peer.and_then(|peer| peer.identity.as_ref());
    if let Some(over) = identity.and_then(|identity| access.over(identity)) {
        return Err(refused(gate, request, over.as_str()));
    }
    match bearer {
        Bearer::None => Ok(identity.map(|identity| Proof::Certificate(Box::new(identity.clone())))),
        Bearer::TooLong => Err(refused(gate, request, "the token is too long")),
        Bearer::Unreadable => Err(refused(gate, request, "the token among the protocols is none")),
        Bearer::Token(token) => {
            let subject = match access.login(&token).await {
                Ok(login) => login.subject,
                // The text of a refusal never holds the token.
                Err(reason) => return Err(refused(gate, request, &reason.to_string())),
            };
            let peer = request.extensions().get::<Peer>().cloned().unwrap_or_default();
            request.extensions_mut().insert(Peer { login: Some(subject.clone()), ..peer });
            Ok(Some(Proof::Token(token, subject)))
        }
    }
}

enum Bearer {
    None,
    TooLong,
    Unreadable,
    Token(String),
}

/// The token of a header, else the one that a page names among the protocols of a WebSocket.
fn bearer<B>(request: &mut axum::http::Request<B>) -> Bearer {
    let among_protocols = websocket::take_token(request);
    let token = match (in_header(request.headers()), among_protocols) {
        (Some(token), Ok(_)) => token.trim().to_owned(),
        (None, Ok(Some(token))) => token,
        (None, Ok(None)) => return Bearer::None,
        (_, Err(websocket::BadToken)) => return Bearer::Unreadable,
    };
    match token.len() {
        0..=TOKEN_BYTES_MAX => Bearer::Token(token),
        _ => Bearer::TooLong,
    }
}

fn in_header(headers: &HeaderMap) -> Option<&str> {
    let value = headers.get(header::AUTHORIZATION)?.to_str().ok()?;
    let (scheme, token) = value.split_at_checked(BEARER.len())?;
    scheme.eq_ignore_ascii_case(BEARER).then_some(token)
}

/// The same for every reason: whoever has no proof learns nothing.
fn refused<B>(gate: &Gate, request: &axum::http::Request<B>, reason: &str) -> Box<Response> {
    gate.refused(request, StatusCode::UNAUTHORIZED, reason);
    Box::new(match is_grpc(request.headers()) {
        true => tonic::Status::unauthenticated("the proof of who you are is not good here")
            .into_http::<Body>(),
        false => crate::rest::unauthorized(),
    })
}

/// Whoever believes that they ask as another must not be answered as themselves.
fn not_as_another<B>(gate: &Gate, request: &axum::http::Request<B>) -> Box<Response> {
    let reason = "asking as somebody else (Impersonate-User and the like) is for REST only: calls of gRPC are their caller's own";
    gate.refused(request, StatusCode::NOT_IMPLEMENTED, reason);
    Box::new(tonic::Status::unimplemented(reason).into_http::<Body>())
}
