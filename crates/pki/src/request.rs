//! Certificate requests: made by those who want a certificate, judged by those who sign.

use std::fmt;

use rcgen::{CertificateParams, DistinguishedName, DnType, KeyPair, SanType};
use rustls_pki_types::CertificateSigningRequestDer;
use x509_parser::certification_request::X509CertificationRequest;
use x509_parser::extensions::{GeneralName, ParsedExtension};
use x509_parser::prelude::FromDer as _;
use zeroize::Zeroizing;

use crate::authority::AuthorityError;
use crate::identity::Fingerprint;
use crate::role::Role;
use crate::spiffe::{SpiffeId, TrustDomain};

/// A request with its proof is some 500 bytes, with an RSA key of 4096 bits 2 kB.
const REQUEST_BYTES_MAX: usize = 16 << 10;

/// Why a request is not signed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RequestError {
    #[error("it is larger than {REQUEST_BYTES_MAX} bytes")]
    TooLarge,
    #[error("it cannot be read")]
    Malformed,
    #[error("its signature does not fit its key")]
    Signature,
    #[error("it asks for {asked:?}, but may only ask for {allowed:?}")]
    OtherName { asked: String, allowed: String },
    #[error("it asks to be an authority")]
    Authority,
}

/// A request whose signature fits its key.
#[derive(Clone, PartialEq, Eq)]
pub struct CertificateRequest {
    public_key: Vec<u8>,
    common_names: Vec<String>,
    uris: Vec<String>,
    dns_names: Vec<String>,
    /// Kinds of names that we give nobody: addresses, mail boxes, directories.
    other_names: bool,
    authority: bool,
}

impl CertificateRequest {
    pub fn from_der(der: &[u8]) -> Result<Self, RequestError> {
        if REQUEST_BYTES_MAX < der.len() {
            return Err(RequestError::TooLarge);
        }
        let (rest, parsed) =
            X509CertificationRequest::from_der(der).map_err(|_| RequestError::Malformed)?;
        if !rest.is_empty() {
            return Err(RequestError::Malformed);
        }
        // The parser in use proves the signature; ours would need the same library.
        rcgen::CertificateSigningRequestParams::from_der(&CertificateSigningRequestDer::from(der))
            .map_err(|error| match error {
                rcgen::Error::InvalidCertificationRequestSignature => RequestError::Signature,
                _ => RequestError::Malformed,
            })?;
        let info = &parsed.certification_request_info;
        let text = |name: &x509_parser::x509::AttributeTypeAndValue<'_>| {
            name.as_str().map(str::to_owned).map_err(|_| RequestError::Malformed)
        };
        let mut request = Self {
            public_key: info.subject_pki.raw.to_vec(),
            common_names: info.subject.iter_common_name().map(text).collect::<Result<_, _>>()?,
            uris: Vec::new(),
            dns_names: Vec::new(),
            other_names: false,
            authority: false,
        };
        for extension in parsed.requested_extensions().into_iter().flatten() {
            request.take(extension);
        }
        Ok(request)
    }

    fn take(&mut self, extension: &ParsedExtension<'_>) {
        match extension {
            ParsedExtension::SubjectAlternativeName(names) => {
                for name in &names.general_names {
                    match name {
                        GeneralName::URI(uri) => self.uris.push((*uri).to_owned()),
                        GeneralName::DNSName(name) => self.dns_names.push((*name).to_owned()),
                        _ => self.other_names = true,
                    }
                }
            }
            ParsedExtension::BasicConstraints(constraints) => self.authority |= constraints.ca,
            _ => {}
        }
    }

    /// The key in the form of X.509.
    pub fn public_key(&self) -> &[u8] {
        &self.public_key
    }

    /// The same for a certificate of this key.
    pub fn key(&self) -> Fingerprint {
        Fingerprint::of(&self.public_key)
    }

    /// Refuses a request that asks for more than to be this peer. A request that names nothing asks
    /// for nothing but a certificate.
    pub fn check(&self, domain: &TrustDomain, role: Role, name: &str) -> Result<(), RequestError> {
        let id = SpiffeId::new(domain, role, name).map_err(|_| RequestError::Malformed)?;
        let (id, oim) = (id.to_string(), role.oim_name(name));
        let other = |asked: &str, allowed: &str| {
            Err(RequestError::OtherName { asked: asked.to_owned(), allowed: allowed.to_owned() })
        };
        if self.authority {
            return Err(RequestError::Authority);
        }
        if let Some(uri) = self.uris.iter().find(|uri| **uri != id) {
            return other(uri, &id);
        }
        if let Some(asked) = self.dns_names.iter().find(|asked| Some(*asked) != oim.as_ref()) {
            return other(asked, oim.as_deref().unwrap_or(&id));
        }
        let known = |asked: &String| asked == name || Some(asked) == oim.as_ref();
        if let Some(asked) = self.common_names.iter().find(|asked| !known(asked)) {
            return other(asked, name);
        }
        if self.other_names {
            return other("an address or another kind of name", &id);
        }
        Ok(())
    }
}

impl fmt::Debug for CertificateRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CertificateRequest")
            .field("common_names", &self.common_names)
            .field("uris", &self.uris)
            .field("dns_names", &self.dns_names)
            .finish_non_exhaustive()
    }
}

/// A key of one's own, and the request for a certificate for it. `Debug` leaves the key out.
pub struct Requested {
    key_pem: Zeroizing<String>,
    der: Vec<u8>,
}

impl Requested {
    /// With a fresh P-256 key.
    pub fn generate(name: &str) -> Result<Self, AuthorityError> {
        Self::with_key(&KeyPair::generate()?, name, None)
    }

    /// For a key that is there already, in any form that we read.
    pub fn for_key(key_pem: &str, name: &str) -> Result<Self, AuthorityError> {
        Self::with_key(&crate::authority::key_pair(key_pem)?, name, None)
    }

    /// One that asks for a SPIFFE id by name, as a peer of another make would.
    pub fn for_id(id: &SpiffeId, name: &str) -> Result<Self, AuthorityError> {
        Self::with_key(&KeyPair::generate()?, name, Some(id))
    }

    fn with_key(key: &KeyPair, name: &str, id: Option<&SpiffeId>) -> Result<Self, AuthorityError> {
        let mut params = CertificateParams::default();
        params.distinguished_name = DistinguishedName::new();
        params.distinguished_name.push(DnType::CommonName, name);
        if let Some(id) = id {
            params.subject_alt_names = vec![SanType::URI(id.to_string().as_str().try_into()?)];
        }
        let request = params.serialize_request(key)?;
        Ok(Self { key_pem: Zeroizing::new(key.serialize_pem()), der: request.der().to_vec() })
    }

    /// The request, to be sent.
    pub fn der(&self) -> &[u8] {
        &self.der
    }

    /// The private key, to be kept.
    pub fn key_pem(&self) -> &str {
        &self.key_pem
    }
}

impl fmt::Debug for Requested {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Requested").finish_non_exhaustive()
    }
}
