//! What happens to an instance of which nothing runs.
use super::{Action, Desired, Goal, Observed, Phase, Plan, Timing, Words, backoff, words};
use crate::model::{Exit, History, LastEnd, RestartPolicy, Run, RunState};
use std::time::Duration;
use tokio::time::Instant;

/// What the restart policy says about the last run.
struct Next {
    when: When,
    /// What is said while nothing is started.
    words: Words,
}

enum When {
    Now(History),
    After(Duration, History),
    Never,
}

pub(super) fn resting(
    desired: &Desired,
    observed: &Observed,
    timing: &Timing,
    now: Instant,
) -> Plan {
    if desired.goal == Goal::Remove {
        return Plan::act(Action::Remove, Words::new(Phase::StoppingRequested, "cleaning up"));
    }
    if let Some(why) = &desired.blocked {
        return Plan::rest(Words::new(Phase::PendingStartingFailed, why));
    }
    let next = next(desired, observed, timing);
    match desired.goal {
        Goal::Run | Goal::Remove => match (&next.when, &desired.waiting) {
            (When::Now(_), Some(why)) => hold(next, why),
            (When::Now(_) | When::After(..) | When::Never, _) => go(next, observed.since, now),
        },
        Goal::Hold => hold(next, "its assignment could not be read; waiting for the server"),
        Goal::Halt => hold(next, "starts again with the agent"),
        Goal::Rest => hold(next, "stopped; starts again when all copies have stopped"),
    }
}

fn go(next: Next, since: Instant, now: Instant) -> Plan {
    let starting = || Words::new(Phase::PendingStarting, "");
    match next.when {
        When::Now(history) => Plan::act(Action::Start(history), starting()),
        When::After(delay, history) if since + delay <= now => {
            Plan::act(Action::Start(history), starting())
        }
        When::After(delay, _) => Plan::wait(since + delay, next.words),
        When::Never => Plan::rest(next.words),
    }
}

fn hold(next: Next, why: &str) -> Plan {
    Plan::rest(match next.when {
        When::Now(_) | When::After(..) => Words::new(Phase::PendingWaitingToStart, why),
        When::Never => next.words,
    })
}

fn next(desired: &Desired, observed: &Observed, timing: &Timing) -> Next {
    let Some(run) = &observed.run else {
        return at_once(History::default(), "");
    };
    // Where it is not known what has ended, the policy speaks first.
    let changed = run.hash != desired.hash && !run.hash.is_unknown();
    match &run.state {
        // What runs is not started. The caller asks about what does not run.
        RunState::Running { .. } => {
            Next { when: When::Never, words: words::running(desired, observed, None) }
        }
        // Its fingerprint is as unknown as the rest of it, so the policy speaks first.
        RunState::Unknown { message } => again(desired, run, timing, Phase::FailedUnknown, message),
        RunState::StartFailed { .. } | RunState::Lost { .. } | RunState::Ended { .. }
            if changed =>
        {
            at_once(History::default(), "its definition changed")
        }
        RunState::StartFailed { message } => {
            again(desired, run, timing, Phase::PendingStartingFailed, message)
        }
        RunState::Lost { message, .. } => again(desired, run, timing, Phase::FailedLost, message),
        RunState::Ended { exit, interrupted, .. } => {
            after_end(desired, observed, run, (*exit, *interrupted), timing)
        }
    }
}

fn at_once(history: History, why: &str) -> Next {
    Next { when: When::Now(history), words: Words::new(Phase::PendingWaitingToStart, why) }
}

fn after_end(
    desired: &Desired,
    observed: &Observed,
    run: &Run,
    (exit, interrupted): (Exit, bool),
    timing: &Timing,
) -> Next {
    let said = match &observed.failed_probe {
        Some(why) => format!("{}, after its liveness probe failed: {why}", words::ended(exit)),
        None => words::ended(exit),
    };
    let success = exit == Exit::Code(0);
    match desired.restart {
        RestartPolicy::Never => finished(success, said),
        // Who was asked to stop has not finished, whatever it answered.
        RestartPolicy::OnFailure | RestartPolicy::Always
            if interrupted && observed.failed_probe.is_none() =>
        {
            at_once(History { failures: 0, ..following(run, timing) }, "it was stopped")
        }
        RestartPolicy::OnFailure if success && !interrupted => finished(success, said),
        RestartPolicy::OnFailure | RestartPolicy::Always => {
            again(desired, run, timing, Phase::PendingWaitingToStart, &said)
        }
    }
}

fn finished(success: bool, said: String) -> Next {
    let phase = if success { Phase::Succeeded } else { Phase::FailedExec };
    Next { when: When::Never, words: Words::new(phase, said) }
}

/// Starts it again after a while, unless the policy is never to.
fn again(desired: &Desired, run: &Run, timing: &Timing, phase: Phase, said: &str) -> Next {
    if desired.restart == RestartPolicy::Never {
        let message = format!("{said}; not started again (restart policy never)");
        return Next { when: When::Never, words: Words::new(phase, message) };
    }
    let history = following(run, timing);
    let delay = backoff::delay(history.failures, desired.jitter_seed, timing);
    let verb = if phase == Phase::PendingStartingFailed { "trying" } else { "starting" };
    let message = format!("{said}, {verb} again in {}", words::seconds(delay));
    Next { when: When::After(delay, history), words: Words::new(phase, message) }
}

/// The history of the run that follows this one.
fn following(run: &Run, timing: &Timing) -> History {
    let History { restarts, failures, last_end } = run.history;
    let once_more = restarts.saturating_add(1);
    match &run.state {
        RunState::StartFailed { .. } => {
            History { restarts, failures: failures.saturating_add(1), last_end }
        }
        RunState::Ended { exit, finished_at, ran, .. } => History {
            restarts: once_more,
            failures: if *ran >= timing.well_after { 1 } else { failures.saturating_add(1) },
            last_end: Some(LastEnd { exit: *exit, finished_at: *finished_at }),
        },
        RunState::Running { .. } | RunState::Lost { .. } | RunState::Unknown { .. } => {
            History { restarts: once_more, failures: failures.saturating_add(1), last_end }
        }
    }
}
