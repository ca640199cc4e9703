//! Joining: a machine with a token asks for a certificate.
//!
//! ```text
//!   secret fits? ── no ──> one answer for all that have no token
//!        │ yes
//!   not over, not used up, role and name fit, the request asks for nothing else ── no ──> why
//!        │ yes
//!   one use is taken ──> signed
//! ```
mod judge;

pub use judge::{JoinRefusal, pattern_fits};

use crate::access::Access;
use crate::authority::{Authorities, AuthorityProblem};
use judge::{Asking, judge};
use orrery_hub::{ApplyOptions, Clock, Error, Hub, ObjectName, Part, Precondition, Resources};
use orrery_pki::{CertificateRequest, Identity, IssueRequest, Role, SecretHash, Signed, Validity};
use orrery_proto::core::v1::{JoinToken, JoinTokenStatus};
use std::sync::Arc;
use std::time::Duration;

/// How long a certificate that a machine joined with is good for; it renews itself long before.
pub const LIFETIME_DEFAULT: Duration = Duration::from_secs(7 * 86_400);

/// How often the taking of a use is tried again because someone else joined at the same moment.
const ATTEMPTS_MAX: usize = 32;

/// Certificates for machines. Cheap to clone.
#[derive(Clone)]
pub struct Joining {
    authorities: Authorities,
    tokens: Resources<JoinToken>,
    access: Access,
    clock: Arc<dyn Clock>,
    lifetime: Duration,
}

/// What a machine asks for.
#[derive(Clone, Debug)]
pub struct Wanted {
    pub token: String,
    pub secret: Vec<u8>,
    pub role: String,
    pub name: String,
    /// PKCS#10, DER.
    pub request: Vec<u8>,
}

/// What a machine gets.
#[derive(Clone, Debug)]
pub struct Joined {
    pub signed: Signed,
    pub roots_pem: String,
}

impl Joining {
    pub fn new(
        hub: &Hub,
        authorities: Authorities,
        access: Access,
        lifetime: Duration,
    ) -> Result<Self, Error> {
        let (tokens, clock) = (hub.resources()?, hub.clock().clone());
        Ok(Self { authorities, tokens, access, clock, lifetime })
    }

    /// The first certificate of a machine.
    pub async fn join(&self, wanted: Wanted) -> Result<Joined, JoinRefusal> {
        let current = self.authorities.signer().map_err(off)?;
        let authority = current.authority().map_err(off)?;
        let role: Role = wanted.role.parse().map_err(|_| JoinRefusal::BadRole)?;
        let request = CertificateRequest::from_der(&wanted.request)?;
        let name = ObjectName::new("", wanted.token);
        for _ in 0..ATTEMPTS_MAX {
            let Some(token) = self.tokens.find(&name).await? else {
                return Err(JoinRefusal::NoToken("there is none of this name"));
            };
            let asking =
                Asking { secret: SecretHash::of(&wanted.secret), role, name: &wanted.name };
            judge(&token, &asking, self.clock.now())?;
            // Its certificate would be refused everywhere, and a use of the token be lost.
            if self.access.refuses_peer(role, &wanted.name) {
                return Err(JoinRefusal::Revoked { role, name: wanted.name });
            }
            request.check(authority.trust_domain(), role, &wanted.name)?;
            match self.take_use(&token, &wanted.name).await {
                Err(Error::Conflict { .. }) => continue,
                outcome => outcome?,
            }
            let issue = IssueRequest::new(role, &wanted.name);
            let signed = authority.sign(&request, &issue, self.validity())?;
            let roots_pem = current.roots_pem().to_owned();
            return Ok(Joined { signed, roots_pem });
        }
        Err(JoinRefusal::Busy)
    }

    /// The next certificate of a machine, for the key that it proved to hold by connecting.
    pub fn renew(&self, identity: &Identity, request: &[u8]) -> Result<Joined, JoinRefusal> {
        let current = self.authorities.signer().map_err(off)?;
        let authority = current.authority().map_err(off)?;
        let (Some(role), Some(name)) = (identity.role(), identity.name()) else {
            return Err(JoinRefusal::BadRole);
        };
        if !crate::authority::MACHINES.contains(&role) {
            return Err(JoinRefusal::BadRole);
        }
        let request = CertificateRequest::from_der(request)?;
        if request.key() != identity.key {
            return Err(JoinRefusal::OtherKey);
        }
        request.check(authority.trust_domain(), role, name)?;
        let signed = authority.sign(&request, &IssueRequest::new(role, name), self.validity())?;
        self.authorities.note_renewed(&signed.identity);
        Ok(Joined { signed, roots_pem: current.roots_pem().to_owned() })
    }

    fn validity(&self) -> Validity {
        Validity::starting(self.authorities.now(), self.lifetime)
    }

    /// Counts one use, if nobody else counted one since the token was read.
    async fn take_use(&self, token: &JoinToken, peer: &str) -> Result<(), Error> {
        let metadata = token.metadata.clone().unwrap_or_default();
        let revision = metadata.resource_version.parse().map_err(|_| {
            Error::Internal(format!("join token {} has no revision", metadata.name))
        })?;
        let used = token.status.as_ref().map_or(0, |status| status.used);
        let status = JoinTokenStatus {
            used: used + 1,
            last_peer: peer.to_owned(),
            last_used_at: Some(self.clock.now()),
        };
        let next =
            JoinToken { metadata: Some(metadata), status: Some(status), ..JoinToken::default() };
        let object = orrery_api::Object::from_typed(self.tokens.kind(), &next)
            .map_err(|error| Error::Internal(format!("cannot write a join token: {error}")))?;
        let options = ApplyOptions {
            precondition: Precondition::At(revision),
            part: Part::Status,
            ..ApplyOptions::default()
        };
        self.tokens.accessor().apply(object, options).await.map(|_| ())
    }
}

fn off(problem: AuthorityProblem) -> JoinRefusal {
    JoinRefusal::Off(problem.to_string())
}
