//! SPIFFE ids: `spiffe://<trust domain>/<role>/<name>`.
//!
//! The grammar is the one of the SPIFFE standard and nothing beyond it: no percent encoding, no empty
//! or dot segments, no port, query or fragment. So an id has one spelling, and comparing ids is
//! comparing strings.

use std::fmt;
use std::str::FromStr;

use crate::role::Role;

/// The standard asks for support of at least this much; nobody needs more.
const ID_BYTES_MAX: usize = 2048;
const TRUST_DOMAIN_BYTES_MAX: usize = 255;
const SCHEME: &str = "spiffe://";

/// Why a text is no SPIFFE id. The texts themselves come from peers and are bounded by the
/// certificate they came in, so they are safe to show, quoted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SpiffeError {
    #[error("{0:?} does not begin with spiffe://")]
    Scheme(String),
    #[error("a SPIFFE id is longer than {ID_BYTES_MAX} bytes")]
    TooLong,
    #[error(
        "trust domain {0:?} must be 1 to {TRUST_DOMAIN_BYTES_MAX} characters out of a-z, 0-9, '.', '-', '_'"
    )]
    TrustDomain(String),
    #[error(
        "path segment {0:?} must be made of letters, digits, '.', '-', '_' and must not be '.' or '..'"
    )]
    Segment(String),
}

/// The name of the world an authority speaks for; peers of another trust domain are strangers.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TrustDomain(String);

impl TrustDomain {
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for TrustDomain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromStr for TrustDomain {
    type Err = SpiffeError;

    fn from_str(text: &str) -> Result<Self, SpiffeError> {
        let allowed =
            |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b".-_".contains(&byte);
        let long_enough = (1..=TRUST_DOMAIN_BYTES_MAX).contains(&text.len());
        if !long_enough || !text.bytes().all(allowed) {
            return Err(SpiffeError::TrustDomain(text.to_owned()));
        }
        Ok(Self(text.to_owned()))
    }
}

/// Any well-formed SPIFFE id, ours or a stranger's; [`SpiffeId::peer`] tells which.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SpiffeId {
    trust_domain: TrustDomain,
    /// Without the leading slash; empty for an id that is a trust domain alone.
    path: String,
}

impl SpiffeId {
    /// The id of one of our peers.
    pub fn new(trust_domain: &TrustDomain, role: Role, name: &str) -> Result<Self, SpiffeError> {
        check_segment(name)?;
        let id = Self { trust_domain: trust_domain.clone(), path: format!("{role}/{name}") };
        if ID_BYTES_MAX < id.to_string().len() {
            return Err(SpiffeError::TooLong);
        }
        Ok(id)
    }

    pub fn trust_domain(&self) -> &TrustDomain {
        &self.trust_domain
    }

    pub fn path(&self) -> &str {
        &self.path
    }

    /// Role and name, if the path is exactly `<role>/<name>` with a role of ours.
    pub fn peer(&self) -> Option<(Role, &str)> {
        let (role, name) = self.path.split_once('/')?;
        if name.contains('/') {
            return None;
        }
        Some((role.parse().ok()?, name))
    }
}

impl fmt::Display for SpiffeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{SCHEME}{}", self.trust_domain)?;
        if self.path.is_empty() { Ok(()) } else { write!(f, "/{}", self.path) }
    }
}

impl FromStr for SpiffeId {
    type Err = SpiffeError;

    fn from_str(text: &str) -> Result<Self, SpiffeError> {
        if ID_BYTES_MAX < text.len() {
            return Err(SpiffeError::TooLong);
        }
        let rest = text.strip_prefix(SCHEME).ok_or_else(|| SpiffeError::Scheme(text.to_owned()))?;
        let (trust_domain, path) = match rest.split_once('/') {
            Some((trust_domain, path)) => (trust_domain, Some(path)),
            None => (rest, None),
        };
        let trust_domain = trust_domain.parse()?;
        for segment in path.iter().flat_map(|path| path.split('/')) {
            check_segment(segment)?;
        }
        Ok(Self { trust_domain, path: path.unwrap_or_default().to_owned() })
    }
}

fn check_segment(segment: &str) -> Result<(), SpiffeError> {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b".-_".contains(&byte);
    let dots = segment == "." || segment == "..";
    if segment.is_empty() || dots || !segment.bytes().all(allowed) {
        return Err(SpiffeError::Segment(segment.to_owned()));
    }
    Ok(())
}

#[cfg(test)]
mod tests;
