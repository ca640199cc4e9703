//! The certificates that proxies show each other.
mod memory;

pub use memory::MemorySecrets;

use crate::announce::Announcements;
use crate::names::ProxyName;
use std::fmt;

/// What a proxy needs to prove who it is and to check its peers. PEM throughout.
#[derive(Clone, PartialEq, Eq)]
pub struct CertificateBundle {
    pub certificate_chain: String,
    pub private_key: String,
    /// More than one while the authority rotates.
    pub roots: String,
}

/// Leaves the key out.
impl fmt::Debug for CertificateBundle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CertificateBundle")
            .field("certificate_chain", &self.certificate_chain)
            .finish_non_exhaustive()
    }
}

/// Keeps a current certificate for every name of proxies that has one.
pub trait SecretsProvider: Send + Sync + 'static {
    /// `None` where proxies of that name have no certificate (yet).
    fn certificate(&self, proxy: &ProxyName) -> Option<CertificateBundle>;

    /// Names those whose certificate was replaced.
    fn announcements(&self) -> Announcements<ProxyName>;
}
