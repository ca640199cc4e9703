//! The errors that a caller of a storage controller can tell apart, and their gRPC codes.
use std::io;
use tonic::{Code, Status};

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("{0}")]
    Invalid(String),
    #[error("there is no {what} {name}")]
    NotFound { what: &'static str, name: String },
    /// The same, in the words of a controller elsewhere.
    #[error("{0}")]
    Missing(String),
    #[error("{0}")]
    Conflict(String),
    #[error("{0}")]
    InUse(String),
    #[error("{0}")]
    Unsupported(String),
    #[error("{0}")]
    OutOfRange(String),
    #[error("{0}")]
    Exhausted(String),
    #[error("{0}")]
    Unavailable(String),
    #[error("{0}")]
    Pending(String),
    #[error("{0}")]
    Deadline(String),
    #[error("{0}")]
    Lost(String),
    #[error("{0}")]
    Denied(String),
    #[error("cannot {doing}: {source}")]
    Io { doing: String, source: io::Error },
}

pub type Result<T, E = Error> = std::result::Result<T, E>;

impl Error {
    pub fn not_found(what: &'static str, name: impl Into<String>) -> Self {
        Self::NotFound { what, name: name.into() }
    }

    /// Says what was being done when the system refused. Running out of something gets the code that
    /// callers know to wait for.
    pub fn io(doing: impl Into<String>, source: io::Error) -> Self {
        use io::ErrorKind::{OutOfMemory, QuotaExceeded, StorageFull};
        let doing = doing.into();
        if matches!(source.kind(), StorageFull | OutOfMemory | QuotaExceeded) {
            return Self::Exhausted(format!("cannot {doing}: {source}"));
        }
        Self::Io { doing, source }
    }

    pub fn code(&self) -> Code {
        match self {
            Self::Invalid(_) => Code::InvalidArgument,
            Self::NotFound { .. } | Self::Missing(_) => Code::NotFound,
            Self::Conflict(_) => Code::AlreadyExists,
            Self::InUse(_) | Self::Unsupported(_) => Code::FailedPrecondition,
            Self::OutOfRange(_) => Code::OutOfRange,
            Self::Exhausted(_) => Code::ResourceExhausted,
            Self::Unavailable(_) => Code::Unavailable,
            Self::Pending(_) => Code::Aborted,
            Self::Deadline(_) => Code::DeadlineExceeded,
            Self::Lost(_) => Code::DataLoss,
            Self::Denied(_) => Code::PermissionDenied,
            Self::Io { .. } => Code::Internal,
        }
    }
}

impl From<Error> for Status {
    fn from(error: Error) -> Self {
        Self::new(error.code(), error.to_string())
    }
}

/// What a remote controller answered, as the error it was there. Codes that no [`Error`] has (a
/// proxy's `Unimplemented`, a cancelled call) mean that the controller could not be asked.
impl From<Status> for Error {
    #[allow(clippy::wildcard_enum_match_arm, reason = "the codes are gRPC's, not ours")]
    fn from(status: Status) -> Self {
        let message = status.message().to_owned();
        match status.code() {
            Code::InvalidArgument => Self::Invalid(message),
            Code::NotFound => Self::Missing(message),
            Code::AlreadyExists => Self::Conflict(message),
            Code::FailedPrecondition => Self::InUse(message),
            Code::OutOfRange => Self::OutOfRange(message),
            Code::ResourceExhausted => Self::Exhausted(message),
            Code::Aborted => Self::Pending(message),
            Code::DeadlineExceeded => Self::Deadline(message),
            Code::DataLoss => Self::Lost(message),
            Code::PermissionDenied => Self::Denied(message),
            // Whoever answers says a code; without an answer there is the reason of the connection.
            Code::Unavailable if std::error::Error::source(&status).is_some() => {
                Self::Unavailable(format!("the storage registry cannot be reached: {message}"))
            }
            _ => Self::Unavailable(format!("the storage controller cannot be asked: {message}")),
        }
    }
}

/// Adds what was being done to an error of the operating system.
pub trait Doing<T> {
    fn doing(self, what: impl FnOnce() -> String) -> Result<T>;
}

impl<T, E: Into<io::Error>> Doing<T> for std::result::Result<T, E> {
    fn doing(self, what: impl FnOnce() -> String) -> Result<T> {
        self.map_err(|error| Error::io(what(), error.into()))
    }
}

/// Runs blocking work on a thread that may block. A panic in there is passed on.
pub async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T> + Send + 'static,
) -> Result<T> {
    match tokio::task::spawn_blocking(work).await {
        Ok(result) => result,
        Err(error) if error.is_panic() => std::panic::resume_unwind(error.into_panic()),
        Err(_) => Err(Error::Unavailable("the storage controller is stopping".to_owned())),
    }
}
