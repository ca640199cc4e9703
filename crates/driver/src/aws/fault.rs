//! EC2's error codes, in ours.
use super::reply::Fault;
use crate::{Error, ErrorCode};
use std::time::Duration;

/// How long those who ask too often are to be quiet.
const THROTTLED_WAIT: Duration = Duration::from_secs(10);

/// The error for a fault that came with this HTTP status.
pub(super) fn error_of(status: u16, fault: Option<Fault>) -> Error {
    let Some(Fault { code, message }) = fault else {
        let kind = if status >= 500 { ErrorCode::Unavailable } else { ErrorCode::Unknown };
        return Error::new(kind, format!("the provider answered with HTTP status {status}"));
    };
    let kind = kind_of(&code, status);
    let error = Error::new(kind, format!("{code}: {message}"));
    if is_throttling(&code) { error.retry_after(THROTTLED_WAIT) } else { error }
}

fn is_throttling(code: &str) -> bool {
    matches!(code, "RequestLimitExceeded" | "Throttling" | "ThrottlingException" | "SlowDown")
}

fn kind_of(code: &str, status: u16) -> ErrorCode {
    match code {
        "InvalidInstanceID.NotFound" => ErrorCode::NotFound,
        "AuthFailure"
        | "InvalidClientTokenId"
        | "SignatureDoesNotMatch"
        | "UnrecognizedClientException"
        | "MissingAuthenticationToken"
        | "ExpiredToken"
        | "RequestExpired" => ErrorCode::Unauthenticated,
        "UnauthorizedOperation" | "AccessDenied" | "OptInRequired" | "Blocked" => {
            ErrorCode::PermissionDenied
        }
        "OperationNotPermitted" | "IncorrectInstanceState" | "IncorrectState" => {
            ErrorCode::FailedPrecondition
        }
        "InsufficientInstanceCapacity"
        | "InsufficientHostCapacity"
        | "InsufficientCapacity"
        | "InsufficientFreeAddressesInSubnet"
        | "InstanceLimitExceeded"
        | "VcpuLimitExceeded"
        | "VolumeLimitExceeded"
        | "MaxSpotInstanceCountExceeded" => ErrorCode::ResourceExhausted,
        "IdempotentParameterMismatch" => ErrorCode::AlreadyExists,
        code if is_throttling(code) => ErrorCode::Unavailable,
        code if code.starts_with("Invalid")
            || code.starts_with("Missing")
            || code.starts_with("Unknown")
            || code.starts_with("Unsupported") =>
        {
            ErrorCode::InvalidArgument
        }
        _ if status >= 500 => ErrorCode::Unavailable,
        _ => ErrorCode::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_say_what_to_do() {
        for (code, status, expect) in [
            ("InvalidAMIID.NotFound", 400, ErrorCode::InvalidArgument),
            ("InvalidInstanceID.NotFound", 400, ErrorCode::NotFound),
            ("MissingParameter", 400, ErrorCode::InvalidArgument),
            ("AuthFailure", 401, ErrorCode::Unauthenticated),
            ("UnauthorizedOperation", 403, ErrorCode::PermissionDenied),
            ("InsufficientInstanceCapacity", 500, ErrorCode::ResourceExhausted),
            ("VcpuLimitExceeded", 400, ErrorCode::ResourceExhausted),
            ("RequestLimitExceeded", 503, ErrorCode::Unavailable),
            ("InternalError", 500, ErrorCode::Unavailable),
            ("OperationNotPermitted", 400, ErrorCode::FailedPrecondition),
            ("Strange", 400, ErrorCode::Unknown),
        ] {
            let error = error_of(status, Some(Fault { code: code.into(), message: "m".into() }));
            assert_eq!(error.code, expect, "{code}");
            assert_eq!(error.retry_after.is_some(), code == "RequestLimitExceeded", "{code}");
        }
        assert_eq!(error_of(502, None).code, ErrorCode::Unavailable);
        assert_eq!(error_of(404, None).code, ErrorCode::Unknown);
    }
}
