//! The errors that a caller of the hub can tell apart.
use crate::ownership::FieldConflict;
use orrery_api::Violation;
use orrery_store::Revision;
use std::time::Duration;

#[derive(Clone, Debug, thiserror::Error)]
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
    /// Other managers hold fields that the declared ones would change.
    #[error("{}", in_conflict(.conflicts))]
    ApplyConflict { kind: String, name: String, conflicts: Vec<FieldConflict> },
    #[error("{kind} \"{name}\" is invalid: {}", summarize(.violations))]
    Invalid { kind: String, name: String, violations: Vec<Violation> },
    #[error("project \"{project}\" not found; create it first")]
    ProjectNotFound { project: String },
    #[error("project \"{project}\" is being deleted, so nothing new can be created in it")]
    ProjectTerminating { project: String },
    /// The history that was asked for is gone: list again. A list that was continued can go on with
    /// `resume`, if it need not be one of a single moment.
    #[error("revision {requested} is too old, the oldest that is kept is {oldest}; list again")]
    Expired { requested: Revision, oldest: Revision, resume: Option<String> },
    /// Whoever acted alone no longer may: its lease has ended, so nothing was written.
    #[error("the lease {lease:?} has ended, so another may act now; nothing was written")]
    Fenced { lease: String },
    #[error("{0}")]
    BadRequest(String),
    #[error("{0}")]
    Forbidden(String),
    #[error("the request is too large: {0}")]
    TooLarge(String),
    /// Somebody asks for more than their share; the same request succeeds later.
    #[error("{message}")]
    TooManyRequests { message: String, retry_after: Duration },
    /// The store cannot answer now; the same request may succeed later.
    #[error("store unavailable: {0}")]
    Unavailable(String),
    /// The store was asked to write and did not answer: it may have happened.
    #[error("it is not known whether this was done, so look before you repeat it: {0}")]
    Uncertain(String),
    /// The service that keeps the objects of a kind cannot answer now; the same request may succeed later.
    #[error("{kind} are kept at {upstream}, which cannot be asked now: {cause}")]
    Away { kind: String, upstream: String, cause: String },
    /// A stored object cannot be read: a person must look.
    #[error("internal error: {0}")]
    Internal(String),
}

impl Error {
    /// Whether the same request may succeed later, unchanged. After one of unknown outcome it may also find what it
    /// did itself.
    pub fn retryable(&self) -> bool {
        match self {
            Self::Unavailable(_)
            | Self::Uncertain(_)
            | Self::Away { .. }
            | Self::Conflict { .. }
            | Self::TooManyRequests { .. } => true,
            Self::NotFound { .. }
            | Self::AlreadyExists { .. }
            | Self::BeingDeleted { .. }
            | Self::ApplyConflict { .. }
            | Self::Invalid { .. }
            | Self::ProjectNotFound { .. }
            | Self::ProjectTerminating { .. }
            | Self::Expired { .. }
            | Self::Fenced { .. }
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
            Self::Conflict { .. } | Self::ApplyConflict { .. } | Self::Fenced { .. } => "Conflict",
            Self::Invalid { .. } => "Invalid",
            Self::ProjectTerminating { .. } | Self::Forbidden(_) => "Forbidden",
            Self::Expired { .. } => "Expired",
            Self::BadRequest(_) => "BadRequest",
            Self::TooLarge(_) => "RequestEntityTooLarge",
            Self::TooManyRequests { .. } => "TooManyRequests",
            Self::Unavailable(_) | Self::Away { .. } => "ServiceUnavailable",
            Self::Uncertain(_) => "Timeout",
            Self::Internal(_) => "InternalError",
        }
    }

    /// Which fields others hold, where that is the cause.
    pub fn conflicts(&self) -> &[FieldConflict] {
        if let Self::ApplyConflict { conflicts, .. } = self { conflicts } else { &[] }
    }

    /// What is wrong with which field, where that is the cause.
    pub fn violations(&self) -> &[Violation] {
        if let Self::Invalid { violations, .. } = self { violations } else { &[] }
    }
}

fn in_project(project: &str) -> String {
    if project.is_empty() { String::new() } else { format!(" in project \"{project}\"") }
}

/// In the words that clients of the Kubernetes dialect know.
fn in_conflict(conflicts: &[FieldConflict]) -> String {
    if let [only] = conflicts {
        let (owner, field) = (only.owner(), &only.field);
        return format!("Apply failed with 1 conflict: conflict with {owner}: {field}");
    }
    let mut text = format!("Apply failed with {} conflicts:", conflicts.len());
    let mut last = String::new();
    for conflict in conflicts {
        let owner = conflict.owner();
        if owner != last {
            text.push_str(&format!(
                "{}conflicts with {owner}:",
                if last.is_empty() { " " } else { "\n" }
            ));
            last = owner;
        }
        text.push_str(&format!("\n- {}", conflict.field));
    }
    text
}

fn summarize(violations: &[Violation]) -> String {
    let each: Vec<String> =
        violations.iter().map(|v| format!("{}: {}", v.path, v.message)).collect();
    each.join("; ")
}
