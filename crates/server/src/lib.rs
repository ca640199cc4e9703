//! The server: the composition root of the control plane.
//!
//! ```text
//!   listener (TLS or plain) ─> router ─┬─ REST: the Kubernetes dialect, OpenAPI, health
//!                                      ├─ gRPC: Hub, health, reflection
//!                                      └─ gRPC: agent and commander connections (fleet)
//!                                              │
//!                                    HubApi: decode, call the accessor, encode
//! ```
//! Owns: listeners and TLS, the APIs, and putting store, hub, fleet and the other domains together.
//! Not in it: rules about resources (hub), what a domain does, printing and exit codes (cli).
mod api;
mod backup;
mod grpc;
mod identity;
mod listener;
mod options;
mod rest;
mod server;

pub use identity::{Identities, IdentityOptions};
pub use listener::Listener;
pub use options::{ServerOptions, StoreOptions};
pub use orrery_store::etcd::{Credentials, EtcdOptions, EtcdTls};
pub use orrery_store::{Backup, EmbeddedOptions, inspect_backup, restore};
pub use server::{Connections, Error, Server, rules};

/// The version of this build.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");
