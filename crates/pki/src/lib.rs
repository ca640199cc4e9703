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
//! configurations, the identity that a certificate states, a small authority that issues such
//! certificates, requests for them, and the text of a join token.
//!
//! Not in it: sockets and handshakes (the crates that listen and connect do those), what an identity
//! may do (that is the crate `access`), and noticing when files change: whoever uses them asks.
//!
//! Nothing here reads a clock: validity is an argument. Nothing here prints a private key: every type
//! that holds one hides it from `Debug`.

mod authority;
mod describe;
mod error;
mod files;
mod identity;
mod live;
mod material;
mod pem;
mod pinned;
mod pkcs8;
mod renewal;
mod request;
mod role;
mod signatures;
mod spiffe;
mod subject;
mod token;

pub use authority::{Authority, AuthorityError, IssueRequest, Issued, Signed, Validity};
pub use describe::{Described, describe_pem_file};
pub use error::{Error, TlsPart};
pub use files::TlsFiles;
pub use identity::{Fingerprint, Identity, IdentityError};
pub use live::{LiveTls, Refuses};
pub use material::{
    ClientAuth, TlsMaterial, provider as crypto_provider, publicly_rooted_client_config,
    rooted_client_config,
};
pub use pem::read_pem_file;
pub use pinned::{PIN_MISMATCH, pinned_client_config};
pub use renewal::renewal_at;
pub use request::{CertificateRequest, RequestError, Requested};
pub use role::{Role, UnknownRole};
pub use spiffe::{SpiffeError, SpiffeId, TrustDomain};
pub use subject::{ADMINS, KnownBy, Subject};
pub use token::{BearerToken, JoinToken, SecretHash, TokenError};
