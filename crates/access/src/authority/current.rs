//! The authority as it was last read.
use super::AuthorityProblem;
use orrery_pki::{Authority, AuthorityError, Fingerprint, Identity, SpiffeId, TrustDomain};
use orrery_proto::core::v1::{StoredAuthority, StoredAuthoritySpec};
use orrery_proto::meta::v1::ObjectMeta;

/// Whom peers trust, and who signs.
#[derive(Debug)]
pub struct Current {
    revision: u64,
    roots_pem: String,
    fingerprint: Fingerprint,
    subject: Fingerprint,
    /// Of authorities that are trusted, and no longer sign.
    older: Vec<Fingerprint>,
    trust_domain: Option<TrustDomain>,
    signer: Signer,
}

#[derive(Debug)]
enum Signer {
    Authority(Box<Authority>),
    /// It was brought without its key.
    NoKey,
    Unusable(String),
}

impl Current {
    pub(super) fn open(stored: &StoredAuthority) -> Self {
        let spec = stored.spec.clone().unwrap_or_default();
        let revision = stored.metadata.as_ref().map(|meta| meta.resource_version.parse());
        let identity = Identity::of_pem(spec.certificate().as_bytes()).ok();
        let unreadable = Fingerprint::of(b"");
        let subject = identity.as_ref().map_or(unreadable, |identity| identity.subject);
        Self {
            older: subjects(spec.roots()).filter(|one| *one != subject).collect(),
            revision: revision.and_then(Result::ok).unwrap_or_default(),
            roots_pem: spec.roots().to_owned(),
            fingerprint: identity.as_ref().map_or(unreadable, |identity| identity.fingerprint),
            subject,
            trust_domain: spec.trust_domain().parse().ok(),
            signer: signer(&spec),
        }
    }

    /// The authority, if it can sign here.
    pub fn authority(&self) -> Result<&Authority, AuthorityProblem> {
        match &self.signer {
            Signer::Authority(authority) => Ok(authority),
            Signer::NoKey => Err(AuthorityProblem::NoKey),
            Signer::Unusable(why) => Err(AuthorityError::Unreadable(why.clone()).into()),
        }
    }

    /// Certificates that peers trust, PEM; the one of the authority that signs is first.
    pub fn roots_pem(&self) -> &str {
        &self.roots_pem
    }

    /// Of the certificate of the authority that signs: what join tokens carry.
    pub fn fingerprint(&self) -> Fingerprint {
        self.fingerprint
    }

    /// The domain that it signs for.
    pub fn trust_domain(&self) -> Option<&TrustDomain> {
        self.trust_domain.as_ref()
    }

    /// Whether this authority signed the certificate of a peer.
    pub fn has_signed(&self, identity: &Identity) -> bool {
        identity.issuer == self.subject
    }

    /// Whether the certificate of a peer is trusted until the rotation that is under way is finished.
    pub fn leaves(&self, identity: &Identity) -> bool {
        !self.has_signed(identity) && self.older.contains(&identity.issuer)
    }

    /// Whether authorities are trusted that no longer sign.
    pub fn is_rotating(&self) -> bool {
        !self.older.is_empty()
    }

    pub fn revision(&self) -> u64 {
        self.revision
    }
}

/// The subjects of certificates that stand one after the other.
fn subjects(certificates: &str) -> impl Iterator<Item = Fingerprint> {
    const END: &str = "-----END CERTIFICATE-----";
    let each = certificates.split_inclusive(END).filter(|one| one.ends_with(END));
    each.filter_map(|one| Some(Identity::of_pem(one.as_bytes()).ok()?.subject))
}

fn signer(spec: &StoredAuthoritySpec) -> Signer {
    let (certificate, key) = (spec.certificate(), spec.key());
    if key.is_empty() {
        return Signer::NoKey;
    }
    let unusable = |why: &dyn std::fmt::Display| Signer::Unusable(why.to_string());
    let domain = match spec.trust_domain().parse() {
        Ok(domain) => domain,
        Err(error) => return unusable(&error),
    };
    match Authority::from_pem(certificate, key, Some(domain)) {
        Ok(authority) => {
            let (chain, roots) = (spec.chain().to_owned(), spec.roots().to_owned());
            Signer::Authority(Box::new(authority.with_chain(chain, roots)))
        }
        Err(error) => unusable(&error),
    }
}

/// What the servers share of an authority.
pub(super) fn spec_of(authority: &Authority, roots: String) -> StoredAuthoritySpec {
    StoredAuthoritySpec {
        trust_domain: Some(authority.trust_domain().to_string()),
        certificate: Some(authority.certificate_pem().to_owned()),
        chain: Some(authority.chain_pem().to_owned()),
        key: Some(authority.key_pem().to_string()),
        roots: Some(roots),
    }
}

/// Of the certificate of the authority that signs.
pub(super) fn fingerprint(spec: &StoredAuthoritySpec) -> Result<Fingerprint, AuthorityError> {
    let identity = Identity::of_pem(spec.certificate().as_bytes());
    Ok(identity.map_err(|error| AuthorityError::Unreadable(error.to_string()))?.fingerprint)
}

/// An authority that only says whom to trust.
pub(super) fn without_key(
    certificate_pem: &str,
    domain: Option<TrustDomain>,
) -> Result<StoredAuthoritySpec, AuthorityError> {
    let identity = Identity::of_pem(certificate_pem.as_bytes())
        .map_err(|error| AuthorityError::Unreadable(error.to_string()))?;
    let own = identity.spiffe.as_ref().map(SpiffeId::trust_domain).cloned();
    let domain = domain.or(own).ok_or(AuthorityError::NoTrustDomain)?;
    Ok(StoredAuthoritySpec {
        trust_domain: Some(domain.to_string()),
        certificate: Some(certificate_pem.to_owned()),
        chain: None,
        key: None,
        roots: Some(certificate_pem.to_owned()),
    })
}

pub(super) fn stored(metadata: ObjectMeta, spec: StoredAuthoritySpec) -> StoredAuthority {
    StoredAuthority { metadata: Some(metadata), spec: Some(spec), ..StoredAuthority::default() }
}
