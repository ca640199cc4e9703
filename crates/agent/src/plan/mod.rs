//! What to do next with one instance, as a pure function.
//!
//! ```text
//!              +-- live ----> stop needed? --yes--> stop -> (grace) -> kill -> (patience) -> kill
//!  observed ---|                   `---no---> Running
//!              +-- resting -> remove? blocked? --> restart policy and back-off -> start
//! ```
//!
//! The shell calls [`plan`] whenever something about an instance changed or its wake-up came, carries
//! out the one action it returns, and calls it again. Nothing is remembered between two calls, so an
//! agent that was restarted decides exactly like one that was not.
mod backoff;
mod phase;
mod probe;
mod restart;
mod stop;
mod words;

#[cfg(test)]
mod properties;
#[cfg(test)]
mod tests;

pub use phase::{Phase, Words};
pub use probe::{Rhythm, Track};

use crate::model::{History, RestartPolicy, Run, SpecHash, StopSignal};
use std::time::Duration;
use tokio::time::Instant;

/// How long the agent waits. A part of the configuration so that tests need not wait as long.
#[derive(Clone, Copy, Debug)]
pub struct Timing {
    /// Wait before the first restart; it doubles with each attempt that does not last.
    pub first_delay: Duration,
    /// The wait never grows beyond this: a cause that goes away is noticed within a minute.
    pub longest_delay: Duration,
    /// A run that lasted this long was a good one, and the wait starts small again.
    pub well_after: Duration,
    /// Wait before an operation of the agent itself (a full disk, say) is tried again.
    pub retry_after: Duration,
    /// How long a killed program may take to vanish before people are told that it does not.
    pub kill_patience: Duration,
}

impl Default for Timing {
    fn default() -> Self {
        Self {
            first_delay: Duration::from_millis(500),
            longest_delay: Duration::from_secs(60),
            well_after: Duration::from_secs(60),
            retry_after: Duration::from_secs(5),
            kill_patience: Duration::from_secs(10),
        }
    }
}

/// What is wanted of an instance.
#[derive(Clone, Debug, PartialEq)]
pub struct Desired {
    pub goal: Goal,
    /// What the program should be made of.
    pub hash: SpecHash,
    pub restart: RestartPolicy,
    pub stop_signal: StopSignal,
    pub grace: Duration,
    /// Why this agent cannot run it at all, if so.
    pub blocked: Option<String>,
    /// What has to happen elsewhere before it may start, if so. What was started once is started
    /// again after an end of its own without waiting.
    pub waiting: Option<String>,
    /// Why the run does not do its work any more, if its liveness probe says so.
    pub unhealthy: Option<String>,
    /// Why the run cannot do its work yet or at the moment, if its readiness probe says so.
    pub unready: Option<String>,
    /// Spreads the restarts of different instances; the same instance always gets the same.
    pub jitter_seed: u64,
}

/// Where an instance should be heading.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Goal {
    /// Run it, and start it again as its policy says.
    Run,
    /// Touch nothing: what is wanted is not known until the server has spoken.
    Hold,
    /// Stop it and start nothing, because the agent stops.
    Halt,
    /// Stop it and start nothing until the other copies have stopped too.
    Rest,
    /// Stop it and leave nothing behind.
    Remove,
}

/// What is known of an instance.
#[derive(Clone, Debug, PartialEq)]
pub struct Observed {
    /// The last run, if there was any.
    pub run: Option<Run>,
    /// Whether `run` is the truth. It is not before the first look and after a look that failed.
    pub known: bool,
    /// When the agent learned of the run's present state. Back-off counts from here: it does not
    /// depend on the time of day, which may jump.
    pub since: Instant,
    /// How far the stop of this run has come.
    pub stop: Option<StopProgress>,
    /// Whether what is wanted is on disk.
    pub saved: bool,
    /// The operation that failed last, if the last one failed.
    pub trouble: Option<Trouble>,
    /// What the liveness probe said before the last run was stopped because of it. It is told of the end
    /// of that run, and of the run that follows.
    pub failed_probe: Option<String>,
}

/// How far a stop has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StopProgress {
    pub requested_at: Instant,
    /// When it was last killed.
    pub killed_at: Option<Instant>,
    pub kills: u32,
}

/// An operation of the agent that failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trouble {
    pub message: String,
    pub at: Instant,
    /// What the instance is said to be meanwhile.
    pub phase: Phase,
}

