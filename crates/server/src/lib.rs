//! The server: the composition root of the control plane.
//!
//! ```text
//!   listener (TLS or plain) ─> router ─┬─ REST: the Kubernetes dialect, OpenAPI, health; the console's pages
//!                                      ├─ gRPC: Hub, health, reflection
//!                                      ├─ gRPC: agent and commander connections (fleet)
//!                                      └─ gRPC: endpoint and aggregated discovery (mesh)
//!   storage (8999) ─> registry and proxy (volumes)
//!                                              │
//!                                    HubApi: decode, call the accessor, encode
//! ```
//! Owns: listeners and TLS, the APIs, the gate that every request passes, figures, limits, the audit log, encryption at rest, and putting store, hub, fleet and the other domains together.
//! Not in it: rules about resources (hub), what a domain does, printing and exit codes (cli).
mod api;
mod audit;
mod backup;
mod browsers;
mod clusters;
mod connection;
mod error;
mod gate;
mod gitsync;
mod grpc;
mod identity;
mod leading;
mod limits;
mod listener;
mod machines;
mod memory;
mod mesh;
mod metrics;
mod operations;
mod options;
mod peers;
mod port;
mod program;
mod rest;
mod resting;
mod sealing;
mod secrets;
mod server;
mod services;
mod side;
mod stalled;
mod storage;
mod unread;
mod upstream;
mod websocket;

#[cfg(feature = "fuzzing")]
pub use rest::fuzzing;

pub use audit::AuditOptions;
pub use error::Error;
pub use identity::{Identities, IdentityOptions};
pub use limits::Limits;
pub use listener::Listener;
pub use mesh::{MeshError, MeshSettings};
pub use operations::{ConnectionThreads, Operations};
pub use options::{ServerOptions, StoreOptions};
pub use orrery_access::oidc::OidcOptions;
pub use orrery_console::PATH as CONSOLE_PATH;
pub use orrery_gitsync::GitOptions;
pub use orrery_hub::artifacts::ArtifactPath;
pub use orrery_hub::cache::CacheOptions;
pub use orrery_machines::controller::orphans::OrphanTiming;
pub use orrery_mesh::envoy::{
    Bootstrap, ControlPlane, FollowedFiles, Mode as BootstrapMode, PortBootstrap, TlsPaths,
};
pub use orrery_mesh::names::{Destination, InvalidName, PortName, ServiceName};
pub use orrery_seal::{Keyring, KeyringError};
pub use orrery_store::etcd::{Credentials, EtcdOptions, EtcdTls, Proofs, Reread};
pub use orrery_store::{Backup, EmbeddedOptions, inspect_backup, restore};
pub use sealing::KeySource;
pub use server::{Connections, Server, rules};
pub use side::{Listen, SidePort};
pub use upstream::{CACHE_BYTES, CACHE_EXPIRY, KindFrom, UpstreamError, UpstreamOptions};

/// The version of this build.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");
