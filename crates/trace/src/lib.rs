//! Traces across processes: one request can be followed from the command line into the store.
//!
//! ```text
//!   command line ── traceparent ──▶ request ─▶ commit        every span ── OTLP ──▶ collector
//!   other clients ─ traceparent ─▶    (server)
//! ```
//! Owns: the trace of a span as W3C writes it, and the way to a collector (OTLP over gRPC). It is the
//! only crate that sees OpenTelemetry. Not in it: which spans there are; every crate makes its own
//! with `tracing`.
mod parent;
mod sending;

pub use parent::{adopt, current};
pub use sending::{Error, Sending, Sink, sending};
