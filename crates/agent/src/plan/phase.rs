//! The states of an instance, spelled as the contract spells them.

/// A state with the state within it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    PendingInitial,
    PendingWaitingToStart,
    PendingStarting,
    PendingStartingFailed,
    Running,
    RunningNotReady,
    StoppingWaiting,
    StoppingRequested,
    StoppingFailed,
    Succeeded,
    FailedExec,
    FailedUnknown,
    FailedLost,
    Removed,
}

impl Phase {
    /// `state` and `reason` of a WorkloadInstanceStatus.
    pub fn names(self) -> (&'static str, &'static str) {
        match self {
            Self::PendingInitial => ("Pending", "Initial"),
            Self::PendingWaitingToStart => ("Pending", "WaitingToStart"),
            Self::PendingStarting => ("Pending", "Starting"),
            Self::PendingStartingFailed => ("Pending", "StartingFailed"),
            Self::Running => ("Running", ""),
            Self::RunningNotReady => ("Running", "NotReady"),
            Self::StoppingWaiting => ("Stopping", "Waiting"),
            Self::StoppingRequested => ("Stopping", "Requested"),
            Self::StoppingFailed => ("Stopping", "StopFailed"),
            Self::Succeeded => ("Succeeded", ""),
            Self::FailedExec => ("Failed", "ExecFailed"),
            Self::FailedUnknown => ("Failed", "Unknown"),
            Self::FailedLost => ("Failed", "Lost"),
            Self::Removed => ("Removed", ""),
        }
    }
}

/// A phase and its cause, for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Words {
    pub phase: Phase,
    pub message: String,
}

impl Words {
    /// A phase with its cause.
    pub fn new(phase: Phase, message: impl Into<String>) -> Self {
        Self { phase, message: message.into() }
    }
}
