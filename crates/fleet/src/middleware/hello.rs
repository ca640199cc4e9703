//! The first message: who may connect.
use super::peer::Peer;
use orrery_pki::Role;
use orrery_proto::fleet::v1::{AgentHello, CommanderHello};

/// The version of this build: what we say in our hello, and what we hold others against.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Longest name of an agent or commander; fits a DNS label, because it names a resource.
pub const NAME_MAX: usize = 63;

/// Why a connection is refused. The texts are for the person who started the client.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    #[error("the first message must be {expected}")]
    NoHello { expected: &'static str },
    #[error(
        "no version in the hello; this server is {VERSION} and talks to clients of the same version line only"
    )]
    NoVersion,
    #[error(
        "unsupported version {theirs}: this server is {VERSION}; install a client of the same version line"
    )]
    UnsupportedVersion { theirs: String },
    #[error(
        "bad name {name:?}: use up to {NAME_MAX} lower-case letters, digits and dashes, starting and ending with a letter or digit"
    )]
    BadName { name: String },
    #[error("the certificate of this connection is not for {role} {name:?}")]
    NotYou { role: Role, name: String },
    #[error("{name:?} is connected with another certificate; stop the other one first")]
    NameTaken { name: String },
    #[error(
        "another agent named {name:?} is connected, with a data folder of its own on host {hostname:?}; stop that one, or start this one with another --name"
    )]
    OtherAgent { name: String, hostname: String },
    #[error("the server cannot take the connection now: {message}")]
    NotNow { message: String },
}

/// Checks an agent's hello.
pub fn check_agent(peer: &Peer, hello: &AgentHello) -> Result<(), Refusal> {
    check_version(&hello.version)?;
    check_name(&hello.name)?;
    if !peer.may_be(Role::Agent, &hello.name) {
        return Err(Refusal::NotYou { role: Role::Agent, name: hello.name.clone() });
    }
    Ok(())
}

/// Checks a commander's hello. Commanders are people and their programs; the name is only that of
/// the connection.
pub fn check_commander(peer: &Peer, hello: &CommanderHello) -> Result<(), Refusal> {
    check_version(&hello.version)?;
    check_name(&hello.name)?;
    if !peer.has_role(Role::User) {
        return Err(Refusal::NotYou { role: Role::User, name: hello.name.clone() });
    }
    Ok(())
}

/// Two builds understand each other when their versions are of one line: the same major version,
/// and before 1.0 the same minor version.
pub fn check_version(theirs: &str) -> Result<(), Refusal> {
    if theirs.is_empty() {
        return Err(Refusal::NoVersion);
    }
    let unsupported = || Refusal::UnsupportedVersion { theirs: clip(theirs) };
    let line = |text: &str| {
        let version = semver::Version::parse(text).ok()?;
        Some((version.major, if version.major == 0 { version.minor } else { 0 }))
    };
    match (line(theirs), line(VERSION)) {
        (Some(theirs), Some(ours)) if theirs == ours => Ok(()),
        (Some(_) | None, _) => Err(unsupported()),
    }
}

fn check_name(name: &str) -> Result<(), Refusal> {
    if orrery_api::is_name(name) { Ok(()) } else { Err(Refusal::BadName { name: clip(name) }) }
}

/// What a peer sent is repeated to it only in part: it may be long.
fn clip(text: &str) -> String {
    text.chars().take(80).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(version: &str, good: bool) {
        assert_eq!(check_version(version).is_ok(), good, "{version:?}");
    }

    /// proves: AGT-06
    #[test]
    fn versions_of_one_line_understand_each_other() {
        check(VERSION, true);
        check("0.1.99", true);
        check("0.1.0-rc.1+build", true);
        check("0.2.0", false);
        check("1.1.0", false);
        check("", false);
        check("latest", false);
        assert_eq!(check_version(""), Err(Refusal::NoVersion));
    }

    #[test]
    fn names_are_dns_labels() {
        for good in ["a", "edge-1", "0", &"x".repeat(63)] {
            assert_eq!(check_name(good), Ok(()), "{good:?}");
        }
        for bad in ["", "-a", "a-", "A", "a@b c/../x", "a.b", "ä", &"x".repeat(64)] {
            assert!(check_name(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn an_encrypted_connection_must_prove_its_name() {
        let hello = AgentHello { name: "edge-1".into(), version: VERSION.into(), ..<_>::default() };
        let plain = Peer::default();
        let nameless = Peer { encrypted: true, ..Peer::default() };
        assert_eq!(check_agent(&plain, &hello), Ok(()));
        assert!(matches!(check_agent(&nameless, &hello), Err(Refusal::NotYou { .. })));
    }
}
