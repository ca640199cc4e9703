//! From what podman says of a container to the truth about a run.
use super::container::{self, LABEL_HASH};
use super::inspect::{Container, State};
use crate::model::{Exit, Run, RunState, SpecHash, UnixMillis};
use std::collections::HashMap;
use std::net::IpAddr;
use std::time::Duration;

/// What a look at the container of an instance brought.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Glimpse {
    /// It was made and never started: an agent was killed in between.
    NeverStarted,
    /// On its way from running to ended, or to gone.
    Unsettled,
    Settled(Run),
}

/// `asked` is true when this container was asked to stop.
///
/// The words are those of Docker and of podman. Between the end of the first process and `exited` podman
/// says `stopped` until it has cleared up; how it ended is known already.
pub(super) fn glimpse(found: &Container, asked: bool) -> Glimpse {
    let none = HashMap::new();
    let labels = found.config.labels.as_ref().unwrap_or(&none);
    let state = &found.state;
    match state.status.as_str() {
        "running" | "paused" => match pid(state) {
            Some(pid) => settled(labels, RunState::Running { pid, started_at: started(state) }),
            None => Glimpse::Unsettled,
        },
        "exited" | "stopped" | "dead" => settled(labels, ended(state, asked)),
        "created" | "configured" | "initialized" => Glimpse::NeverStarted,
        "stopping" | "removing" | "restarting" => Glimpse::Unsettled,
        other => {
            let message = format!("podman does not say how its container is, only {other:?}");
            settled(labels, RunState::Unknown { message })
        }
    }
}

/// The process id of its first process.
pub(super) fn pid(state: &State) -> Option<i32> {
    state.pid.and_then(|pid| i32::try_from(pid).ok()).filter(|pid| 0 < *pid)
}

/// Where its ports are reached: at an address of its own, or at the node's.
pub(super) fn address(found: &Container) -> IpAddr {
    let networks = found.network_settings.networks.as_ref();
    let addresses = networks.into_iter().flat_map(HashMap::values);
    let mut addresses = addresses.filter_map(|network| network.ip_address.as_ref()?.parse().ok());
    addresses.next().unwrap_or(IpAddr::from([127, 0, 0, 1]))
}

fn settled(labels: &HashMap<String, String>, state: RunState) -> Glimpse {
    let hash = SpecHash(labels.get(LABEL_HASH).cloned().unwrap_or_default());
    Glimpse::Settled(Run {
        hash,
        history: container::history(labels),
        state,
        warning: None,
        stop: container::stop(labels),
    })
}

fn ended(state: &State, interrupted: bool) -> RunState {
    let started_at = started(state);
    let Some(code) = state.exit_code.and_then(|code| i32::try_from(code).ok()) else {
        return RunState::Lost {
            message: "podman does not know how it ended".to_owned(),
            started_at,
        };
    };
    let finished_at = millis(state.finished_at.as_deref());
    let ran = Duration::from_millis(finished_at.0.saturating_sub(started_at.0));
    RunState::Ended { exit: Exit::Code(code), interrupted, started_at, finished_at, ran }
}

fn started(state: &State) -> UnixMillis {
    millis(state.started_at.as_deref())
}

fn millis(text: Option<&str>) -> UnixMillis {
    let time = text.and_then(|text| text.parse::<jiff::Timestamp>().ok());
    UnixMillis(time.and_then(|time| u64::try_from(time.as_millisecond()).ok()).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(status: &str, pid: i64, code: i64) -> Container {
        let state = State {
            status: status.into(),
            pid: Some(pid),
            exit_code: Some(code),
            started_at: Some("2026-11-15T12:43:33.2Z".into()),
            finished_at: Some("2026-11-15T12:43:35.7+00:00".into()),
        };
        Container { state, ..Container::default() }
    }

    #[test]
    fn a_running_container_has_a_pid_and_a_time() {
        let Glimpse::Settled(run) = glimpse(&found("running", 42, 0), false) else { panic!() };
        let RunState::Running { pid, started_at } = run.state else { panic!() };
        assert_eq!((pid, started_at.0 % 60_000), (42, 33_200));
        assert_eq!(glimpse(&found("running", 0, 0), false), Glimpse::Unsettled);
        for status in ["created", "configured", "initialized"] {
            assert_eq!(glimpse(&found(status, 0, 0), false), Glimpse::NeverStarted, "{status}");
        }
    }

    #[test]
    fn an_ended_container_has_a_code_and_a_length() {
        for status in ["exited", "stopped", "dead"] {
            let Glimpse::Settled(run) = glimpse(&found(status, 0, 3), true) else { panic!() };
            let RunState::Ended { exit, interrupted, ran, .. } = run.state else { panic!() };
            assert_eq!((exit, interrupted, ran.as_millis()), (Exit::Code(3), true, 2_500));
        }
    }

    #[test]
    fn a_word_that_nobody_knows_is_repeated() {
        for status in ["unknown", "", "dreaming"] {
            let Glimpse::Settled(run) = glimpse(&found(status, 0, 0), false) else { panic!() };
            let RunState::Unknown { message } = run.state else { panic!() };
            assert!(message.contains(&format!("{status:?}")), "{message}");
        }
        for status in ["stopping", "removing", "restarting"] {
            assert_eq!(glimpse(&found(status, 0, 0), false), Glimpse::Unsettled, "{status}");
        }
    }

    #[test]
    fn times_that_are_none_are_the_beginning_of_time() {
        assert_eq!(millis(None), UnixMillis(0));
        assert_eq!(millis(Some("0001-01-01T00:00:00Z")), UnixMillis(0));
    }
}
