//! The transparent proxy: forwards HTTP/2 streams to the controller that their metadata names.
//!
//! ```text
//!  request --> route (which controller?) --> authorize --> directory --> pool (a connection)
//!                                                                          |
//!  response head <---------------------------------------------------------+
//!  body, trailers, reset <--- the same stream, frame by frame, under both sides' flow control
//! ```
//!
//! Nothing is decoded or buffered: the request's body is handed to the upstream stream and the
//! response's to the downstream one. A reset by either side reaches the other with its code, because
//! dropping or failing one body resets the other's stream.

mod body;
mod dial;
use dial::Sender;
pub use dial::{Dialer, limits as dial_limits};
mod failure;
mod gather;
pub use gather::Gather;
mod pass;
pub use pass::Pass;
mod pool;
mod route;

use crate::{
    Caller, ControllerDirectory, Entry,
    caller::Action,
    registry::{denied, unavailable},
};
pub use body::{Body, Received};
use failure::Failure;
pub use failure::Reset;
use http::{Request, Response, uri::Scheme};
use http_body::Body as _;
use pool::Lease;
pub use pool::Pool;
pub use route::CONTROLLER_ID_KEY;
use std::{sync::Arc, time::Duration};
use tonic::Status;

/// Connections that are tried for one request: all that the pool may hold, if each went away unnoticed,
/// a fresh one, and one more if that went away meanwhile.
const ATTEMPTS: usize = 6;

/// How the proxy reaches controllers.
#[derive(Clone)]
pub struct ProxyConfig {
    /// Whom to trust and which certificate to show. With it, a controller has to prove that it is
    /// `controller.<id>` before anything is sent to it; without it, connections are plain.
    pub tls: Option<Arc<rustls::ClientConfig>>,
    /// Resolving, connecting and the TLS handshake together must not take longer.
    pub connect_timeout: Duration,
    /// A connection without a stream for this long (and at most twice as long) is closed.
    pub idle_timeout: Duration,
}

impl Default for ProxyConfig {
    fn default() -> Self {
        Self {
            tls: None,
            connect_timeout: Duration::from_secs(5),
            idle_timeout: Duration::from_secs(300),
        }
    }
}

pub struct Proxy {
    directory: Arc<dyn ControllerDirectory>,
    pool: Pool,
    scheme: Scheme,
}

impl Proxy {
    pub fn new(directory: Arc<dyn ControllerDirectory>, config: &ProxyConfig) -> Self {
        let scheme = if config.tls.is_some() { Scheme::HTTPS } else { Scheme::HTTP };
        Self { directory, pool: Pool::new(config), scheme }
    }

    pub fn pool(&self) -> &Pool {
        &self.pool
    }

    /// Forwards one call. An `Err` makes the server reset the stream with the code inside.
    pub async fn forward(
        &self,
        caller: &Caller,
        request: Request<Received>,
    ) -> Result<Response<Body>, Reset> {
        match self.try_forward(caller, request).await {
            Ok(response) => Ok(response),
            Err(Failure::Status(status)) => {
                tracing::debug!(code = ?status.code(), message = status.message(), "not forwarded");
                Ok(status.into_http())
            }
            Err(Failure::Reset(reset)) => Err(reset),
        }
    }

    async fn try_forward(
        &self,
        caller: &Caller,
        request: Request<Received>,
    ) -> Result<Response<Body>, Failure> {
        let id = route::controller(request.uri().path(), request.headers())?;
        caller.authorize(Action::Reach(&id)).map_err(denied)?;
        let found = self.directory.get(&id).await.map_err(unavailable)?;
        let entry = found
            .ok_or_else(|| Status::unavailable(format!("the controller {id} is not registered")))?;
        let request = route::upstream(request, &self.scheme)?;
        let (lease, sender) = match route::deadline(request.headers()) {
            Some(limit) => self.connected_within(limit, &entry).await?,
            None => self.connected(&entry).await?,
        };
        self.send(&entry, lease, sender, request).await
    }

    /// The deadline itself is the caller's and the controller's to keep. It matters here as long as
    /// there is no connection, when neither of them is being heard.
    async fn connected_within(
        &self,
        limit: Duration,
        entry: &Entry,
    ) -> Result<(Lease, Sender), Failure> {
        tokio::time::timeout(limit, self.connected(entry)).await.map_err(|_| {
            Status::deadline_exceeded(format!(
                "the deadline passed while connecting to the controller {}",
                entry.id
            ))
        })?
    }

    /// A connection that takes another request. One that went away unnoticed is let go of.
    async fn connected(&self, entry: &Entry) -> Result<(Lease, Sender), Failure> {
        for _ in 0..ATTEMPTS {
            let lease = self.pool.lease(entry).await.map_err(Failure::connect)?;
            match lease.sender().ready().await {
                Ok(sender) => return Ok((lease, sender)),
                Err(_gone) => lease.discard(),
            }
        }
        Err(Status::unavailable(format!(
            "the controller {} at {} closes every connection at once",
            entry.id, entry.address
        ))
        .into())
    }

    async fn send(
        &self,
        entry: &Entry,
        lease: Lease,
        mut sender: Sender,
        request: Request<Received>,
    ) -> Result<Response<Body>, Failure> {
        let lost = |error| Failure::upstream(entry, error);
        let (head, body) = request.into_parts();
        let whole = body.is_end_stream();
        let (response, stream) =
            sender.send_request(Request::from_parts(head, ()), whole).map_err(lost)?;
        if !whole {
            let mut upload = Pass::new(body, stream);
            // All of a small call is here already; what is not goes on by itself.
            if futures::poll!(&mut upload).is_pending() {
                self.pool.spawn(upload);
            }
        }
        Ok(response.await.map_err(lost)?.map(|body| Body::upstream(body, lease)))
    }
}
