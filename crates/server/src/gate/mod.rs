//! The gate: every request of the API passes it, whichever way it comes.
//!
//! ```text
//!   REST ──────┐
//!   gRPC Hub ──┼─> Gate::enter ─┬─> Visit ── the work ──> it ends: counted, timed, written down
//!   commander ─┘                └─> refused: too much for one peer
//! ```
//! A request is traced as a span, under the trace that its caller names.
mod asked;
mod caller;
mod connects;

pub use asked::Asked;
pub use caller::{Caller, Transport};
pub use connects::connects;

use crate::audit::{Audit, Record, Sparing};
use crate::browsers::is_grpc;
use crate::limits::{Ledger, Taken};
use crate::metrics::{RequestMetrics, Watching};
use axum::http::StatusCode;
use orrery_hub::{Clock, Error};
use parking_lot::Mutex;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;
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
    ledger: Ledger,
    audit: Audit,
    sparing: Mutex<Sparing>,
    clock: Arc<dyn Clock>,
}

impl Gate {
    pub fn new(
        requests: RequestMetrics,
        ledger: Ledger,
        audit: Audit,
        clock: Arc<dyn Clock>,
    ) -> Self {
        let sparing = Mutex::default();
        Self { inner: Arc::new(Inner { requests, ledger, audit, sparing, clock }) }
    }

    /// Counts a request that is turned away at the door, such as one whose proof is not good, and writes it
    /// down: in the log, and in the audit log, both sparingly.
    pub fn refused<T>(&self, request: &axum::http::Request<T>, code: StatusCode, reason: &str) {
        let (grpc, code) = (is_grpc(request.headers()), code.as_u16());
        let transport = if grpc { Transport::Grpc } else { Transport::Rest };
        let caller = Caller::of(transport, request);
        let verb = if grpc { "call" } else { crate::rest::verb(request.method()) };
        let asked = Asked::path(verb, request.uri().path());
        self.inner.requests.began(transport);
        self.inner.requests.ended(transport, &asked, code, Duration::ZERO);
        let from = caller.peer.address;
        let address = from.map(|address| address.ip());
        let Some(missed) = self.inner.sparing.lock().admit(address, Instant::now()) else { return };
        tracing::warn!(address = ?from, path = asked.path, reason, missed, "refused");
        if self.inner.audit.is_on() {
            let record = Record::new(&caller, &asked, code, Duration::ZERO, self.time());
            self.inner.audit.record(record.because(reason, missed));
        }
    }

    /// The time of day, as the audit log writes it.
    fn time(&self) -> String {
        let now = self.inner.clock.now();
        let time = jiff::Timestamp::new(now.seconds, now.nanos);
        time.map(|time| time.to_string()).unwrap_or_default()
    }

    /// Lets a request in, unless its peer has its share already.
    pub fn enter(&self, caller: &Caller, asked: Asked) -> Result<Visit, Error> {
        self.inner.requests.began(caller.transport);
        let began = Instant::now();
        let taken = self.inner.ledger.request(caller, began);
        let (taken, refused) = match taken {
            Ok(taken) => (Some(taken), None),
            Err(error) => (None, Some(error)),
        };
        let visit = Visit {
            span: span(caller, &asked),
            gate: self.clone(),
            transport: caller.transport,
            caller: self.inner.audit.is_on().then(|| caller.clone()),
            asked,
            began,
            code: CLIENT_GONE,
            _taken: taken,
        };
        match refused {
            None => Ok(visit),
            Some(error) => {
                visit.leave(status_code(&error));
                Err(error)
            }
        }
    }

    /// Does the work of a request that ends with one answer.
    pub async fn through<T>(
        &self,
        caller: &Caller,
        asked: Asked,
        work: impl Future<Output = Result<T, Error>>,
    ) -> Result<T, Error> {
        let visit = self.enter(caller, asked)?;
        let outcome = work.instrument(visit.span()).await;
        visit.leave(outcome.as_ref().err().map_or(200, status_code));
        outcome
    }

    /// Takes a watcher in for as long as what is returned lives.
    pub fn watching(&self, caller: &Caller, kind: &str) -> Result<(Watching, Taken), Error> {
        let taken = self.inner.ledger.watch(caller)?;
        Ok((self.inner.requests.watching(kind), taken))
    }

    /// Takes somebody in who follows a log or runs a command, for as long as what is returned lives.
    pub fn following(&self, caller: &Caller) -> Result<Taken, Error> {
        self.inner.ledger.watch(caller)
    }

    /// Counts and writes down what has ended.
    fn ended(
        &self,
        transport: Transport,
        caller: Option<&Caller>,
        asked: &Asked,
        code: u16,
        took: Duration,
    ) {
        self.inner.requests.ended(transport, asked, code, took);
        if let Some(caller) = caller {
            self.inner.audit.record(Record::new(caller, asked, code, took, self.time()));
        }
    }
}

fn span(caller: &Caller, asked: &Asked) -> tracing::Span {
    // What stands here is made only where somebody takes the span.
    let span = tracing::debug_span!(
        "request",
        transport = caller.transport.as_str(),
        user = caller.subject().0,
        impersonated = caller.impersonated().map(|(whom, _)| whom.name),
        peer = caller.peer.address.map(tracing::field::display),
        user_agent = caller.peer.user_agent,
        verb = asked.verb,
        kind = asked.kind,
        project = asked.project,
        name = asked.name,
        path = asked.path,
        code = tracing::field::Empty,
    );
    orrery_trace::adopt(&span, &caller.peer.trace_parent);
    span
}

/// One request between its beginning and its end. Whoever drops it without leaving has gone away.
pub struct Visit {
    gate: Gate,
    transport: Transport,
    /// Kept for the audit log only.
    caller: Option<Caller>,
    asked: Asked,
    began: Instant,
    code: u16,
    span: tracing::Span,
    _taken: Option<Taken>,
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
        let (took, caller) = (self.began.elapsed(), self.caller.as_ref());
        self.gate.ended(self.transport, caller, &self.asked, self.code, took);
    }
}

/// The code of HTTP that says the same as an error.
pub fn status_code(error: &Error) -> u16 {
    match error {
        Error::NotFound { .. } | Error::ProjectNotFound { .. } => 404,
        Error::AlreadyExists { .. }
        | Error::BeingDeleted { .. }
        | Error::Conflict { .. }
        | Error::ApplyConflict { .. }
        | Error::Fenced { .. } => 409,
        Error::Invalid { .. } => 422,
        Error::BadRequest(_) => 400,
        Error::ProjectTerminating { .. } | Error::Forbidden(_) => 403,
        Error::Expired { .. } => 410,
        Error::TooLarge(_) => 413,
        Error::TooManyRequests { .. } => 429,
        Error::Unavailable(_) | Error::Away { .. } => 503,
        Error::Uncertain(_) => 504,
        Error::Internal(_) => 500,
    }
}
