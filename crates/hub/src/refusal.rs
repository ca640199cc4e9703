//! What the store refuses, in the words of the hub.
use crate::error::Error;
use crate::leases::LEASES;
use crate::options::ObjectName;
use orrery_api::Kind;
use orrery_store::{Expect, Op, Revision};
use std::fmt::Display;

pub(crate) fn not_found(kind: &Kind, name: &ObjectName) -> Error {
    let ObjectName { project, name } = name.clone();
    Error::NotFound { kind: kind.qualified_plural(), project, name }
}

pub(crate) fn no_versions(kind: &Kind) -> Error {
    Error::BadRequest(format!("no versions are kept of {}", kind.plural()))
}

/// Why something cannot be written at a version. It begins with the words of the reference: programs look for them.
pub fn modified(found: impl Display, wanted: impl Display) -> String {
    format!(
        "the object has been modified; please apply your changes to the latest version and try again (it is at revision {found}, not {wanted})"
    )
}

/// The object is not what the writer expected.
pub(crate) fn conflict(
    kind: &Kind,
    name: &ObjectName,
    expected: Expect,
    actual: Option<Revision>,
) -> Error {
    let kind = kind.qualified_plural();
    let ObjectName { project, name } = name.clone();
    match (expected, actual) {
        (Expect::Absent, _) => Error::AlreadyExists { kind, project, name },
        (Expect::Present, None) => Error::NotFound { kind, project, name },
        (Expect::At(at), None) | (Expect::CreatedAt(at), None) => {
            Error::Conflict { kind, name, message: format!("it was at {at} and is gone") }
        }
        (Expect::At(at), Some(actual)) => {
            Error::Conflict { kind, name, message: modified(actual, at) }
        }
        (expected, Some(actual)) => {
            let message = format!("it is at revision {actual}, expected {expected:?}");
            Error::Conflict { kind, name, message }
        }
    }
}

/// A dry run asks the store whether the write would be accepted, and writes nothing.
pub(crate) fn checked(op: Op) -> Op {
    Op::check(op.key().clone(), op.expect())
}

pub(crate) fn checks(ops: Vec<Op>) -> Vec<Op> {
    ops.into_iter().map(checked).collect()
}

pub(crate) fn from_store(error: orrery_store::Error) -> Error {
    use orrery_store::Error as Store;
    match error {
        Store::Compacted { requested, oldest } => {
            Error::Expired { requested, oldest, resume: None }
        }
        Store::TooLarge { .. } | Store::TooManyOperations { .. } => {
            Error::TooLarge(error.to_string())
        }
        Store::Conflict { ref key, .. } if key.starts_with(LEASES) => {
            Error::Fenced { lease: key[LEASES.len()..].to_owned() }
        }
        Store::Conflict { ref key, .. } => Error::Conflict {
            kind: "object".into(),
            name: key.to_string(),
            message: "something it depends on changed; try again".into(),
        },
        Store::Invalid { .. } | Store::FutureRevision { .. } => {
            Error::BadRequest(error.to_string())
        }
        Store::Unavailable { .. } | Store::Unreachable { .. } => {
            Error::Unavailable(error.to_string())
        }
        Store::Uncertain { reason } => Error::Uncertain(reason),
        Store::Corrupt { .. } => Error::Internal(error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use orrery_store::Error as Store;

    #[test]
    fn what_may_have_been_done_is_told_from_what_was_not() {
        #[track_caller]
        fn check(error: Store, expect: &str) {
            let error = from_store(error);
            assert_eq!(error.reason(), expect, "{error}");
            assert!(error.retryable(), "{error}");
        }
        check(Store::Unavailable { reason: "full".into() }, "ServiceUnavailable");
        check(Store::Unreachable { reason: "away".into() }, "ServiceUnavailable");
        check(Store::Uncertain { reason: "no answer".into() }, "Timeout");
    }
}
