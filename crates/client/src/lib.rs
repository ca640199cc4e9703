//! Connections to a server.
//!
//! Owns: endpoints and their TLS, the commander connection (which never retries), the agent
//! connection (which always does), the hub for programs, the judgement whether an object is ready or gone, the files of
//! objects, the times before lines of output, joining and renewing certificates, the contexts that say where a
//! server is.
//! Not in it: the store, the hub, printing.
pub mod agent;
pub mod commander;
pub mod context;
mod endpoint;
mod error;
pub mod files;
mod hub;
pub mod identity;
pub mod judge;
pub mod stamps;

pub use commander::{Commander, Replies};
pub use endpoint::Endpoint;
pub use error::{ApiError, Error};
pub use hub::{Changes, Hub};

/// The version that this client was built with; the first thing it says.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");
