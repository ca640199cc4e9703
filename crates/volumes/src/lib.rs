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
//! Owns: who may register and who is proxied where ([`caller`]), the meaning of ids and addresses, the
//! pool of upstream connections, the listener's loop. Not in it: where entries are kept (whoever
//! implements [`ControllerDirectory`]), how certificates are made (rustls configurations are passed
//! in), and what controllers do with a call.

pub mod address;
pub mod caller;
pub mod certificate;
pub mod directory;
pub mod id;
mod proxy;
mod registry;
mod server;

pub use address::Address;
pub use caller::Caller;
pub use directory::{Change, ControllerDirectory, DirectoryError, Entry, MemoryDirectory};
pub use id::ControllerId;
pub use proxy::{CONTROLLER_ID_KEY, ProxyConfig};
pub use server::{ServeConfig, serve};
