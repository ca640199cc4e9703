//! The life of one machine.
//!
//! ```text
//!   Pending --created--> Available --joined--> Running <--> Unknown
//!     |  ^                   |                                 |
//!     v  | by itself         | never joined                    | too long
//!   CrashLoopBackOff         v                                 v
//!                          Failed <----------------------------+
//!   any --delete--> Terminating: drain, delete, forget
//! ```
//!
//! [`decide`] says what to do next, [`settle`] what an operation's outcome means. The record that
//! `decide` returns is written before its act is done: it says that the outcome is open, so whoever
//! comes after a crash lists before repeating.
mod settle;
mod terminate;

#[cfg(test)]
mod tests;

pub use settle::{Outcome, settle};

use super::{Reason, Time, elapsed, later};
use crate::drivers::{ErrorCode, OpKind};
use std::time::Duration;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Phase {
    /// To be created.
    Pending,
    /// Created; its agent has not joined yet.
    Available,
    /// Its agent is connected.
    Running,
    /// Its agent was connected and is not.
    Unknown,
    /// Given up. The set replaces it; a person may keep it for a look.
    Failed,
    Terminating,
    /// Creating failed and is tried again by and by.
    CrashLoopBackOff,
}

/// Time-outs, read anew at every decision: they can be changed at any time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// From Pending to Running.
    pub creation: Duration,
    /// From Unknown to Failed.
    pub health: Duration,
    /// For workloads to move off before the machine goes.
    pub drain: Duration,
}

/// What is wanted of a machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wanted {
    pub limits: Limits,
    pub delete: bool,
    /// Grows when the class, its secret or the machine's own spec changes.
    pub revision: i64,
    /// While frozen nothing is given up.
    pub frozen: bool,
    /// Somebody has said that a machine which is deleted may go without its driver.
    pub forget: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NodeHealth {
    /// No agent has joined.
    Absent,
    Healthy,
    /// Joined, but not connected now.
    Unhealthy,
}

/// What is seen of a machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Observed {
    pub node: NodeHealth,
    /// No workload is left on it.
    pub drained: bool,
    /// The operation that is under way in this process.
    pub in_flight: Option<OpKind>,
}

/// When the next operation may be tried.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Wait {
    #[default]
    Nothing,
    Until(Time),
    /// Not while this is the revision of what is wanted.
    Change(i64),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OpState {
    Processing,
    Successful,
    Failed,
}

/// The last operation, as shown in the status.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LastOperation {
    pub kind: OpKind,
    pub state: OpState,
    pub description: String,
    pub code: Option<ErrorCode>,
    pub at: Time,
}

/// What is known of a machine; kept in its status.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    pub phase: Phase,
    pub phase_since: Time,
    /// From when the creation time-out counts.
    pub creation_since: Time,
    pub provider_id: Option<String>,
    pub node_name: String,
    pub addresses: Vec<String>,
    pub last_known_state: String,
    /// An operation was sent and its outcome is not known.
    pub unresolved: bool,
    /// A create was sent at some time, so there may be a machine.
    pub started: bool,
    /// Its agent joined at some time, so there may be workloads.
    pub joined: bool,
    pub failures: u32,
    pub wait: Wait,
    pub drain_since: Option<Time>,
    pub drained: bool,
    pub last_operation: Option<LastOperation>,
}

impl Record {
    pub fn new(now: Time) -> Self {
        Self {
            phase: Phase::Pending,
            phase_since: now,
            creation_since: now,
            provider_id: None,
            node_name: String::new(),
            addresses: Vec::new(),
            last_known_state: String::new(),
            unresolved: false,
            started: false,
            joined: false,
            failures: 0,
            wait: Wait::Nothing,
            drain_since: None,
            drained: false,
            last_operation: None,
        }
    }

    /// Its deletion was asked for; what it waited for does not matter any more.
    pub fn terminate(&mut self, now: Time) {
        self.enter(Phase::Terminating, now);
        self.failures = 0;
        self.wait = Wait::Nothing;
    }

    fn enter(&mut self, phase: Phase, now: Time) {
        if self.phase != phase {
            self.phase = phase;
            self.phase_since = now;
        }
    }
}

/// What to do now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Act {
    Nothing,
    Create,
    /// List, and see whether the machine is there.
    Resolve,
    /// Ask the fleet to move the workloads off.
    Drain,
    Delete,
    /// Drop the operation that is under way; its outcome is then open.
    Abort,
    /// Nothing is left at the provider: remove the resource.
    Forget,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decision {
    /// To be written before the act is done.
    pub record: Record,
    pub act: Act,
    /// When to look again at the latest.
    pub wake: Option<Time>,
    pub reasons: Vec<Reason>,
}

