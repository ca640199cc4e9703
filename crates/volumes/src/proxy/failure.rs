//! Why a call was not answered by its controller, and how the caller learns of it.
use super::dial::DialError;
use crate::Entry;
use std::error::Error as _;
use tonic::Status;

/// What the caller sees instead of the controller's answer.
#[derive(Debug)]
pub enum Failure {
    /// A reply made of trailers only.
    Status(Status),
    /// The controller reset the stream, so the caller's is reset with the same code.
    Reset(Reset),
}

/// Carries an HTTP/2 reset through the server, which takes the code from the error inside.
#[derive(Debug, thiserror::Error)]
#[error("the controller reset the stream")]
pub struct Reset(#[source] h2::Error);

impl From<Status> for Failure {
    fn from(status: Status) -> Self {
        Self::Status(status)
    }
}

impl Failure {
    pub fn connect(error: DialError) -> Self {
        Self::Status(Status::unavailable(error.to_string()))
    }

    /// Sorts out what an upstream connection reports for one stream.
    pub fn upstream(entry: &Entry, error: h2::Error) -> Self {
        if error.is_reset() {
            return Self::Reset(Reset(error));
        }
        Self::Status(Status::unavailable(format!(
            "the connection to the controller {} at {} was lost: {}",
            entry.id,
            entry.address,
            innermost(&error)
        )))
    }
}

/// The code with which the caller ended its stream.
pub fn reason(error: &hyper::Error) -> Option<h2::Reason> {
    let mut cause = error.source();
    while let Some(error) = cause {
        if let Some(found) = error.downcast_ref::<h2::Error>() {
            return found.reason();
        }
        cause = error.source();
    }
    None
}

/// The reason at the bottom of a chain of errors, which is the one that helps.
pub fn innermost(error: &(dyn std::error::Error + 'static)) -> String {
    let mut error = error;
    while let Some(source) = error.source() {
        error = source;
    }
    error.to_string()
}
