//! The identity that a certificate states.
//!
//! This parses; it does not verify. Hand it certificates that a handshake has verified already, or
//! your own. Where a certificate is ambiguous (two SPIFFE ids, two common names) it is refused rather
//! than read in the order that happens to suit its maker.

use std::fmt;
use std::time::{Duration, SystemTime};

use rustls_pki_types::CertificateDer;
use sha2::{Digest, Sha256};
use x509_parser::certificate::X509Certificate;
use x509_parser::extensions::GeneralName;
use x509_parser::time::ASN1Time;

use crate::pem::Pem;
use crate::role::Role;
use crate::spiffe::{SpiffeError, SpiffeId};

/// Why a certificate states no identity that we could rely on.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum IdentityError {
    #[error("the peer showed no certificate")]
    NoCertificate,
    #[error("the certificate cannot be parsed: {0}")]
    Malformed(String),
    #[error("the certificate has a subject alternative name that cannot be parsed")]
    MalformedName,
    #[error("the certificate has more than one SPIFFE id")]
    ManySpiffeIds,
    #[error("the certificate has more than one common name")]
    ManyCommonNames,
    #[error("the certificate has a bad SPIFFE id")]
    Spiffe(#[from] SpiffeError),
}

/// SHA-256 of a certificate's DER bytes: the same certificate, and no other, has it again.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Fingerprint([u8; 32]);

impl Fingerprint {
    pub fn of(certificate: &[u8]) -> Self {
        Self(Sha256::digest(certificate).into())
    }

    /// From the hex digits that it is written as.
    pub fn parse(text: &str) -> Option<Self> {
        let mut bytes = [0; 32];
        if text.len() != 2 * bytes.len() || !text.is_ascii() {
            return None;
        }
        for (at, byte) in bytes.iter_mut().enumerate() {
            *byte = u8::from_str_radix(text.get(2 * at..2 * at + 2)?, 16).ok()?;
        }
        Some(Self(bytes))
    }

    pub fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&hex(&self.0))
    }
}

impl fmt::Debug for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Fingerprint({self})")
    }
}

/// Who holds a certificate, in every form our services ask for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// Absent in certificates of an authority that knows nothing of SPIFFE.
    pub spiffe: Option<SpiffeId>,
    /// As written in the certificate, in its order; the storage manager's names are among them.
    pub dns_names: Vec<String>,
    pub common_name: Option<String>,
    /// The organizations of the subject: the groups that a person belongs to.
    pub groups: Vec<String>,
    /// Lowercase hex, as `openssl x509 -serial` shows it in capitals.
    pub serial: String,
    pub fingerprint: Fingerprint,
    /// Of the public key: a renewed certificate has the same.
    pub key: Fingerprint,
    /// Of the name of whoever signed it, and of its own name: an authority is known by it.
    pub issuer: Fingerprint,
    pub subject: Fingerprint,
    pub not_before: SystemTime,
    pub not_after: SystemTime,
}

