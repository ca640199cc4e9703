//! A small certificate authority: one self-signed certificate that signs the certificates of peers.
//!
//! ```text
//!   authority (spiffe://<trust domain>)        CA, may sign peers only, key usage certSign + crlSign
//!      +-- peer (spiffe://<trust domain>/<role>/<name>)   digitalSignature, serverAuth + clientAuth
//! ```
//!
//! Every peer may both listen and connect (an agent serves logs, a server dials another replica), so
//! each certificate is good for both.

mod issued;
mod params;
mod signing;

use std::path::Path;

use rcgen::{CertificateParams, Issuer, KeyPair, PublicKeyData};
use x509_parser::certificate::X509Certificate;
use zeroize::Zeroizing;

pub use issued::Issued;
pub(crate) use issued::write_private;
pub(crate) use params::CLOCK_SKEW;
pub use params::{IssueRequest, Validity};
pub use signing::Signed;
pub(crate) use signing::key_pair;

use crate::identity::Identity;
use crate::pem::Pem;
use crate::spiffe::{SpiffeError, SpiffeId, TrustDomain};

/// The file names of [`Authority::write_to`]; [`Issued::write_to`] puts the same certificate beside
/// the ones it signed.
const CERTIFICATE_FILE: &str = "ca.pem";
const KEY_FILE: &str = "ca-key.pem";

/// Why an authority could not be made, read, or asked for a certificate.
#[derive(Debug, thiserror::Error)]
pub enum AuthorityError {
    #[error("cannot make a name for the certificate")]
    Name(#[from] SpiffeError),
    #[error("a certificate must end after it begins, and before the year 10000")]
    Validity,
    #[error("cannot make a certificate: {0}")]
    Certificate(#[from] rcgen::Error),
    #[error("the authority's certificate cannot be read: {0}")]
    Unreadable(String),
    #[error("the certificate may not sign others: its basic constraints do not say CA")]
    NotAnAuthority,
    #[error(
        "the authority's subject has several values of one kind, with which it cannot sign here; \
         use an authority with a plain name"
    )]
    Subject,
    #[error("the authority's private key cannot be used: {0}")]
    Key(crate::error::Error),
    #[error("the certificate request cannot be used: {0}")]
    Request(String),
    #[error("the authority's private key does not belong to its certificate")]
    KeyMismatch,
    #[error("the authority's certificate names no trust domain; say which one it is for")]
    NoTrustDomain,
    #[error("{} exists already and is not replaced; move it away first", .0.display())]
    Exists(std::path::PathBuf),
    #[error("cannot write {}", .file.display())]
    Write { file: std::path::PathBuf, source: std::io::Error },
}

/// Signs certificates of one trust domain. Holds the private key; `Debug` leaves it out.
pub struct Authority {
    trust_domain: TrustDomain,
    certificate_pem: String,
    /// What goes behind each certificate that it signs: itself and what is above it, unless it is
    /// a root, and who vouches for it while its predecessor is still trusted.
    chain_pem: String,
    /// Whom peers trust.
    root_pem: String,
    issuer: Issuer<'static, KeyPair>,
    /// No certificate outlives the authority that vouches for it.
    not_after: std::time::SystemTime,
}

impl Authority {
    /// A new authority with a fresh P-256 key.
    pub fn generate(
        trust_domain: &TrustDomain,
        validity: Validity,
    ) -> Result<Self, AuthorityError> {
        let key = KeyPair::generate()?;
        let params = params::authority(trust_domain, validity)?;
        let certificate = params.self_signed(&key)?;
        Ok(Self {
            trust_domain: trust_domain.clone(),
            certificate_pem: certificate.pem(),
            chain_pem: String::new(),
            root_pem: certificate.pem(),
            issuer: Issuer::new(params, key),
            not_after: validity.not_after,
        })
    }

