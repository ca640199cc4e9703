//! Who a peer is, and how a connection proves it.
//!
//! ```text
//!   three PEM files --TlsFiles::load--> TlsMaterial --> rustls server / client configuration
//!   Authority --issue--> Issued ------------^                        |
//!                                                        peer certificate after a handshake
//!                                                                    v
//!                                                    Identity { spiffe, DNS names, ... }
//! ```
//!
//! Owns: reading PEM files and the rule about their permissions, turning them into rustls
//! configurations, the identity that a certificate states, and a small authority that issues such
//! certificates.
//!
//! Not in it: sockets and handshakes (the crates that listen and connect do those), what an identity
//! may do (authorization lives in the server), and watching files for changes.
//!
//! Nothing here reads a clock: validity is an argument. Nothing here prints a private key: every type
//! that holds one hides it from `Debug`.

mod authority;
mod error;
mod files;
mod identity;
mod material;
mod pem;
mod role;
mod spiffe;

pub use authority::{Authority, AuthorityError, IssueRequest, Issued, Validity};
pub use error::{Error, TlsPart};
pub use files::TlsFiles;
pub use identity::{Fingerprint, Identity, IdentityError};
pub use material::{ClientAuth, TlsMaterial};
pub use role::{Role, UnknownRole};
pub use spiffe::{SpiffeError, SpiffeId, TrustDomain};
