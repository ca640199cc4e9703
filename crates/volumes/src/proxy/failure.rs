//! Why a call was not answered by its controller, and how the caller learns of it.
use super::dial::DialError;
use crate::Entry;
use h2::Reason;
use tonic::Status;

/// What the caller sees instead of the controller's answer.
#[derive(Debug)]
pub enum Failure {
    /// A reply made of trailers only.
    Status(Status),
    /// The controller reset the stream, so the caller's is reset with the same code.
    Reset(Reset),
}

/// One side of a stream reset it, or broke it; the other side is to hear the same code.
#[derive(Debug, thiserror::Error)]
#[error("the stream was reset")]
pub struct Reset(#[source] pub(super) h2::Error);

impl Reset {
    /// A connection that was lost took the stream with it, which is as good as taking the call back.
    pub fn reason(&self) -> Reason {
        self.0.reason().unwrap_or(Reason::CANCEL)
    }
}

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

/// The reason at the bottom of a chain of errors, which is the one that helps.
pub fn innermost(error: &(dyn std::error::Error + 'static)) -> String {
    let mut error = error;
    while let Some(source) = error.source() {
        error = source;
    }
    error.to_string()
}
