//! Checked certificates and key, and the rustls configurations made of them.

use std::fmt;
use std::sync::{Arc, OnceLock};

use rustls::crypto::CryptoProvider;
use rustls::server::WebPkiClientVerifier;
use rustls::sign::{CertifiedKey, SigningKey, SingleCertAndKey};
use rustls::version::{TLS12, TLS13};
use rustls::{
    ClientConfig, InconsistentKeys, RootCertStore, ServerConfig, SupportedProtocolVersion,
};
use rustls_pki_types::CertificateDer;

use crate::error::Error;
use crate::identity::Identity;
use crate::pem::Pem;

pub(crate) const ALPN_H2: &[u8] = b"h2";
pub(crate) const ALPN_HTTP1: &[u8] = b"http/1.1";
/// An authority, its predecessors that are still trusted, and some room.
const ROOTS_SHOWN_MAX: usize = 4;
pub(crate) const VERSIONS: [&SupportedProtocolVersion; 2] = [&TLS13, &TLS12];

/// Whether a server insists on a client certificate. One that is shown is always verified.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClientAuth {
    /// The handshake goes on without one; each service then demands what it needs.
    Optional,
    Required,
}

/// Everything a side of a connection needs: whom it trusts, who it is, and the key that proves it.
/// Cheap to clone.
#[derive(Clone)]
pub struct TlsMaterial {
    roots: Arc<RootCertStore>,
    root_certificates: Arc<Vec<CertificateDer<'static>>>,
    certified: Arc<CertifiedKey>,
    identity: Arc<Identity>,
}

impl TlsMaterial {
    /// The same as [`crate::TlsFiles::load`] for PEM text that is already in memory.
    pub fn from_pem(root: &[u8], certificate: &[u8], key: &[u8]) -> Result<Self, Error> {
        Self::new(
            &Pem::in_memory("the root certificate", root),
            &Pem::in_memory("the certificate", certificate),
            &Pem::in_memory("the private key", key),
        )
    }

    pub(crate) fn new(root: &Pem, certificate: &Pem, key: &Pem) -> Result<Self, Error> {
        let root_certificates = Arc::new(root.certificates()?);
        let roots = Arc::new(anchors(root, &root_certificates)?);
        let chain = certificate.certificates()?;
        let identity = Arc::new(check_chain(certificate, &chain)?);
        let certified = Arc::new(CertifiedKey::new(chain, signing_key(key)?));
        check_key(&certified, certificate, key)?;
        Ok(Self { roots, root_certificates, certified, identity })
    }

    /// Who we are to our peers.
    pub fn identity(&self) -> &Identity {
        &self.identity
    }

    /// The same, trusting the authorities in this PEM text too.
    pub fn trusting(&self, more: &[u8]) -> Result<Self, Error> {
        let more = Pem::in_memory("the trusted certificates", more);
        let mut certificates = self.root_certificates.to_vec();
        for certificate in more.certificates()? {
            if !certificates.contains(&certificate) {
                certificates.push(certificate);
            }
        }
        let roots = Arc::new(anchors(&more, &certificates)?);
        Ok(Self { roots, root_certificates: Arc::new(certificates), ..self.clone() })
    }

    /// For listeners: HTTP/2 and HTTP/1.1 by ALPN, client certificates verified against the root.
    pub fn server_config(&self, client_auth: ClientAuth) -> Arc<ServerConfig> {
        let verifier =
            WebPkiClientVerifier::builder_with_provider(Arc::clone(&self.roots), provider());
        let verifier = match client_auth {
            ClientAuth::Optional => verifier.allow_unauthenticated(),
            ClientAuth::Required => verifier,
        };
        let verifier = verifier.build().expect("there is a root, as loading checks");
        let mut config = ServerConfig::builder_with_provider(provider())
            .with_protocol_versions(&VERSIONS)
            .expect("ring has cipher suites for both versions")
            .with_client_cert_verifier(verifier)
            .with_cert_resolver(Arc::new(SingleCertAndKey::from(self.shown_with_roots())));
        config.alpn_protocols = vec![ALPN_H2.to_vec(), ALPN_HTTP1.to_vec()];
        Arc::new(config)
    }

    /// For connections: HTTP/2, the server verified against the root and by the name dialled, our
    /// certificate shown when asked for.
    pub fn client_config(&self) -> Arc<ClientConfig> {
        let mut config = ClientConfig::builder_with_provider(provider())
            .with_protocol_versions(&VERSIONS)
            .expect("ring has cipher suites for both versions")
            .with_root_certificates(Arc::clone(&self.roots))
            .with_client_cert_resolver(Arc::new(self.resolver()));
        config.alpn_protocols = vec![ALPN_H2.to_vec()];
        Arc::new(config)
    }

