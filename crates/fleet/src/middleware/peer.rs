//! Who is at the other end of a connection.
use orrery_pki::{Identity, Role, Subject};
use std::collections::BTreeMap;
use std::net::SocketAddr;

/// A connected peer, as its transport knows it.
#[derive(Clone, Debug, Default)]
pub struct Peer {
    /// From its certificate; absent on plain connections, which are taken on loopback only or
    /// where the operator said so.
    pub identity: Option<Identity>,
    /// True when the connection is encrypted, so that an identity can be demanded.
    pub encrypted: bool,
    /// Who it is by a token, which counts more than the certificate of the connection.
    pub login: Option<Subject>,
    /// Set where the login is somebody as whom the peer asks, and not the peer itself.
    pub impersonation: Option<Box<Impersonation>>,
    pub address: Option<SocketAddr>,
    /// What its program calls itself; empty when it does not say.
    pub user_agent: String,
    /// The trace that the request at hand belongs to; empty without one.
    pub trace_parent: String,
}

/// Who it is that asks as somebody else, and what was said of that one beside the name and the groups.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Impersonation {
    pub asker: Subject,
    pub uid: String,
    pub extra: BTreeMap<String, Vec<String>>,
}

/// Bytes of what a program calls itself that are kept.
const USER_AGENT_MAX: usize = 256;

impl Peer {
    /// The same peer, as the headers of a request describe it.
    #[must_use]
    pub fn described<'a>(mut self, header: impl Fn(&str) -> Option<&'a str>) -> Self {
        let agent = header("user-agent").unwrap_or_default();
        self.user_agent = agent.chars().take(USER_AGENT_MAX).collect();
        header("traceparent").unwrap_or_default().clone_into(&mut self.trace_parent);
        self
    }

    /// Whether this peer may call itself `name` in `role`. On an encrypted connection the
    /// certificate says so; on a plain one there is nothing that could.
    pub fn may_be(&self, role: Role, name: &str) -> bool {
        match &self.identity {
            Some(identity) => identity.role() == Some(role) && identity.name() == Some(name),
            None => !self.encrypted,
        }
    }

    /// Whether this peer may act in `role` under any name.
    pub fn has_role(&self, role: Role) -> bool {
        match (&self.login, &self.identity) {
            (Some(login), _) => login.role == Some(role),
            (None, Some(identity)) => identity.role() == Some(role),
            (None, None) => !self.encrypted,
        }
    }

    /// Whether something says who it is, or nothing needs to.
    pub fn is_known(&self) -> bool {
        match (&self.login, &self.identity) {
            (Some(_), _) => true,
            // One that names no peer of ours is nobody's.
            (None, Some(identity)) => identity.role().is_some() && identity.name().is_some(),
            (None, None) => !self.encrypted,
        }
    }

    /// Who sends its requests, whoever they are for.
    pub fn asker(&self) -> Subject {
        match &self.impersonation {
            Some(impersonation) => impersonation.asker.clone(),
            None => self.subject(),
        }
    }

    /// The same peer, asking as somebody else.
    #[must_use]
    pub fn asking_as(self, subject: Subject, impersonation: Impersonation) -> Self {
        Self { login: Some(subject), impersonation: Some(Box::new(impersonation)), ..self }
    }

    /// For whom its requests are: what that one may do is done.
    pub fn subject(&self) -> Subject {
        match (&self.login, &self.identity) {
            (Some(login), _) => login.clone(),
            (None, Some(identity)) => Subject::of_certificate(identity),
            (None, None) if self.encrypted => Subject::unknown(),
            (None, None) => Subject::plain(),
        }
    }
}