/// Decides on one machine. Deciding again without anything new decides the same.
pub fn decide(now: Time, wanted: &Wanted, record: &Record, observed: &Observed) -> Decision {
    let mut next =
        Decision { record: record.clone(), act: Act::Nothing, wake: None, reasons: Vec::new() };
    if wanted.delete && record.phase != Phase::Terminating {
        next.record.terminate(now);
        next.because("Deleting", "its deletion was asked for");
    }
    match next.record.phase {
        Phase::Terminating => terminate::step(&mut next, now, wanted, observed),
        Phase::Pending | Phase::CrashLoopBackOff => bring_up(&mut next, now, wanted, observed),
        Phase::Available | Phase::Running | Phase::Unknown => {
            watch(&mut next, now, wanted, observed);
        }
        Phase::Failed => {}
    }
    next
}

impl Decision {
    fn because(&mut self, code: &'static str, message: impl Into<String>) {
        self.reasons.push(Reason::new(code, message));
    }

    fn wake_at(&mut self, at: Time) {
        self.wake = Some(self.wake.map_or(at, |earlier| earlier.min(at)));
    }

    fn begin(&mut self, act: Act, kind: OpKind, now: Time) {
        self.act = act;
        let description = format!("{kind} was sent to the driver");
        self.record.last_operation = Some(LastOperation {
            kind,
            state: OpState::Processing,
            description,
            code: None,
            at: now,
        });
    }

    fn fail(&mut self, now: Time, code: &'static str, message: String) {
        self.record.enter(Phase::Failed, now);
        self.because(code, message);
    }
}

fn bring_up(next: &mut Decision, now: Time, wanted: &Wanted, observed: &Observed) {
    if matches!(next.record.wait, Wait::Change(revision) if revision != wanted.revision) {
        next.record.wait = Wait::Nothing;
        next.record.failures = 0;
        next.record.creation_since = now;
        next.because("TryingAgain", "what it is made from has changed");
    }
    if matches!(next.record.wait, Wait::Change(_)) || observed.in_flight.is_some() {
        return;
    }
    let since = next.record.creation_since;
    if elapsed(now, since) >= wanted.limits.creation && !wanted.frozen {
        let limit = wanted.limits.creation;
        return next.fail(now, "CreationTimedOut", format!("it was not created within {limit:?}"));
    }
    next.wake_at(later(since, wanted.limits.creation));
    if let Wait::Until(at) = next.record.wait
        && now < at
    {
        return next.wake_at(at);
    }
    if next.record.unresolved {
        next.because("Resolving", "the outcome of the last create is not known: listing first");
        return next.begin(Act::Resolve, OpKind::List, now);
    }
    next.record.unresolved = true;
    next.record.started = true;
    next.begin(Act::Create, OpKind::Create, now);
}

fn watch(next: &mut Decision, now: Time, wanted: &Wanted, observed: &Observed) {
    let limits = &wanted.limits;
    match (observed.node, next.record.phase) {
        (NodeHealth::Healthy, phase) => {
            next.record.joined = true;
            if phase != Phase::Running {
                next.record.enter(Phase::Running, now);
                next.because("Joined", "its agent is connected");
            }
        }
        (NodeHealth::Absent | NodeHealth::Unhealthy, Phase::Running) => {
            next.record.enter(Phase::Unknown, now);
            next.because("AgentLost", "its agent is not connected any more");
            next.wake_at(later(now, limits.health));
        }
        (NodeHealth::Absent | NodeHealth::Unhealthy, Phase::Unknown) => {
            let since = next.record.phase_since;
            give_up(next, now, wanted, (since, limits.health), "Unhealthy", "was not healthy for");
        }
        (NodeHealth::Absent | NodeHealth::Unhealthy, _) => {
            let since = next.record.creation_since;
            give_up(next, now, wanted, (since, limits.creation), "NeverJoined", "did not join in");
        }
    }
}

/// Fails the machine once it is in this state for too long. A change of the limit takes effect at
/// the next look.
fn give_up(
    next: &mut Decision,
    now: Time,
    wanted: &Wanted,
    (since, limit): (Time, Duration),
    code: &'static str,
    what: &str,
) {
    if elapsed(now, since) < limit {
        next.wake_at(later(since, limit));
    } else if !wanted.frozen {
        next.fail(now, code, format!("it {what} {limit:?}"));
    }
}
