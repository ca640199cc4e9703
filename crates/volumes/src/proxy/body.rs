//! The bodies that this server sends.
use super::{failure, pool::Lease};
use bytes::Bytes;
use http::{HeaderMap, HeaderValue};
use http_body::{Frame, SizeHint};
use hyper::body::Incoming;
use std::{
    pin::Pin,
    task::{Context, Poll},
};
use tonic::Code;

type BoxError = Box<dyn std::error::Error + Send + Sync>;

pin_project_lite::pin_project! {
    /// One of three bodies; an enum so that the proxied one costs no allocation.
    #[project = Projected]
    #[derive(Default)]
    pub enum Body {
        /// Of a reply that is trailers only.
        #[default]
        Empty,
        /// Of the registry's own service.
        Local { #[pin] body: tonic::body::Body },
        /// Of a controller. The lease counts the stream until its last frame is passed on.
        Upstream { #[pin] body: Incoming, lease: Option<Lease> },
    }
}

impl Body {
    pub fn local(body: tonic::body::Body) -> Self {
        Self::Local { body }
    }

    pub fn upstream(body: Incoming, lease: Lease) -> Self {
        Self::Upstream { body, lease: Some(lease) }
    }
}

impl http_body::Body for Body {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        match self.project() {
            Projected::Empty => Poll::Ready(None),
            Projected::Local { body } => {
                body.poll_frame(context).map(|frame| frame.map(|result| result.map_err(Into::into)))
            }
            Projected::Upstream { body, lease } => {
                if lease.is_none() {
                    return Poll::Ready(None);
                }
                match std::task::ready!(body.poll_frame(context)) {
                    Some(Ok(frame)) => Poll::Ready(Some(Ok(frame))),
                    Some(Err(error)) => {
                        *lease = None;
                        Poll::Ready(Some(broken(error)))
                    }
                    None => {
                        *lease = None;
                        Poll::Ready(None)
                    }
                }
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Empty => true,
            Self::Local { body } => body.is_end_stream(),
            Self::Upstream { body, lease } => lease.is_none() || body.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Empty => SizeHint::with_exact(0),
            Self::Local { body } => body.size_hint(),
            Self::Upstream { body, .. } => body.size_hint(),
        }
    }
}

/// A reset goes on as a reset. A connection that broke in the middle of a reply becomes the status
/// that gRPC has for it, which clients know how to retry.
fn broken(error: hyper::Error) -> Result<Frame<Bytes>, BoxError> {
    if failure::is_reset(&error) {
        return Err(error.into());
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
