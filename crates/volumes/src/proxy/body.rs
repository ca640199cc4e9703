//! The bodies that this server takes, and those that it sends.
use super::{Reset, failure, pool::Lease};
use bytes::Bytes;
use h2::{Reason, RecvStream};
use http::{HeaderMap, HeaderValue};
use http_body::{Frame, SizeHint};
use std::{
    pin::Pin,
    task::{Context, Poll, ready},
};
use tonic::Code;

/// Of a request, as it comes.
pub struct Received(RecvStream);

impl Received {
    pub fn new(body: RecvStream) -> Self {
        Self(body)
    }
}

impl http_body::Body for Received {
    type Data = Bytes;
    type Error = Reset;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Reset>>> {
        poll_received(&mut self.0, context).map(|frame| frame.map(|frame| frame.map_err(Reset)))
    }

    fn is_end_stream(&self) -> bool {
        self.0.is_end_stream()
    }
}

/// One of three answers; an enum so that the proxied one costs no allocation.
#[derive(Default)]
pub enum Body {
    /// Of a reply that is trailers only.
    #[default]
    Empty,
    /// Of the registry's own service.
    Local(tonic::body::Body),
    /// Of a controller. The lease counts the stream until its last frame is passed on.
    Upstream { body: RecvStream, lease: Option<Lease> },
}

impl Body {
    pub fn upstream(body: RecvStream, lease: Lease) -> Self {
        Self::Upstream { body, lease: Some(lease) }
    }
}

impl http_body::Body for Body {
    type Data = Bytes;
    type Error = Reset;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Reset>>> {
        match self.get_mut() {
            Self::Empty => Poll::Ready(None),
            Self::Local(body) => {
                let frame = ready!(Pin::new(body).poll_frame(context));
                Poll::Ready(frame.map(|frame| frame.map_err(|status| unfinished(&status))))
            }
            Self::Upstream { lease: None, .. } => Poll::Ready(None),
            Self::Upstream { body, lease } => {
                let frame = match ready!(poll_received(body, context)) {
                    Some(Ok(frame)) if frame.is_data() => return Poll::Ready(Some(Ok(frame))),
                    Some(Ok(trailers)) => Some(Ok(trailers)),
                    Some(Err(error)) => Some(broken(error)),
                    None => None,
                };
                *lease = None;
                Poll::Ready(frame)
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Empty => true,
            Self::Local(body) => body.is_end_stream(),
            Self::Upstream { body, lease } => lease.is_none() || body.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Empty => SizeHint::with_exact(0),
            Self::Local(body) => body.size_hint(),
            Self::Upstream { .. } => SizeHint::default(),
        }
    }
}

/// Data, then trailers if there are any. What is passed on makes room for more.
fn poll_received(
    body: &mut RecvStream,
    context: &mut Context<'_>,
) -> Poll<Option<Result<Frame<Bytes>, h2::Error>>> {
    match ready!(body.poll_data(context)) {
        Some(Ok(data)) => {
            let room = body.flow_control().release_capacity(data.len());
            return Poll::Ready(Some(room.map(|()| Frame::data(data))));
        }
        // The other side has said all and wants to hear no more.
        Some(Err(error)) if error.reason() == Some(Reason::NO_ERROR) => return Poll::Ready(None),
        Some(Err(error)) => return Poll::Ready(Some(Err(error))),
        None => {}
    }
    let trailers = ready!(body.poll_trailers(context));
    Poll::Ready(trailers.map(|trailers| trailers.map(Frame::trailers)).transpose())
}

/// Answers of our own end with a status in their trailers; one that does not is a fault of ours.
fn unfinished(status: &tonic::Status) -> Reset {
    tracing::error!(%status, "an answer of the registry broke off");
    Reset(Reason::INTERNAL_ERROR.into())
}

/// A reset goes on as a reset. A connection that broke in the middle of a reply becomes the status
/// that gRPC has for it, which clients know how to retry.
fn broken(error: h2::Error) -> Result<Frame<Bytes>, Reset> {
    if error.is_reset() {
        return Err(Reset(error));
    }
    tracing::debug!(
        error = failure::innermost(&error),
        "lost a controller in the middle of a reply"
    );
    let mut trailers = HeaderMap::new();
    trailers.insert("grpc-status", HeaderValue::from(Code::Unavailable as i32));
    trailers.insert(
        "grpc-message",
        HeaderValue::from_static(
            "the connection to the controller was lost in the middle of its reply",
        ),
    );
    Ok(Frame::trailers(trailers))
}
