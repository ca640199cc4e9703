//! What can go wrong with an operation, and what that means for the next attempt.
use super::source::DriverKey;
pub use orrery_proto::infragrpc::ErrorCode;
use std::time::Duration;

/// Whether and when the same operation should be tried again without anyone changing anything.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Retry {
    /// By itself, with a short and growing back-off.
    Soon,
    /// By itself, but seldom: quota and capacity do not come back within seconds.
    Late,
    /// Not before the class, its secret or the machine changes.
    AfterChange,
}

/// Whether the operation may have happened although it failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    None,
    /// List before repeating.
    Perhaps,
}

/// The kind of an operation, as it is called on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum OpKind {
    Create,
    Delete,
    List,
    Status,
}

impl OpKind {
    pub const fn name(self) -> &'static str {
        match self {
            Self::Create => "create",
            Self::Delete => "delete",
            Self::List => "list",
            Self::Status => "status",
        }
    }
}

impl std::fmt::Display for OpKind {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str(self.name())
    }
}

/// Why a driver's connection ended.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GoneReason {
    #[error("the driver closed its stream")]
    Closed,
    #[error("the connection broke: {0}")]
    Broken(String),
    #[error("the driver said nothing for {0:?}")]
    Silent(Duration),
    #[error("the driver left {0} operations unanswered")]
    Stuck(usize),
    #[error("the same driver connected again")]
    Replaced,
    #[error("the server stops")]
    Stopping,
}

/// A failed operation. The caller branches on [`OpError::retry`] and [`OpError::effect`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OpError {
    #[error("no driver for {key} is registered; start one, or correct the provider of the class")]
    NoDriver { key: DriverKey },
    #[error("the driver {driver} was busy for all of {waited:?}; {operation} was not sent")]
    Busy { driver: String, operation: OpKind, waited: Duration },
    #[error("{operation} did not reach the driver {driver}: {reason}")]
    NotSent { driver: String, operation: OpKind, reason: GoneReason },
    #[error("the answer of the driver {driver} to {operation} is lost: {reason}")]
    AnswerLost { driver: String, operation: OpKind, reason: GoneReason },
    #[error("the driver {driver} did not answer {operation} within {waited:?}")]
    TimedOut { driver: String, operation: OpKind, waited: Duration },
    #[error("the driver {driver} answered {operation} with {answer}")]
    WrongAnswer { driver: String, operation: OpKind, answer: &'static str },
    #[error("{message} ({})", code_name(*code))]
    Refused {
        code: ErrorCode,
        message: String,
        /// The driver's own word on when to try again.
        retry_after: Option<Duration>,
        /// What the driver wants to be told at the next attempt.
        last_known_state: String,
    },
}

impl OpError {
    /// The code that is shown to people and that decides about the back-off.
    pub fn code(&self) -> ErrorCode {
        match self {
            Self::NoDriver { .. } | Self::Busy { .. } | Self::NotSent { .. } => {
                ErrorCode::Unavailable
            }
            Self::AnswerLost { .. } => ErrorCode::Unavailable,
            Self::TimedOut { .. } => ErrorCode::DeadlineExceeded,
            Self::WrongAnswer { .. } => ErrorCode::Internal,
            Self::Refused { code, .. } => *code,
        }
    }

    pub fn retry(&self) -> Retry {
        retry_of(self.code())
    }

    pub fn effect(&self) -> Effect {
        match self {
            Self::NoDriver { .. } | Self::Busy { .. } | Self::NotSent { .. } => Effect::None,
            Self::AnswerLost { .. } | Self::TimedOut { .. } | Self::WrongAnswer { .. } => {
                Effect::Perhaps
            }
            Self::Refused { code, .. } => effect_of(*code),
        }
    }

    pub fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Refused { retry_after, .. } => *retry_after,
            Self::NoDriver { .. }
            | Self::Busy { .. }
            | Self::NotSent { .. }
            | Self::AnswerLost { .. }
            | Self::TimedOut { .. }
            | Self::WrongAnswer { .. } => None,
        }
    }
}

/// The classification that users of machine managers rely on.
pub fn retry_of(code: ErrorCode) -> Retry {
    match code {
        ErrorCode::Ok
        | ErrorCode::Unknown
        | ErrorCode::DeadlineExceeded
        | ErrorCode::Aborted
        | ErrorCode::Unavailable
        | ErrorCode::Cancelled => Retry::Soon,
        ErrorCode::ResourceExhausted
        | ErrorCode::Internal
        | ErrorCode::DataLoss
        | ErrorCode::AlreadyExists
        | ErrorCode::NotFound => Retry::Late,
        ErrorCode::InvalidArgument
        | ErrorCode::PermissionDenied
        | ErrorCode::Unauthenticated
        | ErrorCode::FailedPrecondition
        | ErrorCode::OutOfRange
        | ErrorCode::Unimplemented => Retry::AfterChange,
    }
}

/// A driver that refuses an argument has done nothing; one that ran out of time may have.
fn effect_of(code: ErrorCode) -> Effect {
    match code {
        ErrorCode::Unknown
        | ErrorCode::DeadlineExceeded
        | ErrorCode::Cancelled
        | ErrorCode::Internal
        | ErrorCode::Unavailable
        | ErrorCode::DataLoss => Effect::Perhaps,
        ErrorCode::Ok
        | ErrorCode::InvalidArgument
        | ErrorCode::NotFound
        | ErrorCode::AlreadyExists
        | ErrorCode::PermissionDenied
        | ErrorCode::ResourceExhausted
        | ErrorCode::FailedPrecondition
        | ErrorCode::Aborted
        | ErrorCode::OutOfRange
        | ErrorCode::Unimplemented
        | ErrorCode::Unauthenticated => Effect::None,
    }
}

/// The code as people of this field write it: `ResourceExhausted`.
pub fn code_name(code: ErrorCode) -> String {
    format!("{code:?}")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// proves: MCH-07. Defect 8: errors were bare strings.
    #[test]
    fn a_code_says_whether_to_retry() {
        let cases = [
            (ErrorCode::Unknown, Retry::Soon),
            (ErrorCode::DeadlineExceeded, Retry::Soon),
            (ErrorCode::Aborted, Retry::Soon),
            (ErrorCode::Unavailable, Retry::Soon),
            (ErrorCode::ResourceExhausted, Retry::Late),
            (ErrorCode::InvalidArgument, Retry::AfterChange),
            (ErrorCode::PermissionDenied, Retry::AfterChange),
            (ErrorCode::Unauthenticated, Retry::AfterChange),
            (ErrorCode::FailedPrecondition, Retry::AfterChange),
        ];
        for (code, expect) in cases {
            assert_eq!(retry_of(code), expect, "{code:?}");
        }
    }

    #[test]
    fn only_what_was_sent_can_have_happened() {
        let driver = || "d".to_owned();
        let operation = OpKind::Create;
        let waited = Duration::from_secs(1);
        let reason = GoneReason::Closed;
        let none = [
            OpError::NoDriver { key: DriverKey::new("K", "g/v1") },
            OpError::Busy { driver: driver(), operation, waited },
            OpError::NotSent { driver: driver(), operation, reason: reason.clone() },
        ];
        let perhaps = [
            OpError::AnswerLost { driver: driver(), operation, reason },
            OpError::TimedOut { driver: driver(), operation, waited },
            OpError::WrongAnswer { driver: driver(), operation, answer: "list" },
        ];
        assert!(none.iter().all(|error| error.effect() == Effect::None));
        assert!(perhaps.iter().all(|error| error.effect() == Effect::Perhaps));
    }
}
