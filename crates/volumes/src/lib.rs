//! The storage manager's server side: the registry of storage controllers and the transparent proxy
//! to them (docs/spec/oim.md).
//!
//! ```text
//!  HTTP/2 stream --> server::serve --+-- /oim.v0.Registry/* --> registry --> ControllerDirectory
//!   (TLS: Caller)                    |
//!                                    +-- anything else ------> proxy --> pool --> controller
//!                                         controllerid: <id>      (bodies and trailers untouched)
//! ```
//!
//! and what becomes of declared volumes:
//!
//! ```text
//!  Volume, WorkloadInstance --> volume::plan --> placement, VolumeAttachment    (leader, pure)
//!  Volume, VolumeAttachment --> edge --> a storage controller --> what it said  (leader)
//! ```
//!
//! Owns: who may register and who is proxied where ([`caller`]), the meaning of ids and addresses, the
//! pool of upstream connections, the listener's loop, the StorageController, Volume and
//! VolumeAttachment kinds. Not in it: how certificates are made (rustls configurations are passed in),
//! and what controllers do with a call.

pub mod address;
pub mod caller;
pub mod certificate;
mod controllers;
pub mod directory;
mod edge;
pub mod id;
mod proxy;
pub mod quantity;
mod registry;
mod server;
mod status;
mod streams;
mod volume;
mod watches;
mod wiring;

pub use address::Address;
pub use caller::Caller;
pub use controllers::HubDirectory;
pub use directory::{
    Change, ControllerDirectory, DirectoryError, Entry, MemoryDirectory, Report, Room,
};
pub use id::ControllerId;
pub use proxy::{CONTROLLER_ID_KEY, ProxyConfig};
pub use server::{Refused, ServeConfig, serve};
pub use wiring::{register, rules, spawn_leader};