/// What the shell should do now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Find out what runs. Nothing else is done before: nothing may run twice.
    Inspect,
    /// Write down what is wanted. Comes before any start or stop, so that an agent that dies in
    /// between finds out what it was doing.
    Save,
    /// Start a run that follows this history.
    Start(History),
    /// Ask the run to stop.
    Stop,
    /// End the run and all its descendants at once.
    Kill,
    /// Delete everything the agent keeps about it.
    Remove,
}

/// What to do, what to say, and when to look again if nothing happens before.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    pub action: Option<Action>,
    pub wake: Option<Instant>,
    pub words: Words,
}

impl Action {
    /// What an instance is said to be after this action failed.
    pub(crate) fn trouble_phase(self) -> Phase {
        match self {
            Self::Inspect => Phase::FailedUnknown,
            Self::Save | Self::Start(_) => Phase::PendingStartingFailed,
            Self::Stop | Self::Kill | Self::Remove => Phase::StoppingFailed,
        }
    }
}

impl Plan {
    fn act(action: Action, words: Words) -> Self {
        Self { action: Some(action), wake: None, words }
    }

    fn wait(wake: Instant, words: Words) -> Self {
        Self { action: None, wake: Some(wake), words }
    }

    fn rest(words: Words) -> Self {
        Self { action: None, wake: None, words }
    }
}

/// Decides. Same arguments, same answer.
pub fn plan(desired: &Desired, observed: &Observed, timing: &Timing, now: Instant) -> Plan {
    let decided = decide(desired, observed, timing, now);
    let decided = if must_save(observed, &decided) { save_first(decided) } else { decided };
    match &observed.trouble {
        Some(trouble) => after_trouble(decided, observed, trouble, timing, now),
        None => decided,
    }
}

/// As if everything the agent does worked, and were on disk.
fn decide(desired: &Desired, observed: &Observed, timing: &Timing, now: Instant) -> Plan {
    if !observed.known {
        return Plan::act(Action::Inspect, Words::new(Phase::PendingInitial, ""));
    }
    match &observed.run {
        Some(run) if run.is_live() => live(desired, observed, run, timing, now),
        Some(_) | None => restart::resting(desired, observed, timing, now),
    }
}

fn live(desired: &Desired, observed: &Observed, run: &Run, timing: &Timing, now: Instant) -> Plan {
    match stop::cause(desired, observed, run) {
        Some(cause) => stop::advance(desired, observed.stop.as_ref(), &cause, timing, now),
        None => Plan::rest(words::running(desired, observed, run.warning.as_deref())),
    }
}

/// Whether what is wanted has to be written down before anything is done about it.
fn must_save(observed: &Observed, decided: &Plan) -> bool {
    match decided.action {
        // Looking changes nothing, and what removal deletes is the note itself.
        Some(Action::Inspect | Action::Remove) => false,
        // A stop must be possible when the disk is full: perhaps this is what fills it.
        Some(Action::Stop | Action::Kill) => !observed.saved && observed.trouble.is_none(),
        Some(Action::Save | Action::Start(_)) | None => !observed.saved,
    }
}

fn save_first(decided: Plan) -> Plan {
    let phase = match decided.action {
        Some(Action::Start(_)) => Phase::PendingInitial,
        Some(Action::Stop | Action::Kill) => Phase::StoppingWaiting,
        Some(Action::Inspect | Action::Remove | Action::Save) | None => decided.words.phase,
    };
    Plan::act(Action::Save, Words { phase, ..decided.words })
}

/// Leaves some time after an operation that failed before anything else is tried.
fn after_trouble(
    decided: Plan,
    observed: &Observed,
    trouble: &Trouble,
    timing: &Timing,
    now: Instant,
) -> Plan {
    let again = trouble.at + timing.retry_after;
    let (Some(action), true) = (decided.action, now < again) else {
        return decided;
    };
    // What runs well is not called failed because a note about it could not be written.
    if action == Action::Save && observed.run.as_ref().is_some_and(Run::is_live) {
        return Plan::wait(again, decided.words);
    }
    let wait = words::seconds(timing.retry_after);
    let message = format!("{}, trying again in {wait}", trouble.message);
    Plan::wait(again, Words { phase: trouble.phase, message })
}
