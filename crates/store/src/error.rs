//! What can go wrong, told apart as far as a caller acts on it.

use std::{path::PathBuf, sync::Arc};

use crate::model::{Expect, Revision};

/// Why a read, a commit or a watch was not answered.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// An expectation did not hold. `actual` is the revision of the last change, `None` is absent.
    #[error("{key} is {}, expected {expected}", describe(.actual))]
    Conflict { key: Arc<str>, expected: Expect, actual: Option<Revision> },
    /// The history before `oldest` is gone: list again and watch from there.
    #[error("revision {requested} was compacted, the oldest left is {oldest}; list again")]
    Compacted { requested: Revision, oldest: Revision },
    /// The caller knows a revision that this store has not reached; it spoke to another store.
    #[error("revision {requested} is in the future, the store is at {current}")]
    FutureRevision { requested: Revision, current: Revision },
    #[error("invalid request: {reason}")]
    Invalid { reason: String },
    #[error("the value of {key} has {bytes} bytes, the limit is {limit}")]
    TooLarge { key: Arc<str>, bytes: usize, limit: usize },
    #[error("{count} operations in one commit, the limit is {limit}")]
    TooManyOperations { count: usize, limit: usize },
    /// The engine takes no more writes until a person has looked and it was opened again.
    #[error("the store takes no writes: {reason}")]
    Unavailable { reason: Arc<str> },
    /// The engine is elsewhere and does not answer now.
    #[error("the store cannot be reached: {reason}")]
    Unreachable { reason: String },
    /// The commit was sent and its answer lost: it may have happened. Read before repeating it.
    #[error("the outcome of the commit is unknown: {reason}")]
    Uncertain { reason: String },
    #[error("{what} is corrupt: {detail}")]
    Corrupt { what: String, detail: String },
}

impl Error {
    /// Whether the same request may succeed later, unchanged. Waiting is the caller's business.
    pub fn retryable(&self) -> bool {
        match self {
            Self::Unreachable { .. } => true,
            Self::Conflict { .. } | Self::Compacted { .. } | Self::FutureRevision { .. } => false,
            Self::Invalid { .. } | Self::TooLarge { .. } | Self::TooManyOperations { .. } => false,
            Self::Unavailable { .. } | Self::Uncertain { .. } | Self::Corrupt { .. } => false,
        }
    }

    pub(crate) fn invalid(reason: impl Into<String>) -> Self {
        Self::Invalid { reason: reason.into() }
    }

    pub(crate) fn unavailable(reason: impl Into<Arc<str>>) -> Self {
        Self::Unavailable { reason: reason.into() }
    }
}

fn describe(actual: &Option<Revision>) -> String {
    match actual {
        Some(revision) => format!("at revision {revision}"),
        None => "absent".to_owned(),
    }
}

/// Why an engine did not open, or a backup was not written or restored.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    #[error("{} is in use by another process{}; stop it first", path.display(), holder(.pid))]
    Locked { path: PathBuf, pid: Option<u32> },
    #[error(
        "{} was written in format {found}, this program knows formats up to {supported}; \
         use the newer program",
        path.display()
    )]
    NewerFormat { path: PathBuf, found: u32, supported: u32 },
    #[error("{} is not a store directory: {reason}", path.display())]
    NotAStore { path: PathBuf, reason: String },
    #[error("{} is not empty: {reason}", path.display())]
    NotEmpty { path: PathBuf, reason: String },
    #[error("cannot {step} {}: {source}", path.display())]
    Io { step: &'static str, path: PathBuf, source: std::io::Error },
    #[error("{} is corrupt: {detail}", path.display())]
    Corrupt { path: PathBuf, detail: String },
    #[error(transparent)]
    Store(#[from] Error),
}

fn holder(pid: &Option<u32>) -> String {
    pid.map(|pid| format!(" (process {pid})")).unwrap_or_default()
}