    /// An authority of the user, or one of ours read back. The trust domain is read from the
    /// certificate when it is not given. After its certificate may follow those above it; peers are
    /// then given the whole chain, and trust the last.
    pub fn from_pem(
        certificate: &str,
        key: &str,
        trust_domain: Option<TrustDomain>,
    ) -> Result<Self, AuthorityError> {
        let unreadable = |error: String| AuthorityError::Unreadable(error);
        let key = signing::key_pair(key)?;
        let chain = Pem::in_memory("the authority's certificate", certificate.as_bytes())
            .certificates()
            .map_err(|error| unreadable(error.to_string()))?;
        let der = chain[0].clone();
        let (_, parsed) = x509_parser::parse_x509_certificate(&der)
            .map_err(|error| unreadable(error.to_string()))?;
        check_authority(&parsed, &key)?;
        let identity = Identity::from_der(&der).map_err(|error| unreadable(error.to_string()))?;
        let own = identity.spiffe.as_ref().map(SpiffeId::trust_domain).cloned();
        let pems: Vec<String> = chain.iter().map(|der| signing::certificate_pem(der)).collect();
        let (root, below) = pems.split_last().expect("reading refuses an empty chain");
        Ok(Self {
            trust_domain: trust_domain.or(own).ok_or(AuthorityError::NoTrustDomain)?,
            certificate_pem: pems[0].clone(),
            chain_pem: below.concat(),
            root_pem: root.clone(),
            issuer: Issuer::from_ca_cert_der(&der, key)?,
            not_after: identity.not_after,
        })
    }

    pub fn trust_domain(&self) -> &TrustDomain {
        &self.trust_domain
    }

    pub fn certificate_pem(&self) -> &str {
        &self.certificate_pem
    }

    /// The certificate that peers trust; the authority's own, unless another one stands above it.
    pub fn root_pem(&self) -> &str {
        &self.root_pem
    }

    /// When it ends.
    pub fn not_after(&self) -> std::time::SystemTime {
        self.not_after
    }

    /// The private key; whoever reads it can be anyone in this trust domain.
    pub fn key_pem(&self) -> Zeroizing<String> {
        Zeroizing::new(self.issuer.key().serialize_pem())
    }

    /// A certificate with a fresh P-256 key. It never outlives the authority: a later end is cut.
    pub fn issue(
        &self,
        request: &IssueRequest,
        validity: Validity,
    ) -> Result<Issued, AuthorityError> {
        let key = KeyPair::generate()?;
        let certificate = self.params(request, validity)?.signed_by(&key, &self.issuer)?;
        self.check_issuer(certificate.der())?;
        Issued::new(request, &certificate, &key, &self.chain_pem, &self.root_pem)
    }

    fn params(
        &self,
        request: &IssueRequest,
        validity: Validity,
    ) -> Result<CertificateParams, AuthorityError> {
        let id = SpiffeId::new(&self.trust_domain, request.role, &request.name)?;
        let validity = Validity { not_after: validity.not_after.min(self.not_after), ..validity };
        params::peer(&id, request, validity)
    }

    /// Writes `ca.pem` and `ca-key.pem` with permission 600; existing ones are never replaced, because
    /// a lost authority cannot be made again.
    pub fn write_to(&self, dir: &Path) -> Result<(), AuthorityError> {
        let (certificate, key) = (dir.join(CERTIFICATE_FILE), dir.join(KEY_FILE));
        if let Some(existing) = [&certificate, &key].into_iter().find(|file| file.exists()) {
            return Err(AuthorityError::Exists(existing.clone()));
        }
        issued::write_private(&key, self.key_pem().as_bytes())?;
        issued::write_private(&certificate, self.certificate_pem.as_bytes())
    }
}

impl std::fmt::Debug for Authority {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Authority")
            .field("trust_domain", &self.trust_domain)
            .finish_non_exhaustive()
    }
}

fn check_authority(certificate: &X509Certificate<'_>, key: &KeyPair) -> Result<(), AuthorityError> {
    if !certificate.is_ca() {
        return Err(AuthorityError::NotAnAuthority);
    }
    if certificate.public_key().raw != key.subject_public_key_info() {
        return Err(AuthorityError::KeyMismatch);
    }
    Ok(())
}

#[cfg(test)]
mod tests;
