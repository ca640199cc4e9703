//! The errors that a caller of the hub can tell apart.
use orrery_api::Violation;
use orrery_store::Revision;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("{kind} \"{name}\" not found{}", in_project(.project))]
    NotFound { kind: String, project: String, name: String },
    #[error("{kind} \"{name}\" already exists{}", in_project(.project))]
    AlreadyExists { kind: String, project: String, name: String },
    #[error("{kind} \"{name}\" is being deleted; wait until it is gone, then create it again")]
    BeingDeleted { kind: String, name: String },
    /// Someone else was faster; read again and repeat.
    #[error("{kind} \"{name}\" was changed meanwhile: {message}")]
    Conflict { kind: String, name: String, message: String },
    #[error("{kind} \"{name}\" is invalid: {}", summarize(.violations))]
    Invalid { kind: String, name: String, violations: Vec<Violation> },
    #[error("project \"{project}\" not found; create it first")]
    ProjectNotFound { project: String },
    #[error("project \"{project}\" is being deleted, so nothing new can be created in it")]
    ProjectTerminating { project: String },
    /// The history that was asked for is gone: list again.
    #[error("revision {requested} is too old, the oldest that is kept is {oldest}; list again")]
    Expired { requested: Revision, oldest: Revision },
    #[error("{0}")]
    BadRequest(String),
    #[error("{0}")]
    Forbidden(String),
    #[error("the request is too large: {0}")]
    TooLarge(String),
    /// The store cannot answer now; the same request may succeed later.
    #[error("store unavailable: {0}")]
    Unavailable(String),
    /// A stored object cannot be read: a person must look.
    #[error("internal error: {0}")]
    Internal(String),
}

impl Error {
    /// Whether the same request may succeed later, unchanged.
    pub fn retryable(&self) -> bool {
        match self {
            Self::Unavailable(_) | Self::Conflict { .. } => true,
            Self::NotFound { .. }
            | Self::AlreadyExists { .. }
            | Self::BeingDeleted { .. }
            | Self::Invalid { .. }
            | Self::ProjectNotFound { .. }
            | Self::ProjectTerminating { .. }
            | Self::Expired { .. }
            | Self::BadRequest(_)
            | Self::Forbidden(_)
            | Self::TooLarge(_)
            | Self::Internal(_) => false,
        }
    }

    /// One word for programs, in the words of the Kubernetes dialect.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::NotFound { .. } | Self::ProjectNotFound { .. } => "NotFound",
            Self::AlreadyExists { .. } | Self::BeingDeleted { .. } => "AlreadyExists",
            Self::Conflict { .. } => "Conflict",
            Self::Invalid { .. } => "Invalid",
            Self::ProjectTerminating { .. } | Self::Forbidden(_) => "Forbidden",
            Self::Expired { .. } => "Expired",
            Self::BadRequest(_) => "BadRequest",
            Self::TooLarge(_) => "RequestEntityTooLarge",
            Self::Unavailable(_) => "ServiceUnavailable",
            Self::Internal(_) => "InternalError",
        }
    }

    /// What is wrong with which field, where that is the cause.
    pub fn violations(&self) -> &[Violation] {
        if let Self::Invalid { violations, .. } = self { violations } else { &[] }
    }
}

fn in_project(project: &str) -> String {
    if project.is_empty() { String::new() } else { format!(" in project \"{project}\"") }
}

fn summarize(violations: &[Violation]) -> String {
    let each: Vec<String> =
        violations.iter().map(|v| format!("{}: {}", v.path, v.message)).collect();
    each.join("; ")
}
