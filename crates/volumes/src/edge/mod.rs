//! The edge towards storage controllers: carries out what is written in Volume, VolumeAttachment and
//! VolumeSnapshot resources, and writes down what the controllers say.
//!
//! ```text
//!  Volume, VolumeSnapshot ─┐   what is missing there?          ┌─> a storage controller
//!  VolumeAttachment ───────┴─> calls (pure) ─> hosts (channel) ┴─> observed, device, problem
//! ```
pub mod attachment;
pub mod ceph;
pub mod hosts;
pub mod snapshot;
pub mod volume;

use std::time::Duration;
use tonic::{Code, Status};

/// A controller that did not answer, or was busy, is asked again after this.
pub const RETRY: Duration = Duration::from_secs(5);
/// What is well is looked at again after this, because disks fail without a word.
pub const LOOK_AGAIN: Duration = Duration::from_secs(300);

/// Why something was not done, for a condition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    pub reason: &'static str,
    pub message: String,
}

impl Problem {
    pub fn away(controller: &str, why: &str) -> Self {
        Self { reason: "HostAway", message: format!("cannot ask {controller}: {why}") }
    }
}

impl From<Status> for Problem {
    #[allow(clippy::wildcard_enum_match_arm, reason = "the codes are gRPC's, not ours")]
    fn from(status: Status) -> Self {
        let reason = match status.code() {
            Code::Unavailable | Code::DeadlineExceeded | Code::Cancelled => "HostAway",
            Code::ResourceExhausted => "OutOfSpace",
            Code::FailedPrecondition => "InUse",
            Code::Aborted => "Busy",
            Code::DataLoss => "Faulty",
            Code::NotFound => "NotFound",
            Code::PermissionDenied => "AccessDenied",
            _ => "Refused",
        };
        Self { reason, message: status.message().to_owned() }
    }
}