impl Identity {
    /// Reads the first certificate of a chain, the one rustls has checked the handshake with.
    pub fn from_chain(chain: &[CertificateDer<'_>]) -> Result<Self, IdentityError> {
        Self::from_der(chain.first().ok_or(IdentityError::NoCertificate)?)
    }

    /// Reads the first certificate of PEM text.
    pub fn of_pem(pem: &[u8]) -> Result<Self, IdentityError> {
        let chain = Pem::in_memory("the certificate", pem).certificates();
        Self::from_chain(&chain.map_err(|error| IdentityError::Malformed(error.to_string()))?)
    }

    pub fn from_der(der: &[u8]) -> Result<Self, IdentityError> {
        let malformed = |reason: &dyn fmt::Display| IdentityError::Malformed(reason.to_string());
        let (rest, certificate) =
            x509_parser::parse_x509_certificate(der).map_err(|error| malformed(&error))?;
        if !rest.is_empty() {
            return Err(malformed(&"there are bytes after its end"));
        }
        let names = AlternativeNames::of(&certificate)?;
        Ok(Self {
            spiffe: names.spiffe,
            dns_names: names.dns,
            common_name: common_name(&certificate)?,
            groups: groups(&certificate),
            serial: hex(certificate.raw_serial()),
            fingerprint: Fingerprint::of(der),
            key: Fingerprint::of(certificate.public_key().raw),
            issuer: Fingerprint::of(certificate.issuer().as_raw()),
            subject: Fingerprint::of(certificate.subject().as_raw()),
            not_before: system_time(certificate.validity().not_before),
            not_after: system_time(certificate.validity().not_after),
        })
    }

    /// The role of a peer of ours; `None` for a stranger.
    pub fn role(&self) -> Option<Role> {
        self.peer().map(|(role, _)| role)
    }

    /// The name within the role of a peer of ours; `None` for a stranger.
    pub fn name(&self) -> Option<&str> {
        self.peer().map(|(_, name)| name)
    }

    fn peer(&self) -> Option<(Role, &str)> {
        self.spiffe.as_ref().and_then(SpiffeId::peer)
    }

    /// DNS names compare without regard to case.
    pub fn has_dns_name(&self, name: &str) -> bool {
        self.dns_names.iter().any(|own| own.eq_ignore_ascii_case(name))
    }
}

#[derive(Default)]
struct AlternativeNames {
    spiffe: Option<SpiffeId>,
    dns: Vec<String>,
}

impl AlternativeNames {
    fn of(certificate: &X509Certificate<'_>) -> Result<Self, IdentityError> {
        let extension = certificate
            .subject_alternative_name()
            .map_err(|error| IdentityError::Malformed(error.to_string()))?;
        let mut names = Self::default();
        for name in extension.iter().flat_map(|extension| &extension.value.general_names) {
            names.add(name)?;
        }
        Ok(names)
    }

    /// URIs of other schemes, addresses and the like are somebody else's business.
    fn add(&mut self, name: &GeneralName<'_>) -> Result<(), IdentityError> {
        match name {
            GeneralName::DNSName(name) => self.dns.push((*name).to_owned()),
            GeneralName::URI(uri) if is_spiffe(uri) => {
                if self.spiffe.replace(uri.parse()?).is_some() {
                    return Err(IdentityError::ManySpiffeIds);
                }
            }
            GeneralName::Invalid(..) => return Err(IdentityError::MalformedName),
            GeneralName::URI(_)
            | GeneralName::IPAddress(_)
            | GeneralName::RFC822Name(_)
            | GeneralName::OtherName(..)
            | GeneralName::X400Address(_)
            | GeneralName::DirectoryName(_)
            | GeneralName::EDIPartyName(_)
            | GeneralName::RegisteredID(_) => {}
        }
        Ok(())
    }
}

/// In any case of letters, so that a misspelt scheme is an error and not silently a stranger's URI.
fn is_spiffe(uri: &str) -> bool {
    uri.get(..7).is_some_and(|scheme| scheme.eq_ignore_ascii_case("spiffe:"))
}

fn common_name(certificate: &X509Certificate<'_>) -> Result<Option<String>, IdentityError> {
    let mut names = certificate.subject().iter_common_name();
    let first = names.next();
    if names.next().is_some() {
        return Err(IdentityError::ManyCommonNames);
    }
    Ok(first.and_then(|name| name.as_str().ok()).map(str::to_owned))
}

fn groups(certificate: &X509Certificate<'_>) -> Vec<String> {
    let names = certificate.subject().iter_organization();
    names.filter_map(|name| name.as_str().ok()).map(str::to_owned).collect()
}

fn system_time(time: ASN1Time) -> SystemTime {
    let seconds = time.timestamp();
    let distance = Duration::from_secs(seconds.unsigned_abs());
    if seconds < 0 { SystemTime::UNIX_EPOCH - distance } else { SystemTime::UNIX_EPOCH + distance }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests;
