//! Who a peer is, and what it may do.
//!
//! ```text
//!   StoredAuthority <── Authorities ──> signs: joins, renewals, the servers' own certificates
//!   JoinToken ───────── Joining: pure judgement, then one use is taken, then it is signed
//!   Role, RoleBinding ─┐
//!   Revocation ────────┼─ Access ──> decide(rules, subject, attributes)
//!   AccessToken ───────┘         └─> who a bearer is, who is refused at once
//! ```
//! Owns: the certificate authority that the servers share, who may join, what anybody may do.
//! Not in it: transports and TLS (the server's), certificates themselves (`pki`).
mod access;
pub mod authority;
pub mod decide;
pub mod joining;
pub mod revoked;
pub mod rules;

pub use access::{Access, LoginRefusal};
pub use authority::{Authorities, AuthorityProblem, Current};
pub use decide::{Attributes, Decision};
pub use joining::{JoinRefusal, Joining};
pub use rules::Rule;
