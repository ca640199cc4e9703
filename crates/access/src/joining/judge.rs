//! Whether a token is good for what is asked for: decided without touching anything.
use orrery_hub::Error;
use orrery_pki::{AuthorityError, RequestError, Role, SecretHash};
use orrery_proto::core::v1::JoinToken;
use prost_types::Timestamp;

/// Why a machine gets no certificate. The log is told all of it; the machine is told
/// [`JoinRefusal::told`], which says nothing to one that has no token.
#[derive(Debug, thiserror::Error)]
pub enum JoinRefusal {
    #[error("the join token is not good: {0}")]
    NoToken(&'static str),
    #[error("the join token has expired; create another one")]
    Expired,
    #[error("the join token was used as often as it may be; create another one")]
    UsedUp,
    #[error("the join token is for {role} {pattern:?}, not for {asked_role} {asked:?}")]
    NotForYou { role: String, pattern: String, asked_role: Role, asked: String },
    #[error("{0:?} is no name for a machine: use letters, digits, dots and dashes")]
    BadName(String),
    #[error("{role} {name:?} is disabled by a Revocation; delete that to let it join again")]
    Revoked { role: Role, name: String },
    #[error("only agents, drivers, proxies, controllers and hosts get certificates here")]
    BadRole,
    #[error("the certificate request is refused: {0}")]
    Request(#[from] RequestError),
    #[error("the certificate request is for another key than that of the certificate shown")]
    OtherKey,
    #[error("nobody can join here: {0}")]
    Off(String),
    #[error("too many machines join at once; try again")]
    Busy,
    #[error("the certificate cannot be made: {0}")]
    Authority(#[from] AuthorityError),
    #[error(transparent)]
    Hub(#[from] Error),
}

impl JoinRefusal {
    /// What the caller is told.
    pub fn told(&self) -> String {
        match self {
            // Whoever has no token learns nothing: not whether there is one of that name.
            Self::NoToken(_) => "the join token is not good here".to_owned(),
            Self::Hub(_) | Self::Authority(_) => "the server cannot sign now; try again".to_owned(),
            Self::Expired
            | Self::UsedUp
            | Self::NotForYou { .. }
            | Self::BadName(_)
            | Self::Revoked { .. }
            | Self::BadRole
            | Self::Request(_)
            | Self::OtherKey
            | Self::Off(_)
            | Self::Busy => self.to_string(),
        }
    }
}

/// What is asked of a token.
#[derive(Clone, Copy, Debug)]
pub(super) struct Asking<'a> {
    pub secret: SecretHash,
    pub role: Role,
    pub name: &'a str,
}

/// The secret comes first: what else is wrong is told only to those who have it.
pub(super) fn judge(
    token: &JoinToken,
    asking: &Asking<'_>,
    now: Timestamp,
) -> Result<(), JoinRefusal> {
    let spec = token.spec.clone().unwrap_or_default();
    if SecretHash::parse(spec.secret_hash()) != Some(asking.secret) {
        return Err(JoinRefusal::NoToken("its secret is wrong"));
    }
    let deleted = token.metadata.as_ref().is_some_and(|meta| meta.deletion_timestamp.is_some());
    if deleted {
        return Err(JoinRefusal::NoToken("it is being deleted"));
    }
    if spec.expires_at.is_some_and(|end| (end.seconds, end.nanos) <= (now.seconds, now.nanos)) {
        return Err(JoinRefusal::Expired);
    }
    let used = token.status.as_ref().map_or(0, |status| status.used);
    if spec.uses.is_some_and(|uses| uses <= used) {
        return Err(JoinRefusal::UsedUp);
    }
    if spec.role() != asking.role.as_str() || !pattern_fits(spec.peer(), asking.name) {
        return Err(JoinRefusal::NotForYou {
            role: spec.role().to_owned(),
            pattern: spec.peer().to_owned(),
            asked_role: asking.role,
            asked: asking.name.to_owned(),
        });
    }
    if !is_name(asking.name) {
        return Err(JoinRefusal::BadName(asking.name.chars().take(80).collect()));
    }
    Ok(())
}

/// Names are names of resources too, and parts of SPIFFE ids and DNS names.
fn is_name(name: &str) -> bool {
    let label = |label: &str| {
        let inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
        (1..=63).contains(&label.len())
            && label.bytes().all(inner)
            && !label.starts_with('-')
            && !label.ends_with('-')
    };
    name.len() <= 253 && name.split('.').all(label)
}

/// Whether a name fits a pattern, in which a star stands for any letters, also none.
pub fn pattern_fits(pattern: &str, name: &str) -> bool {
    let mut parts = pattern.split('*');
    let first = parts.next().unwrap_or_default();
    let Some(mut rest) = name.strip_prefix(first) else { return false };
    let mut parts: Vec<&str> = parts.collect();
    let Some(last) = parts.pop() else { return rest.is_empty() };
    for part in parts {
        let Some(at) = rest.find(part) else { return false };
        rest = &rest[at + part.len()..];
    }
    rest.ends_with(last)
}

#[cfg(test)]
mod tests;
