//! How a run is stopped: asked, given its grace, then killed.
use super::{Action, Desired, Goal, Observed, Phase, Plan, StopProgress, Timing, Words, words};
use crate::model::{Run, StopSignal};
use tokio::time::Instant;

/// Why a live run has to stop, if it has to. A stop once begun is finished: the program may already
/// have closed its doors, so it is better started anew than left half stopped.
pub(super) fn cause(desired: &Desired, observed: &Observed, run: &Run) -> Option<String> {
    let cause = match desired.goal {
        Goal::Remove => Some("it is being removed"),
        Goal::Halt => Some("the agent stops"),
        Goal::Rest => Some("its definition changed, and all copies stop first"),
        Goal::Run if desired.blocked.is_some() => Some("its new definition cannot run here"),
        Goal::Run if run.hash.is_unknown() => Some("what it was made of is not known any more"),
        Goal::Run if desired.hash != run.hash => Some("its definition changed"),
        Goal::Run | Goal::Hold => match (&desired.unhealthy, observed.stop) {
            (Some(why), _) => return Some(format!("its liveness probe failed: {why}")),
            (None, Some(_)) => Some("it is being stopped"),
            (None, None) => None,
        },
    };
    cause.map(str::to_owned)
}

pub(super) fn advance(
    desired: &Desired,
    stop: Option<&StopProgress>,
    cause: &str,
    timing: &Timing,
    now: Instant,
) -> Plan {
    match stop {
        None if desired.grace.is_zero() || desired.stop_signal == StopSignal::Kill => {
            Plan::act(Action::Kill, killed(cause))
        }
        None => Plan::act(Action::Stop, asked(desired, cause)),
        Some(StopProgress { killed_at: Some(at), kills, .. }) => {
            after_kill(*at, *kills, cause, timing, now)
        }
        Some(stop) => in_grace(stop.requested_at + desired.grace, desired, cause, now),
    }
}

fn in_grace(deadline: Instant, desired: &Desired, cause: &str, now: Instant) -> Plan {
    if now < deadline {
        return Plan::wait(deadline, asked(desired, cause));
    }
    let grace = words::seconds(desired.grace);
    let message = format!("{cause}; it did not stop within {grace} and is killed");
    Plan::act(Action::Kill, Words::new(Phase::StoppingRequested, message))
}

fn after_kill(at: Instant, kills: u32, cause: &str, timing: &Timing, now: Instant) -> Plan {
    let patience = timing.kill_patience;
    let words = if kills < 2 {
        killed(cause)
    } else {
        let message =
            format!("{cause}; it is still there {} after SIGKILL", words::seconds(patience));
        Words::new(Phase::StoppingFailed, message)
    };
    if now < at + patience {
        Plan::wait(at + patience, words)
    } else {
        Plan::act(Action::Kill, words)
    }
}

fn asked(desired: &Desired, cause: &str) -> Words {
    let (signal, grace) = (desired.stop_signal.name(), words::seconds(desired.grace));
    Words::new(
        Phase::StoppingRequested,
        format!("{cause}; asked with {signal}, killed after {grace}"),
    )
}

fn killed(cause: &str) -> Words {
    Words::new(Phase::StoppingRequested, format!("{cause}; killed"))
}
