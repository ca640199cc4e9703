//! Who asks, where a token says so; and nobody whose identity is disabled.
use axum::body::{Body, Bytes, HttpBody};
use axum::extract::{Request, State};
use axum::http::{HeaderMap, header};
use axum::middleware::Next;
use axum::response::Response;
use hyper::body::{Frame, SizeHint};
use orrery_access::Access;
use orrery_fleet::middleware::Peer;
use std::pin::Pin;
use std::task::{Context, Poll};

const BEARER: &str = "Bearer ";
/// Longest token that is looked at; those of large issuers have half as much.
const TOKEN_BYTES_MAX: usize = 16 << 10;

/// In front of every service. The proof of a token goes into the peer; a stream that was opened with
/// a token ends with it.
pub async fn authenticate(
    State(access): State<Access>,
    mut request: Request,
    next: Next,
) -> Response {
    access.ready().await;
    let peer = request.extensions().get::<Peer>().cloned().unwrap_or_default();
    if peer.identity.as_ref().is_some_and(|identity| access.refuses(identity)) {
        tracing::warn!(address = ?peer.address, "refused: the identity is revoked");
        return refused(request.headers());
    }
    let Some(token) = bearer(request.headers()) else { return next.run(request).await };
    let subject = match access.login(&token).await {
        Ok(subject) => subject,
        Err(reason) => {
            tracing::warn!(address = ?peer.address, %reason, "refused a token");
            return refused(request.headers());
        }
    };
    request.extensions_mut().insert(Peer { login: Some(subject), ..peer });
    let response = next.run(request).await;
    let over = Box::pin(async move { access.until_logged_out(&token).await });
    response.map(|body| Body::new(Ending { body, over, ended: false }))
}

/// A body that ends, as it is, when something else does.
struct Ending {
    body: Body,
    over: Pin<Box<dyn Future<Output = ()> + Send>>,
    ended: bool,
}

impl HttpBody for Ending {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        if self.ended || self.over.as_mut().poll(context).is_ready() {
            self.ended = true;
            return Poll::Ready(None);
        }
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

fn bearer(headers: &HeaderMap) -> Option<String> {
    let value = headers.get(header::AUTHORIZATION)?.to_str().ok()?;
    let (scheme, token) = value.split_at_checked(BEARER.len())?;
    let good = scheme.eq_ignore_ascii_case(BEARER) && token.len() <= TOKEN_BYTES_MAX;
    good.then(|| token.trim().to_owned())
}

/// The same for every reason: whoever has no proof learns nothing.
fn refused(headers: &HeaderMap) -> Response {
    let kind = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok());
    if kind.is_some_and(|kind| kind.starts_with("application/grpc")) {
        return tonic::Status::unauthenticated("the proof of who you are is not good here")
            .into_http();
    }
    crate::rest::unauthorized()
}
