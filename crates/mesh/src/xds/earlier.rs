//! What a client brought along from an earlier stream.
//!
//! ```text
//!   delta:               its first request says what it holds ───────────────────────> Held
//!   state of the world:  it says a version ──> Unknown ──it asks for endpoints──> StandIns
//!                                                 └─ none of them is gone ─> Known
//! ```
//! On whole states a client does not say which clusters it has, and an answer that leaves one out takes it
//! away. But it asks for the endpoints of each, so those that are gone are known by that. What they were is
//! not known any more: in their place it is sent stand-ins. It keeps what it has until a stand-in is warm, and
//! that one never is, because it gets no endpoints.
use super::request::Request;
use std::time::Duration;
use tokio::time::Instant;

/// See the module.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Earlier {
    /// It came without any, or all of that is over.
    Nothing,
    Held,
    /// It holds clusters of this version.
    Unknown {
        version: u64,
        until: Option<Instant>,
    },
    /// It has nothing that is gone; what else it asks for may still be on its way.
    Known {
        until: Option<Instant>,
    },
    /// Those that are gone have stand-ins. Where no routes are asked for until then, none will be.
    StandIns {
        until: Option<Instant>,
    },
}

impl Earlier {
    /// Requests that a client sends when it comes back arrive together; so long it is waited for them.
    pub const PATIENCE: Duration = Duration::from_secs(1);

    /// As the first request for clusters on a stream has it.
    pub fn of(request: &Request, now: Instant) -> Self {
        let is_everything = request.names.iter().all(|name| name == "*");
        match request.version.filter(|_| is_everything) {
            _ if !request.held.is_empty() => Self::Held,
            Some(version) => Self::Unknown { version, until: Some(now + Self::PATIENCE) },
            None => Self::Nothing,
        }
    }

    /// When patience ends; `None` where it has ended, or is not needed.
    pub fn until(&self) -> Option<Instant> {
        match self {
            Self::Nothing | Self::Held => None,
            Self::Unknown { until, .. } | Self::Known { until } | Self::StandIns { until } => {
                *until
            }
        }
    }

    /// Time has passed.
    pub fn wait_until(&mut self, now: Instant) {
        match self {
            Self::Nothing | Self::Held => {}
            Self::Known { until } => {
                if until.is_none_or(|until| until <= now) {
                    *self = Self::Nothing;
                }
            }
            Self::Unknown { until, .. } | Self::StandIns { until } => {
                until.take_if(|until| *until <= now);
            }
        }
    }

    /// Whether it has endpoints that were not sent on this stream.
    pub fn has_endpoints(&self) -> bool {
        match self {
            Self::Nothing | Self::Held | Self::Unknown { .. } => false,
            Self::Known { .. } | Self::StandIns { .. } => true,
        }
    }
}