    /// The certificates of the authorities that we trust.
    pub fn root_certificates(&self) -> &[CertificateDer<'static>] {
        &self.root_certificates
    }

    /// Servers show the authorities too: whoever joins knows nothing but the hash of one of them.
    /// A bundle of strangers' authorities is not shown; it would only slow down every handshake.
    pub(crate) fn shown_with_roots(&self) -> CertifiedKey {
        let mut shown = self.certified.cert.clone();
        if self.root_certificates.len() <= ROOTS_SHOWN_MAX {
            let missing = self.root_certificates.iter().filter(|root| !shown.contains(root));
            let missing: Vec<_> = missing.cloned().collect();
            shown.extend(missing);
        }
        CertifiedKey::new(shown, Arc::clone(&self.certified.key))
    }

    pub(crate) fn roots(&self) -> Arc<RootCertStore> {
        Arc::clone(&self.roots)
    }

    pub(crate) fn certified(&self) -> Arc<CertifiedKey> {
        Arc::clone(&self.certified)
    }

    fn resolver(&self) -> SingleCertAndKey {
        SingleCertAndKey::from(Arc::clone(&self.certified))
    }
}

/// Leaves the key out.
impl fmt::Debug for TlsMaterial {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TlsMaterial")
            .field("roots", &self.roots.len())
            .field("chain", &self.certified.cert.len())
            .field("identity", &self.identity)
            .finish_non_exhaustive()
    }
}

/// Named everywhere instead of installed once per process, so that no start-up order matters.
pub fn provider() -> Arc<CryptoProvider> {
    static PROVIDER: OnceLock<Arc<CryptoProvider>> = OnceLock::new();
    Arc::clone(PROVIDER.get_or_init(|| Arc::new(rustls::crypto::ring::default_provider())))
}

/// For those who have no certificate of their own: HTTP/2, the server verified against the root in
/// this file and by the name dialled.
pub fn rooted_client_config(root: &std::path::Path) -> Result<Arc<ClientConfig>, Error> {
    rooted(&Pem::read(root)?)
}

/// The same for the root of somebody else, such as the bundle of public authorities of a system: others
/// may read that file, and nobody but its owner may change it.
pub fn publicly_rooted_client_config(root: &std::path::Path) -> Result<Arc<ClientConfig>, Error> {
    rooted(&Pem::read_public(root)?)
}

fn rooted(pem: &Pem) -> Result<Arc<ClientConfig>, Error> {
    let roots = anchors(pem, &pem.certificates()?)?;
    let mut config = ClientConfig::builder_with_provider(provider())
        .with_protocol_versions(&VERSIONS)
        .expect("ring has cipher suites for both versions")
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = vec![ALPN_H2.to_vec()];
    Ok(Arc::new(config))
}

fn anchors(pem: &Pem, certificates: &[CertificateDer<'static>]) -> Result<RootCertStore, Error> {
    let mut roots = RootCertStore::empty();
    for (index, certificate) in certificates.iter().enumerate() {
        roots.add(certificate.clone()).map_err(|error| unusable(pem, index, &error))?;
    }
    Ok(roots)
}

/// Every certificate of the chain must at least parse; the first one says who we are.
fn check_chain(pem: &Pem, chain: &[CertificateDer<'static>]) -> Result<Identity, Error> {
    for (index, certificate) in chain.iter().enumerate() {
        x509_parser::parse_x509_certificate(certificate)
            .map_err(|error| unusable(pem, index, &error))?;
    }
    Identity::from_chain(chain).map_err(|source| Error::Identity { file: pem.name(), source })
}

fn unusable(pem: &Pem, index: usize, error: &dyn fmt::Display) -> Error {
    Error::Certificate { file: pem.name(), position: index + 1, reason: error.to_string() }
}

fn signing_key(pem: &Pem) -> Result<Arc<dyn SigningKey>, Error> {
    let loaded = provider().key_provider.load_private_key(pem.private_key()?);
    loaded.map_err(|error| Error::UnusableKey { file: pem.name(), reason: error.to_string() })
}

fn check_key(certified: &CertifiedKey, certificate: &Pem, key: &Pem) -> Result<(), Error> {
    match certified.keys_match() {
        Ok(()) => Ok(()),
        Err(rustls::Error::InconsistentKeys(InconsistentKeys::KeyMismatch)) => {
            Err(Error::KeyMismatch { key: key.name(), certificate: certificate.name() })
        }
        Err(error) => Err(unusable(certificate, 0, &error)),
    }
}
