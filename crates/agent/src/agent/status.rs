//! What the server is told about an instance.
use crate::model::{Exit, LastEnd, Run, RunState, UnixMillis};
use crate::plan::Words;
use orrery_proto::apps::v1::WorkloadInstanceStatus;

pub(super) fn status(words: &Words, run: Option<&Run>, generation: i64) -> WorkloadInstanceStatus {
    let (state, reason) = words.phase.names();
    let mut status = WorkloadInstanceStatus {
        state: state.to_owned(),
        reason: reason.to_owned(),
        message: words.message.clone(),
        observed_generation: generation,
        ..WorkloadInstanceStatus::default()
    };
    if let Some(run) = run {
        add_run(&mut status, run);
    }
    status
}

fn add_run(status: &mut WorkloadInstanceStatus, run: &Run) {
    status.restarts = run.history.restarts.into();
    let mut last = run.history.last_end;
    match &run.state {
        RunState::Running { pid, started_at } => {
            status.pid = Some((*pid).into());
            status.started_at = Some(started_at.timestamp());
        }
        RunState::Ended { exit, started_at, finished_at, .. } => {
            status.started_at = Some(started_at.timestamp());
            last = Some(LastEnd { exit: *exit, finished_at: *finished_at });
        }
        RunState::Lost { started_at, .. } => status.started_at = Some(started_at.timestamp()),
        RunState::StartFailed { .. } | RunState::Unknown { .. } => (),
    }
    if let Some(LastEnd { exit, finished_at }) = last {
        add_end(status, exit, finished_at);
    }
}

fn add_end(status: &mut WorkloadInstanceStatus, exit: Exit, finished_at: UnixMillis) {
    status.finished_at = Some(finished_at.timestamp());
    match exit {
        Exit::Code(code) => status.exit_code = Some(code),
        Exit::Signal(signal) => status.exit_signal = Some(signal),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{History, SpecHash};
    use crate::plan::Phase;
    use std::time::Duration;

    fn of(state: RunState, last_end: Option<LastEnd>) -> WorkloadInstanceStatus {
        let history = History { restarts: 2, failures: 0, last_end };
        let run = Run { hash: SpecHash("h".into()), history, state, warning: None, stop: None };
        status(&Words::new(Phase::Running, "words"), Some(&run), 5)
    }

    fn millis(status: &WorkloadInstanceStatus) -> (Option<i64>, Option<i64>) {
        let seconds = |stamp: &prost_types::Timestamp| stamp.seconds;
        (status.started_at.as_ref().map(seconds), status.finished_at.as_ref().map(seconds))
    }

    #[test]
    fn a_running_program_shows_its_pid_and_how_it_ended_before() {
        let last = LastEnd { exit: Exit::Code(3), finished_at: UnixMillis(1_000) };
        let running = RunState::Running { pid: 42, started_at: UnixMillis(2_000) };
        let status = of(running, Some(last));
        assert_eq!((status.pid, status.exit_code, status.exit_signal), (Some(42), Some(3), None));
        assert_eq!((status.restarts, status.observed_generation), (2, 5));
        assert_eq!(millis(&status), (Some(2), Some(1)));
    }

    #[test]
    fn an_ended_program_shows_its_own_end_and_no_pid() {
        let last = LastEnd { exit: Exit::Code(3), finished_at: UnixMillis(1_000) };
        let ended = RunState::Ended {
            exit: Exit::Signal(9),
            interrupted: false,
            started_at: UnixMillis(2_000),
            finished_at: UnixMillis(3_000),
            ran: Duration::from_secs(1),
        };
        let status = of(ended, Some(last));
        assert_eq!((status.pid, status.exit_code, status.exit_signal), (None, None, Some(9)));
        assert_eq!(millis(&status), (Some(2), Some(3)));
    }

    #[test]
    fn without_a_run_there_are_only_words() {
        let status = status(&Words::new(Phase::PendingInitial, ""), None, 1);
        assert_eq!((status.state.as_str(), status.reason.as_str()), ("Pending", "Initial"));
        assert_eq!((status.pid, status.restarts, millis(&status)), (None, 0, (None, None)));
    }
}
