//! The parts that peers play.

use std::fmt;
use std::str::FromStr;

/// What a peer is, as its certificate states it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Role {
    /// A replica of the control plane.
    Server,
    /// A person, or a program that acts for one.
    User,
    /// Runs workloads on a node.
    Agent,
    /// Makes machines.
    Driver,
    /// An Envoy in front of a service instance.
    Proxy,
    /// A storage controller.
    Controller,
    /// A host that attaches volumes through its storage controller.
    Host,
}

/// A word that is not one of the roles.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "unknown role {0:?}; the roles are server, user, agent, driver, proxy, controller and host"
)]
pub struct UnknownRole(pub String);

impl Role {
    pub const ALL: [Self; 7] = [
        Self::Server,
        Self::User,
        Self::Agent,
        Self::Driver,
        Self::Proxy,
        Self::Controller,
        Self::Host,
    ];

    /// The word for it in a SPIFFE id and on the command line.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Server => "server",
            Self::User => "user",
            Self::Agent => "agent",
            Self::Driver => "driver",
            Self::Proxy => "proxy",
            Self::Controller => "controller",
            Self::Host => "host",
        }
    }

    /// The name by which peers of the storage manager know this one. It is carried as DNS name and
    /// common name beside the SPIFFE id, so that programs of the old contract accept our certificates.
    pub fn oim_name(self, name: &str) -> Option<String> {
        match self {
            Self::Server => Some("component.registry".to_owned()),
            Self::User => Some(format!("user.{name}")),
            Self::Controller => Some(format!("controller.{name}")),
            Self::Host => Some(format!("host.{name}")),
            Self::Agent | Self::Driver | Self::Proxy => None,
        }
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for Role {
    type Err = UnknownRole;

    fn from_str(word: &str) -> Result<Self, UnknownRole> {
        let found = Self::ALL.into_iter().find(|role| role.as_str() == word);
        found.ok_or_else(|| UnknownRole(word.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_role_reads_as_it_prints() {
        for role in Role::ALL {
            assert_eq!(role.to_string().parse(), Ok(role));
        }
    }

    #[test]
    fn other_words_are_no_role() {
        for word in ["", "Server", "servers", "admin", "agent ", "agent/x"] {
            assert_eq!(word.parse::<Role>(), Err(UnknownRole(word.to_owned())));
        }
    }
}
