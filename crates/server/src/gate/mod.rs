//! The gate: every request of the API passes it, whichever way it comes.
//!
//! ```text
//!   REST ──────┐
//!   gRPC Hub ──┼─> Gate::enter ─> Visit ── the work ──> Visit::leave
//!   commander ─┘                    │ counted, timed, traced
//! ```
mod asked;
mod caller;

pub use asked::Asked;
pub use caller::{Caller, Transport};

use crate::metrics::RequestMetrics;
use orrery_hub::Error;
use std::future::Future;
use std::sync::Arc;
use tokio::time::Instant;
use tracing::Instrument as _;

/// A client that went away before it was answered; the number is a custom of HTTP servers.
const CLIENT_GONE: u16 = 499;

/// Cheap to clone.
#[derive(Clone)]
pub struct Gate {
    inner: Arc<Inner>,
}

struct Inner {
    requests: RequestMetrics,
}

impl Gate {
    pub fn new(requests: RequestMetrics) -> Self {
        Self { inner: Arc::new(Inner { requests }) }
    }

    /// Lets a request in.
    pub fn enter(&self, caller: &Caller, asked: Asked) -> Visit {
        self.inner.requests.began(caller.transport);
        let (user, _groups) = caller.subject();
        let span = tracing::info_span!(
            "request",
            transport = caller.transport.as_str(),
            user,
            peer = caller.peer.address.map(tracing::field::display),
            user_agent = caller.user_agent,
            verb = asked.verb,
            kind = asked.kind,
            project = asked.project,
            name = asked.name,
            code = tracing::field::Empty,
        );
        Visit {
            gate: self.clone(),
            transport: caller.transport,
            asked,
            began: Instant::now(),
            code: CLIENT_GONE,
            span,
        }
    }

    /// Does the work of a request that ends with one answer.
    pub async fn through<T>(
        &self,
        caller: &Caller,
        asked: Asked,
        work: impl Future<Output = Result<T, Error>>,
    ) -> Result<T, Error> {
        let visit = self.enter(caller, asked);
        let outcome = work.instrument(visit.span()).await;
        visit.leave(outcome.as_ref().err().map_or(200, status_code));
        outcome
    }

    /// Counts a watcher for as long as what is returned lives.
    pub fn watching(&self, asked: &Asked) -> Watching {
        self.inner.requests.watching(&asked.kind)
    }
}

pub use crate::metrics::Watching;

/// One request between its beginning and its end. Whoever drops it without leaving has gone away.
pub struct Visit {
    gate: Gate,
    transport: Transport,
    asked: Asked,
    began: Instant,
    code: u16,
    span: tracing::Span,
}

impl Visit {
    /// What belongs to this request is traced under it.
    pub fn span(&self) -> tracing::Span {
        self.span.clone()
    }

    /// Says which object was meant, where the request itself did not.
    pub fn about(&mut self, project: &str, name: &str) {
        if self.asked.name.is_empty() {
            self.asked.name = asked::cut(name);
            self.asked.project = asked::cut(project);
        }
    }

    /// It is answered, with a code of HTTP.
    pub fn leave(mut self, code: u16) {
        self.code = code;
    }
}

impl Drop for Visit {
    fn drop(&mut self) {
        self.span.record("code", self.code);
        let took = self.began.elapsed();
        self.gate.inner.requests.ended(self.transport, &self.asked, self.code, took);
    }
}

/// The code of HTTP that says the same as an error.
pub fn status_code(error: &Error) -> u16 {
    match error {
        Error::NotFound { .. } | Error::ProjectNotFound { .. } => 404,
        Error::AlreadyExists { .. }
        | Error::BeingDeleted { .. }
        | Error::Conflict { .. }
        | Error::ApplyConflict { .. } => 409,
        Error::Invalid { .. } => 422,
        Error::BadRequest(_) => 400,
        Error::ProjectTerminating { .. } | Error::Forbidden(_) => 403,
        Error::Expired { .. } => 410,
        Error::TooLarge(_) => 413,
        Error::Unavailable(_) => 503,
        Error::Internal(_) => 500,
    }
}
