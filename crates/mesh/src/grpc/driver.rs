//! One stream from its first request to its end.
use super::codec::Frame;
use super::wire::{Parts, WireRequest, admission, check, check_names};
use crate::control::{Control, StreamHandle};
use crate::identity::Peer;
use crate::xds::Kind;
use futures::StreamExt as _;
use futures::stream::BoxStream;
use std::sync::Arc;
use std::time::Duration;
use tokio_util::sync::CancellationToken;
use tonic::{Status, Streaming};

/// A client that opens a stream and says nothing is not kept.
const FIRST_REQUEST_TIMEOUT: Duration = Duration::from_secs(10);
/// How long a stream waits for a catalog that is still loading, before it is told to come back.
const LOADING_TIMEOUT: Duration = Duration::from_secs(30);

pub type Frames = BoxStream<'static, Result<Frame, Status>>;

/// What a stream is opened with.
pub struct Opening {
    pub control: Arc<Control>,
    pub stop: CancellationToken,
    pub peer: Peer,
    /// The only kind that is served on it; `None` on an aggregated stream.
    pub only: Option<Kind>,
}

impl Opening {
    /// Lets the proxy in, by its identity and its first request.
    ///
    /// The answers are made when the transport has room for them, never before: a client that does
    /// not read holds up itself, and finds the latest state when it reads again.
    pub async fn open<R: WireRequest>(self, mut inbound: Streaming<R>) -> Result<Frames, Status> {
        let first = tokio::time::timeout(FIRST_REQUEST_TIMEOUT, inbound.message()).await;
        let silent = || Status::deadline_exceeded("the stream began without a request");
        let first = first.map_err(|_| silent())??.ok_or_else(silent)?.into_parts();
        let (control, only) = (&self.control, self.only);
        let admission = admission(
            &self.peer,
            first.node.as_ref(),
            R::PROTOCOL,
            control.options(),
            only.is_some(),
        )?;
        let loaded = tokio::time::timeout(LOADING_TIMEOUT, control.catalog().loaded()).await;
        loaded.map_err(|_| Status::unavailable("the catalog is still loading; try again"))?;
        let full = |error: crate::control::Full| Status::resource_exhausted(error.to_string());
        let handle = control.join(admission).map_err(full)?;
        let driver = Driver { handle, inbound, only, stop: self.stop, is_over: false };
        driver.request(first)?;
        Ok(futures::stream::unfold(driver, Driver::step).boxed())
    }
}

struct Driver<R> {
    handle: StreamHandle,
    inbound: Streaming<R>,
    only: Option<Kind>,
    stop: CancellationToken,
    is_over: bool,
}

impl<R: WireRequest> Driver<R> {
    /// The next answer; an error is the last one.
    async fn step(mut self) -> Option<(Result<Frame, Status>, Self)> {
        if self.is_over {
            return None;
        }
        let outcome = self.next().await.transpose()?;
        self.is_over = outcome.is_err();
        Some((outcome, self))
    }

    async fn next(&mut self) -> Result<Option<Frame>, Status> {
        loop {
            if let Some(push) = self.handle.next() {
                return Ok(Some(Frame { protocol: R::PROTOCOL, push }));
            }
            tokio::select! {
                () = self.stop.cancelled() => {
                    return Err(Status::unavailable("the control plane is stopping"));
                }
                request = self.inbound.message() => match request? {
                    Some(request) => self.request(request.into_parts())?,
                    None => return Ok(None),
                },
                pending = self.handle.changed() => self.handle.mark(&pending),
            }
        }
    }

    fn request(&self, parts: Parts) -> Result<(), Status> {
        check(&parts.request)?;
        let type_url = match self.only {
            Some(only) if parts.type_url.is_empty() => only.type_url(),
            Some(only) if only.type_url() != parts.type_url => {
                return Err(Status::invalid_argument(format!(
                    "this service serves {} only, not {:?}",
                    only.type_url(),
                    parts.type_url
                )));
            }
            Some(_) | None => &parts.type_url,
        };
        self.handle.request(type_url, &parts.request);
        check_names(self.handle.names_count())
    }
}
