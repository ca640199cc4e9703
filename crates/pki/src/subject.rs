//! Whom a request comes from, however it was proven.
use crate::identity::{Fingerprint, Identity};
use crate::role::Role;

/// Members may do everything. It cannot be bound away, so nobody locks themselves out.
pub const ADMINS: &str = "orrery:admins";
/// How those are called of whom nothing is known.
const ANONYMOUS: &str = "system:anonymous";
/// Everybody who is known.
const AUTHENTICATED: &str = "system:authenticated";
const UNAUTHENTICATED: &str = "system:unauthenticated";
/// Everybody who is a person, or a program that acts for one.
const USERS: &str = "orrery:user";

/// How a subject was proven.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KnownBy {
    /// A plain connection, which is taken on loopback only or where the operator said so.
    Plain,
    Certificate,
    Token,
    Oidc,
    /// Somebody else, who may ask as this one, said so.
    Impersonation,
    /// An encrypted connection without any proof.
    Nothing,
}

impl KnownBy {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Plain => "loopback",
            Self::Certificate => "certificate",
            Self::Token => "token",
            Self::Oidc => "oidc",
            Self::Impersonation => "impersonation",
            Self::Nothing => "nothing",
        }
    }
}

/// A person, a program that acts for one, or a machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Subject {
    pub name: String,
    pub groups: Vec<String>,
    /// The part that a machine plays; [`Role::User`] for people.
    pub role: Option<Role>,
    pub known_by: KnownBy,
    /// What they have shown, where that was a certificate.
    pub certificate: Option<Fingerprint>,
}

impl Subject {
    /// Somebody on a connection that proves nothing and needs not to.
    pub fn plain() -> Self {
        Self::nobody(KnownBy::Plain)
    }

    /// Somebody who should have proven who they are.
    pub fn unknown() -> Self {
        Self::nobody(KnownBy::Nothing)
    }

    fn nobody(known_by: KnownBy) -> Self {
        let groups = vec![UNAUTHENTICATED.to_owned()];
        Self { name: ANONYMOUS.to_owned(), groups, role: None, known_by, certificate: None }
    }

    /// From a certificate that a handshake has verified. One that names no peer of ours is nobody's.
    pub fn of_certificate(identity: &Identity) -> Self {
        let (Some(role), Some(name)) = (identity.role(), identity.name()) else {
            return Self::unknown();
        };
        let own = [format!("orrery:{}", role.as_str()), AUTHENTICATED.to_owned()];
        // Only people are in groups: a machine's rules are fixed.
        let groups = identity.groups.iter().filter(|_| role == Role::User).cloned();
        Self {
            name: name.to_owned(),
            groups: groups.chain(own).collect(),
            role: Some(role),
            known_by: KnownBy::Certificate,
            certificate: Some(identity.fingerprint),
        }
    }

    /// A person who was proven by other means than a certificate.
    pub fn person(name: String, groups: Vec<String>, known_by: KnownBy) -> Self {
        let own = [USERS.to_owned(), AUTHENTICATED.to_owned()];
        let groups = groups.into_iter().chain(own).collect();
        Self { name, groups, role: Some(Role::User), known_by, certificate: None }
    }

    /// Somebody as whom another asks. Whoever is known is in the groups of those who are known, named or not;
    /// nobody is in none but those that are named.
    pub fn impersonated(name: String, groups: Vec<String>) -> Self {
        let known_by = KnownBy::Impersonation;
        if name == ANONYMOUS {
            let own = Self::nobody(known_by).groups;
            let groups = own.into_iter().chain(groups.into_iter().filter(|g| g != UNAUTHENTICATED));
            return Self { groups: groups.collect(), ..Self::nobody(known_by) };
        }
        let own = |group: &String| group == USERS || group == AUTHENTICATED;
        Self::person(name, groups.into_iter().filter(|group| !own(group)).collect(), known_by)
    }

    pub fn is_in(&self, group: &str) -> bool {
        self.groups.iter().any(|own| own == group)
    }
}
