//! Who calls, and what that allows: one pure decision for the registry and the proxy.
use crate::ControllerId;

/// The peer of a connection, as its certificate names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Caller {
    /// There is no TLS on this listener, so nobody has a name and everything is allowed. Such a
    /// listener belongs on a loopback address, which is the composition root's rule to keep.
    Anyone,
    /// The names in the peer's certificate. It may do what any one of them may.
    Peer(Vec<Name>),
}

/// One name of a peer: `host.host-1`, or `spiffe://<trust domain>/host/host-1`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Name {
    /// `user.admin`.
    Admin,
    /// `controller.<id>`.
    Controller(String),
    /// `host.<id>`.
    Host(String),
    /// `component.registry`, which is also what our own servers are (`spiffe://.../server/...`).
    Registry,
    /// Well formed, but of no meaning here.
    Other(String),
}

/// What a caller wants to do.
#[derive(Clone, Copy, Debug)]
pub enum Action<'a> {
    /// Add, replace or remove the entry of a controller.
    Register(&'a ControllerId),
    List,
    /// Have a call forwarded to a controller.
    Reach(&'a ControllerId),
}

#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("{caller} may not {action}")]
pub struct Denied {
    caller: String,
    action: String,
}

impl Name {
    /// Reads a DNS name. The id is everything after the first dot, since ids may have dots.
    pub fn from_dns(name: &str) -> Self {
        match name.split_once('.') {
            Some(("user", "admin")) => Self::Admin,
            Some(("component", "registry")) => Self::Registry,
            Some(("controller", id)) => Self::Controller(id.to_owned()),
            Some(("host", id)) => Self::Host(id.to_owned()),
            _ => Self::Other(name.to_owned()),
        }
    }

    /// Reads a SPIFFE id, or nothing if the URI is of another kind.
    pub fn from_uri(uri: &str) -> Option<Self> {
        let (_, path) = uri.strip_prefix("spiffe://")?.split_once('/')?;
        Some(match path.split_once('/') {
            Some(("user", "admin")) => Self::Admin,
            Some(("server", _)) => Self::Registry,
            Some(("controller", id)) => Self::Controller(id.to_owned()),
            Some(("host", id)) => Self::Host(id.to_owned()),
            _ => Self::Other(uri.to_owned()),
        })
    }

    fn may(&self, action: Action<'_>) -> bool {
        match (self, action) {
            (Self::Other(_), _) => false,
            (_, Action::List) | (Self::Admin, Action::Register(_)) => true,
            (Self::Controller(own), Action::Register(id))
            | (Self::Host(own), Action::Reach(id)) => own == id.as_str(),
            (Self::Admin | Self::Controller(_) | Self::Registry, Action::Reach(_))
            | (Self::Host(_) | Self::Registry, Action::Register(_)) => false,
        }
    }
}

impl Caller {
    pub fn authorize(&self, action: Action<'_>) -> Result<(), Denied> {
        let allowed = match self {
            Self::Anyone => true,
            Self::Peer(names) => names.iter().any(|name| name.may(action)),
        };
        if allowed { Ok(()) } else { Err(self.denied(action)) }
    }

    fn denied(&self, action: Action<'_>) -> Denied {
        let action = match action {
            Action::Register(id) => format!("register the controller {id}"),
            Action::List => "list the controllers".to_owned(),
            Action::Reach(id) => format!("reach the controller {id}"),
        };
        Denied { caller: self.to_string(), action }
    }
}

impl std::fmt::Display for Caller {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self::Peer(names) = self else { return out.write_str("anyone") };
        let names: Vec<String> = names.iter().map(Name::to_string).collect();
        out.write_str(if names.is_empty() { "a peer without a name" } else { "" })?;
        out.write_str(&names.join(", "))
    }
}

impl std::fmt::Display for Name {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Admin => out.write_str("user.admin"),
            Self::Registry => out.write_str("component.registry"),
            Self::Controller(id) => write!(out, "controller.{id}"),
            Self::Host(id) => write!(out, "host.{id}"),
            Self::Other(name) => out.write_str(name),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Action, Caller, Name};
    use crate::ControllerId;

    /// One line is one caller: may it register a and b, list, reach a and b?
    #[track_caller]
    fn check(names: &[&str], expect: &str) {
        let read = |name: &&str| Name::from_uri(name).unwrap_or_else(|| Name::from_dns(name));
        let caller = Caller::Peer(names.iter().map(read).collect());
        assert_eq!(allowed(&caller), expect, "{names:?}");
    }

    fn allowed(caller: &Caller) -> String {
        let (a, b) = (ControllerId::parse("a").unwrap(), ControllerId::parse("b").unwrap());
        [
            ("register-a", Action::Register(&a)),
            ("register-b", Action::Register(&b)),
            ("list", Action::List),
            ("reach-a", Action::Reach(&a)),
            ("reach-b", Action::Reach(&b)),
        ]
        .into_iter()
        .filter(|(_, action)| caller.authorize(*action).is_ok())
        .map(|(name, _)| name)
        .collect::<Vec<_>>()
        .join(" ")
    }

    /// proves: VOL-09
    #[test]
    fn names_decide_what_is_allowed() {
        check(&["user.admin"], "register-a register-b list");
        check(&["controller.a"], "register-a list");
        check(&["host.a"], "list reach-a");
        check(&["component.registry"], "list");
        check(&["user.bob"], "");
        check(&["host.c"], "list");
        check(&["host"], "");
        check(&[], "");
        check(&["host.a", "controller.b"], "register-b list reach-a");
        check(&["spiffe://example/user/admin"], "register-a register-b list");
        check(&["spiffe://example/controller/a"], "register-a list");
        check(&["spiffe://example/host/b"], "list reach-b");
        check(&["spiffe://example/server/one"], "list");
        check(&["spiffe://example/agent/a"], "");
        check(&["controller.a.b"], "list");
    }

    /// proves: VOL-09
    #[test]
    fn without_tls_everything_is_allowed() {
        assert_eq!(allowed(&Caller::Anyone), "register-a register-b list reach-a reach-b");
    }

    #[test]
    fn a_refusal_names_caller_and_wish() {
        let id = ControllerId::parse("host-1").unwrap();
        let caller = Caller::Peer(vec![Name::from_dns("host.host-2")]);
        let denied = caller.authorize(Action::Reach(&id)).unwrap_err();
        assert_eq!(denied.to_string(), "host.host-2 may not reach the controller host-1");
    }
}
