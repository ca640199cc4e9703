//! Signing for others: requests, and a successor.

use rcgen::{Issuer, KeyPair, SubjectPublicKeyInfo};
use rustls_pki_types::CertificateDer;
use zeroize::Zeroizing;

use super::{Authority, AuthorityError, IssueRequest, Validity, params};
use crate::identity::Identity;
use crate::pem::Pem;
use crate::pkcs8;
use crate::request::CertificateRequest;

/// A certificate for somebody else's key.
#[derive(Clone, Debug)]
pub struct Signed {
    /// The certificate and what goes behind it.
    pub certificate_pem: String,
    pub identity: Identity,
}

impl Authority {
    /// A certificate for the key of a request. What it says comes from `wanted` alone; the request
    /// gives the key and has proven that its maker holds it.
    pub fn sign(
        &self,
        request: &CertificateRequest,
        wanted: &IssueRequest,
        validity: Validity,
    ) -> Result<Signed, AuthorityError> {
        let key = SubjectPublicKeyInfo::from_der(request.public_key())
            .map_err(|error| AuthorityError::Request(error.to_string()))?;
        let certificate = self.params(wanted, validity)?.signed_by(&key, &self.issuer)?;
        self.check_issuer(certificate.der())?;
        let identity = Identity::from_der(certificate.der())
            .map_err(|error| AuthorityError::Unreadable(error.to_string()))?;
        Ok(Signed { certificate_pem: certificate.pem() + &self.chain_pem, identity })
    }

    /// An authority that takes over: with a key of its own, and vouched for by this one, so that
    /// peers that trust only this one accept what the new one signs.
    pub fn successor(&self, validity: Validity) -> Result<Self, AuthorityError> {
        let key = KeyPair::generate()?;
        let mut params = params::authority(&self.trust_domain, validity)?;
        let own = params.self_signed(&key)?;
        params.serial_number = Some(params::serial_number());
        params.use_authority_key_identifier_extension = true;
        let vouched = params.signed_by(&key, &self.issuer)?;
        Ok(Self {
            trust_domain: self.trust_domain.clone(),
            certificate_pem: own.pem(),
            chain_pem: vouched.pem(),
            root_pem: own.pem(),
            issuer: Issuer::new(params, key),
            not_after: validity.not_after,
        })
    }

    /// What [`Authority::with_chain`] takes.
    pub fn chain_pem(&self) -> &str {
        &self.chain_pem
    }

    /// The same authority, with other certificates behind those that it signs.
    #[must_use]
    pub fn with_chain(mut self, chain_pem: String, root_pem: String) -> Self {
        (self.chain_pem, self.root_pem) = (chain_pem, root_pem);
        self
    }

    /// A peer finds the issuer of a certificate by its name, so the two must be written alike.
    pub(super) fn check_issuer(&self, issued: &[u8]) -> Result<(), AuthorityError> {
        let unreadable = |error: String| AuthorityError::Unreadable(error);
        let own = Pem::in_memory("the authority's certificate", self.certificate_pem.as_bytes())
            .certificates()
            .map_err(|error| unreadable(error.to_string()))?;
        let (_, own) = x509_parser::parse_x509_certificate(&own[0])
            .map_err(|error| unreadable(error.to_string()))?;
        let (_, issued) = x509_parser::parse_x509_certificate(issued)
            .map_err(|error| unreadable(error.to_string()))?;
        if own.subject().as_raw() != issued.issuer().as_raw() {
            return Err(AuthorityError::Subject);
        }
        Ok(())
    }
}

/// Every form of key that `openssl` writes.
pub(crate) fn key_pair(pem: &str) -> Result<KeyPair, AuthorityError> {
    let key = Pem::in_memory("the authority's private key", pem.as_bytes())
        .private_key()
        .map_err(AuthorityError::Key)?;
    let wrapped = Zeroizing::new(pkcs8::of(&key));
    Ok(KeyPair::try_from(wrapped.as_slice())?)
}

pub(super) fn certificate_pem(der: &CertificateDer<'_>) -> String {
    crate::pem::encode("CERTIFICATE", der)
}
