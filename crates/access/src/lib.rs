//! Who a peer is, and what it may do.
//!
//! ```text
//!   StoredAuthority <── Authorities ──> signs: joins, renewals, the servers' own certificates
//!   JoinToken ───────── Joining: pure judgement, then one use is taken, then it is signed
//!   Role, RoleBinding ─┐
//!   Revocation ────────┼─ Access ──> decide(rules, subject, attributes)
//!   AccessToken, OIDC ─┘         └─> who a bearer is, who is refused at once
//! ```
//! Nobody gives away more than they have: [`grant`].
//!
//! Owns: the certificate authority that the servers share, who may join, what anybody may do.
//! Not in it: transports and TLS (the server's), certificates themselves (`pki`).
mod access;
pub mod authority;
pub mod decide;
pub mod grant;
pub mod joining;
pub mod oidc;
mod present;
pub mod revoked;
pub mod rules;

pub use access::{AUDIENCE, Access, Acting, Changes, Login, LoginRefusal, Over};
pub use authority::{Authorities, AuthorityProblem, Current};
pub use decide::{Attributes, Decision};
pub use grant::{Excess, gives_access};
pub use joining::{JoinRefusal, Joining};
pub use present::{Present, Stay};
pub use rules::Rule;

use orrery_api::{Object, Reason, SchemeBuilder, Violation};
use orrery_proto::core::v1::Revocation;

/// What our kinds must be like beyond what their definitions say.
pub fn rules_of_kinds(scheme: SchemeBuilder) -> SchemeBuilder {
    scheme.validator("orrery.core.v1.Revocation", revocation)
}

fn revocation(object: &Object, _old: Option<&Object>) -> Vec<Violation> {
    // What cannot be read as a revocation has been refused by then, with its own words.
    let Ok(revocation) = object.typed::<Revocation>() else { return Vec::new() };
    let problem = revoked::problem(&revocation);
    problem.map(|why| Violation::new("spec".to_owned(), Reason::Invalid, why)).into_iter().collect()
}
