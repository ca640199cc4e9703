//! xDS over gRPC: the endpoint discovery service and the aggregated one.
//!
//! ```text
//!   transport ─> Peer in the extensions ─> service ─> first request: who is it? ─> Control::join
//!                                                          │
//!   response stream <── Frame (shared bytes) <── Driver: requests, changes, pushes
//! ```
//! The services are written by hand because the generated ones would copy every resource for every
//! stream; the bytes on the wire are the same. `Fetch*` is not implemented.
mod codec;
mod driver;
mod node;
mod service;
mod wire;

pub use codec::Frame;
pub use service::{AggregatedService, EndpointService};

#[cfg(test)]
mod tests;
