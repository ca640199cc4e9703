//! The errors a driver answers with.
pub use orrery_proto::infragrpc::ErrorCode;
use std::time::Duration;

/// Why an operation failed, in words for people and a code that decides what the server does next:
/// it tries again soon on `Unknown`, `DeadlineExceeded`, `Aborted` and `Unavailable`, late on
/// `ResourceExhausted`, and not before something changes on `InvalidArgument`, `PermissionDenied`,
/// `Unauthenticated` and `FailedPrecondition`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Error {
    pub code: ErrorCode,
    pub message: String,
    /// When to try again at the earliest, if the provider said so.
    pub retry_after: Option<Duration>,
    /// What the driver wants to be told at its next operation on this machine.
    pub last_known_state: String,
}

impl Error {
    pub fn new(code: ErrorCode, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), retry_after: None, last_known_state: String::new() }
    }

    /// The class or its secret is wrong; trying again changes nothing.
    pub fn invalid(message: impl Into<String>) -> Self {
        Self::new(ErrorCode::InvalidArgument, message)
    }

    /// There is no such machine, class or secret.
    pub fn not_found(message: impl Into<String>) -> Self {
        Self::new(ErrorCode::NotFound, message)
    }

    /// The provider cannot be reached, or cannot answer now.
    pub fn unavailable(message: impl Into<String>) -> Self {
        Self::new(ErrorCode::Unavailable, message)
    }

    /// A fault of the driver itself.
    pub fn internal(message: impl Into<String>) -> Self {
        Self::new(ErrorCode::Internal, message)
    }

    pub fn retry_after(mut self, wait: Duration) -> Self {
        self.retry_after = Some(wait);
        self
    }

    pub fn last_known_state(mut self, state: impl Into<String>) -> Self {
        self.last_known_state = state.into();
        self
    }
}
