//! How a host and its plugin find each other: the handshake, the connection, and the services that every plugin
//! has.
//!
//! ```text
//!   host --environment (cookie, versions, its certificate)--> handshake (pure)
//!   host <--one line: versions, socket, our certificate------ serving
//!   host ==mutual TLS over the socket, gRPC=================> services
//! ```
mod handshake;
mod parent;
mod services;
mod serving;
mod tls;

pub use handshake::{Handshake, HandshakeError, PROTOCOLS};
pub use parent::Parent;
pub use services::{Broker, Controller, Stdio};
pub use serving::{Serving, ServingError};
pub use tls::{TlsError, acceptor};
