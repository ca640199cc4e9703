//! The service mesh controller: what is declared and where it runs, told to every proxy.
//!
//! ```text
//!   topology (names) ──┐
//!   providers (places) ┼─> catalog ─> control (index, shared bytes) ─> grpc ─> Envoy
//!   secrets ───────────┘                   │
//!                       xds (the protocol) ┴ envoy (its words)
//! ```
//! Owns: the catalog and its parts as traits, the xDS protocol, the translation to Envoy's types, the
//! gRPC services, the bootstrap of a proxy.
//! Not in it: TLS and listeners (the transport puts a [`Peer`] into each request), the kinds of the
//! hub, running an Envoy.
//!
//! Who may know what: `topology` knows names only, `providers` names and addresses; neither knows
//! `catalog`, `xds` or `envoy`. `catalog` knows no protocol, `xds` no Envoy type, and only `envoy` and
//! `grpc` see envoy-types. A test over the sources holds this.
pub mod address;
pub mod announce;
pub mod catalog;
pub mod control;
pub mod declared;
pub mod envoy;
pub mod expression;
pub mod grpc;
pub mod hub;
mod identity;
pub mod kubernetes;
pub mod names;
pub mod providers;
pub mod secrets;
pub mod smi;
pub mod topology;
pub mod xds;

pub use identity::{Peer, Refusal, admit};
