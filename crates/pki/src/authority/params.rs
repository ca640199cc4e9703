//! What goes into certificates: the pure part of the authority.

use std::net::IpAddr;
use std::time::{Duration, SystemTime};

use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, KeyUsagePurpose,
    SanType, SerialNumber,
};
use time::OffsetDateTime;

use super::AuthorityError;
use crate::role::Role;
use crate::spiffe::{SpiffeId, TrustDomain};

/// Clocks of machines differ; a certificate made now must be valid on one that is a little behind.
pub(crate) const CLOCK_SKEW: Duration = Duration::from_secs(5 * 60);

/// The longest common name that X.509 allows (ub-common-name).
const COMMON_NAME_CHARS_MAX: usize = 64;

const ORGANIZATION: &str = "Orrery";

/// When a certificate is valid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Validity {
    pub not_before: SystemTime,
    pub not_after: SystemTime,
}

impl Validity {
    /// From `now`, less an allowance for clocks that are behind, until `lifetime` has passed.
    pub fn starting(now: SystemTime, lifetime: Duration) -> Self {
        Self { not_before: now - CLOCK_SKEW, not_after: now + lifetime }
    }

    /// Both ends as certificates hold them: whole seconds, within years of four digits.
    fn instants(self) -> Result<(OffsetDateTime, OffsetDateTime), AuthorityError> {
        if self.not_after <= self.not_before {
            return Err(AuthorityError::Validity);
        }
        Ok((instant(self.not_before)?, instant(self.not_after)?))
    }
}

fn instant(time: SystemTime) -> Result<OffsetDateTime, AuthorityError> {
    let seconds =
        time.duration_since(SystemTime::UNIX_EPOCH).map_err(|_| AuthorityError::Validity)?;
    let seconds = i64::try_from(seconds.as_secs()).map_err(|_| AuthorityError::Validity)?;
    OffsetDateTime::from_unix_timestamp(seconds).map_err(|_| AuthorityError::Validity)
}

/// What a certificate is asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IssueRequest {
    pub role: Role,
    pub name: String,
    /// Names under which others dial this peer, beside the one of the storage manager.
    pub dns_names: Vec<String>,
    pub ip_addresses: Vec<IpAddr>,
    /// The group of a person, carried as the organization of the subject.
    pub group: Option<String>,
}

impl IssueRequest {
    pub fn new(role: Role, name: impl Into<String>) -> Self {
        Self {
            role,
            name: name.into(),
            dns_names: Vec::new(),
            ip_addresses: Vec::new(),
            group: None,
        }
    }

    #[must_use]
    pub fn group(mut self, group: impl Into<String>) -> Self {
        self.group = Some(group.into());
        self
    }

    #[must_use]
    pub fn dns(mut self, name: impl Into<String>) -> Self {
        self.dns_names.push(name.into());
        self
    }

    #[must_use]
    pub fn ip(mut self, address: impl Into<IpAddr>) -> Self {
        self.ip_addresses.push(address.into());
        self
    }
}

pub(super) fn authority(
    trust_domain: &TrustDomain,
    validity: Validity,
) -> Result<CertificateParams, AuthorityError> {
    // A number of its own, so that two authorities of one trust domain are told apart by name: a
    // peer of the other one is then refused as "unknown issuer" rather than "bad signature".
    let name = format!("Orrery authority {:08x}", rand::random::<u32>());
    let mut params = common(&name, validity)?;
    // One below, because a successor is vouched for by its predecessor.
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(1));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    params.subject_alt_names = vec![uri(&format!("spiffe://{trust_domain}"))?];
    Ok(params)
}

pub(super) fn peer(
    id: &SpiffeId,
    request: &IssueRequest,
    validity: Validity,
) -> Result<CertificateParams, AuthorityError> {
    let oim = request.role.oim_name(&request.name);
    let mut params = common(oim.as_deref().unwrap_or(&request.name), validity)?;
    // Explicit, because only then are CA:FALSE and the subject key identifier written.
    params.is_ca = IsCa::ExplicitNoCa;
    if let Some(group) = &request.group {
        params.distinguished_name.push(DnType::OrganizationName, group.as_str());
    }
    params.use_authority_key_identifier_extension = true;
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.extended_key_usages =
        vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
    params.subject_alt_names = alternative_names(id, oim, request)?;
    Ok(params)
}

fn alternative_names(
    id: &SpiffeId,
    oim: Option<String>,
    request: &IssueRequest,
) -> Result<Vec<SanType>, AuthorityError> {
    let mut names = vec![uri(&id.to_string())?];
    for name in oim.iter().chain(&request.dns_names) {
        names.push(SanType::DnsName(name.as_str().try_into()?));
    }
    names.extend(request.ip_addresses.iter().copied().map(SanType::IpAddress));
    Ok(names)
}

fn uri(text: &str) -> Result<SanType, AuthorityError> {
    Ok(SanType::URI(text.try_into()?))
}

/// A common name that does not fit is left out: the SPIFFE id is the one that counts.
fn common(common_name: &str, validity: Validity) -> Result<CertificateParams, AuthorityError> {
    let mut params = CertificateParams::default();
    (params.not_before, params.not_after) = validity.instants()?;
    params.serial_number = Some(serial_number());
    params.distinguished_name = rcgen::DistinguishedName::new();
    params.distinguished_name.push(DnType::OrganizationName, ORGANIZATION);
    if common_name.chars().count() <= COMMON_NAME_CHARS_MAX {
        params.distinguished_name.push(DnType::CommonName, common_name);
    }
    Ok(params)
}

/// Random, so that it tells certificates apart without a counter to keep; the highest bits make it
/// positive and of full length in DER.
pub(super) fn serial_number() -> SerialNumber {
    let mut bytes: [u8; 16] = rand::random();
    bytes[0] = (bytes[0] & 0x7f) | 0x40;
    SerialNumber::from_slice(&bytes)
}
