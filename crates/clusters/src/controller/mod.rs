//! The controllers that the leader runs: thin, they ask the plans and do what those say.
pub mod addon;
pub mod blueprint;
pub mod cluster;
mod in_use;
mod installing;
mod parts;
mod pools;
mod resolve;
mod teardown;

use orrery_hub::Error;
use orrery_runtime::Next;
use orrery_runtime::owned::ignore_gone;
use std::time::Duration;

/// After someone else was faster.
const LOOK_AGAIN: Duration = Duration::from_millis(50);
/// While a project goes: its clusters are asked to go, a moment later.
const LOOK_LATER: Duration = Duration::from_secs(1);

/// What a controller is told after a loop body: a conflict is no trouble, only a reason to look again.
fn outcome(next: Result<Next, Error>) -> Result<Next, Error> {
    match next {
        Err(Error::Conflict { .. } | Error::AlreadyExists { .. } | Error::NotFound { .. }) => {
            Ok(Next::After(LOOK_AGAIN))
        }
        Err(
            Error::ProjectTerminating { .. }
            | Error::ProjectNotFound { .. }
            | Error::BeingDeleted { .. },
        ) => Ok(Next::After(LOOK_LATER)),
        other => other,
    }
}
