//! Errors as messages.
use orrery_api::{ReadError, ResolveError};
use orrery_hub::Error;
use orrery_proto::hub::v1 as wire;
use serde_json::Value;

/// What a caller is told.
pub fn to_wire(error: &Error) -> wire::Error {
    let invalid = error.violations().iter().map(|violation| wire::Violation {
        field: violation.path.clone(),
        message: violation.message.clone(),
    });
    let disputed = error.conflicts().iter().map(|conflict| wire::Violation {
        field: conflict.field.clone(),
        message: format!("conflict with {}", conflict.owner()),
    });
    wire::Error {
        code: code(error) as i32,
        reason: error.reason().to_owned(),
        message: error.to_string(),
        violations: invalid.chain(disputed).collect(),
    }
}

/// The one mapping to codes of gRPC.
fn code(error: &Error) -> tonic::Code {
    match error {
        Error::NotFound { .. } | Error::ProjectNotFound { .. } => tonic::Code::NotFound,
        Error::AlreadyExists { .. } | Error::BeingDeleted { .. } => tonic::Code::AlreadyExists,
        Error::Conflict { .. } | Error::ApplyConflict { .. } | Error::Fenced { .. } => {
            tonic::Code::Aborted
        }
        Error::Invalid { .. } | Error::BadRequest(_) => tonic::Code::InvalidArgument,
        Error::ProjectTerminating { .. } => tonic::Code::FailedPrecondition,
        Error::Forbidden(_) => tonic::Code::PermissionDenied,
        Error::Expired { .. } => tonic::Code::OutOfRange,
        Error::TooLarge(_) | Error::TooManyRequests { .. } => tonic::Code::ResourceExhausted,
        Error::Unavailable(_) | Error::Away { .. } => tonic::Code::Unavailable,
        // The code that may be answered although it has been done; many clients repeat `Unavailable` by themselves.
        Error::Uncertain(_) => tonic::Code::DeadlineExceeded,
        Error::Internal(_) => tonic::Code::Internal,
    }
}

pub(super) fn unresolved(error: ResolveError) -> Error {
    Error::BadRequest(error.to_string())
}

/// What is wrong with a resource that cannot even be read; what is there of it says which one it is.
pub(super) fn unreadable(error: ReadError, value: &Value) -> Error {
    let text = |pointer: &str| value.pointer(pointer).and_then(Value::as_str).map(str::to_owned);
    match error {
        ReadError::Decode(orrery_api::DecodeError::Invalid(violations)) => Error::Invalid {
            kind: text("/kind").unwrap_or_else(|| "resource".to_owned()),
            name: text("/metadata/name").unwrap_or_default(),
            violations,
        },
        other => Error::BadRequest(other.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_may_have_been_done_is_told_from_what_was_not() {
        #[track_caller]
        fn check(error: &Error, code: tonic::Code, reason: &str) {
            let wire = to_wire(error);
            assert_eq!((wire.code, wire.reason.as_str()), (code as i32, reason));
        }
        check(&Error::Unavailable("full".into()), tonic::Code::Unavailable, "ServiceUnavailable");
        check(&Error::Uncertain("no answer".into()), tonic::Code::DeadlineExceeded, "Timeout");
    }
}
