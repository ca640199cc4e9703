//! What can go wrong with kinds: at registration, at lookup and at reading.
use crate::json::DecodeError;

/// A definition or registration that cannot be kept.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RegistrationError {
    #[error("descriptor set cannot be read: {0}")]
    Descriptors(String),
    #[error("{place}: {problem}")]
    Definition { place: String, problem: String },
    #[error("{what} {name:?} is registered by {first} and by {second}")]
    Duplicate { what: &'static str, name: String, first: String, second: String },
    #[error("{what} is registered for {name}, which is not a kind of this scheme")]
    UnknownKind { what: &'static str, name: String },
    #[error("a defaulter is registered for {0}, which is a spoke: only hub kinds have defaults")]
    DefaulterOfSpoke(String),
    #[error("{0} is a spoke and has no convertor")]
    NoConvertor(String),
    #[error("{0} has a convertor and is not a spoke: say spoke_of in its definition")]
    NotASpoke(String),
    #[error("convertor of {name} cannot start: {problem}")]
    Convertor { name: String, problem: String },
    #[error("group suffix {0:?} must be a domain name such as \"orrery.dev\"")]
    Suffix(String),
}

/// Everything that is wrong with a registration.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("kinds cannot be registered: {}", join(.problems))]
pub struct SchemeError {
    pub problems: Vec<RegistrationError>,
}

fn join(problems: &[RegistrationError]) -> String {
    problems.iter().map(RegistrationError::to_string).collect::<Vec<_>>().join("; ")
}

/// A name that does not lead to exactly one kind.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ResolveError {
    #[error("no kind is called {name:?}{}{hint}", in_version(.api_version))]
    Unknown {
        name: String,
        api_version: String,
        /// Empty, or `, did you mean "..."?`.
        hint: String,
    },
    #[error("{name:?} is the name of several kinds: say {}", .candidates.join(" or "))]
    Ambiguous { name: String, candidates: Vec<String> },
    #[error("{kind} is not in apiVersion {api_version:?}: it is in {}", .served.join(" and "))]
    WrongVersion { kind: String, api_version: String, served: Vec<String> },
}

fn in_version(api_version: &str) -> String {
    if api_version.is_empty() {
        return String::new();
    }
    format!(" in apiVersion {api_version:?}")
}

/// A resource that cannot be read.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum ReadError {
    #[error("a resource must be an object with apiVersion, kind, metadata and spec, found {0}")]
    NotAnObject(String),
    #[error("{0} is missing: say which kind of resource this is")]
    MissingType(&'static str),
    #[error(transparent)]
    Kind(#[from] ResolveError),
    #[error(transparent)]
    Decode(#[from] DecodeError),
}
