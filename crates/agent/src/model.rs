//! The words that the plan, the runtimes and the disk share.
use crate::runtime::StopRequest;
use serde::{Deserialize, Serialize};
use std::{fmt, time::Duration};

/// Longest id that is taken. A uid has 36 characters; this leaves room and stays a legal file name.
const ID_LEN_MAX: usize = 128;

/// The uid of a WorkloadInstance, known to be safe as the name of a folder.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct InstanceId(String);

impl InstanceId {
    /// Refuses what could leave the folder of instances or hide in it.
    pub fn new(id: &str) -> Option<Self> {
        let legal = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
        let fits = !id.is_empty() && id.len() <= ID_LEN_MAX && !id.starts_with('.');
        (fits && id.bytes().all(legal)).then(|| Self(id.to_owned()))
    }

    /// As the server spells it.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for InstanceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Fingerprint of everything that makes a running program what it is; equal means that the program
/// need not be replaced.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SpecHash(pub String);

impl SpecHash {
    /// Of a run that nobody knows any more what it was made of.
    pub fn is_unknown(&self) -> bool {
        self.0.is_empty()
    }
}

/// A time of day, in milliseconds since 1970.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct UnixMillis(pub u64);

impl UnixMillis {
    /// As the wire spells it.
    pub fn timestamp(self) -> prost_types::Timestamp {
        let seconds = i64::try_from(self.0 / 1000).unwrap_or(i64::MAX);
        let nanos = i32::try_from(self.0 % 1000).unwrap_or_default() * 1_000_000;
        prost_types::Timestamp { seconds, nanos }
    }
}

/// How a program ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Exit {
    /// It returned this code.
    Code(i32),
    /// This signal ended it.
    Signal(i32),
}

/// The last end of a program, carried from run to run so that it is not forgotten by a restart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LastEnd {
    pub exit: Exit,
    pub finished_at: UnixMillis,
}

/// What is remembered about the runs before this one. It travels with each run, so that an agent
/// that adopts a run knows it too.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct History {
    /// How often the program was started again.
    pub restarts: u32,
    /// How many attempts in a row did not last; the back-off grows with it.
    pub failures: u32,
    /// How the run before ended, if it did.
    pub last_end: Option<LastEnd>,
}

/// The last run of an instance, as a runtime found it.
#[derive(Clone, Debug, PartialEq)]
pub struct Run {
    /// What the program was made of.
    pub hash: SpecHash,
    /// What came before this run.
    pub history: History,
    pub state: RunState,
    /// What it runs without, although it was asked for; or that nobody knew of it.
    pub warning: Option<String>,
    /// How it was to be stopped when it was started, where that is known.
    pub stop: Option<StopRequest>,
}

/// How far a run has come. There is no state for "being started": starting is an operation, and
/// who waits for it does not ask.
#[derive(Clone, Debug, PartialEq)]
pub enum RunState {
    /// The program never ran; the message says why.
    StartFailed {
        message: String,
    },
    Running {
        pid: i32,
        started_at: UnixMillis,
    },
    Ended {
        exit: Exit,
        /// It was asked to stop before it ended.
        interrupted: bool,
        started_at: UnixMillis,
        finished_at: UnixMillis,
        ran: Duration,
    },
    /// It is gone and nobody saw how; nothing of it is left running.
    Lost {
        message: String,
        started_at: UnixMillis,
    },
    /// What is known about it cannot be read; nothing of it is left running.
    Unknown {
        message: String,
    },
}

impl Run {
    /// Whether a program runs.
    pub fn is_live(&self) -> bool {
        matches!(self.state, RunState::Running { .. })
    }
}

/// The signals that may ask a program to stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum StopSignal {
    #[serde(rename = "SIGTERM")]
    Term,
    #[serde(rename = "SIGINT")]
    Int,
    #[serde(rename = "SIGQUIT")]
    Quit,
    #[serde(rename = "SIGHUP")]
    Hup,
    #[serde(rename = "SIGUSR1")]
    Usr1,
    #[serde(rename = "SIGUSR2")]
    Usr2,
    #[serde(rename = "SIGKILL")]
    Kill,
}

impl StopSignal {
    const ALL: [Self; 7] =
        [Self::Term, Self::Int, Self::Quit, Self::Hup, Self::Usr1, Self::Usr2, Self::Kill];

    /// The name that people write.
    pub fn name(self) -> &'static str {
        match self {
            Self::Term => "SIGTERM",
            Self::Int => "SIGINT",
            Self::Quit => "SIGQUIT",
            Self::Hup => "SIGHUP",
            Self::Usr1 => "SIGUSR1",
            Self::Usr2 => "SIGUSR2",
            Self::Kill => "SIGKILL",
        }
    }

    /// The signal with this name.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|signal| signal.name() == name)
    }

    /// As the kernel knows it.
    pub(crate) fn raw(self) -> rustix::process::Signal {
        use rustix::process::Signal;
        match self {
            Self::Term => Signal::TERM,
            Self::Int => Signal::INT,
            Self::Quit => Signal::QUIT,
            Self::Hup => Signal::HUP,
            Self::Usr1 => Signal::USR1,
            Self::Usr2 => Signal::USR2,
            Self::Kill => Signal::KILL,
        }
    }
}

/// When a program is started again after it ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RestartPolicy {
    Never,
    OnFailure,
    Always,
}

impl RestartPolicy {
    /// The policy with this name.
    pub fn parse(name: &str) -> Option<Self> {
        match name {
            "never" => Some(Self::Never),
            "onFailure" => Some(Self::OnFailure),
            "always" => Some(Self::Always),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check_id(id: &str, legal: bool) {
        assert_eq!(InstanceId::new(id).is_some(), legal, "{id:?}");
    }

    #[test]
    fn an_id_cannot_leave_its_folder() {
        check_id("0198e3a4-5c2b-7000-8000-000000000001", true);
        check_id("a.b_c-D", true);
        check_id("", false);
        check_id("..", false);
        check_id(".hidden", false);
        check_id("a/b", false);
        check_id("a\0b", false);
        check_id("ü", false);
        check_id(&"x".repeat(128), true);
        check_id(&"x".repeat(129), false);
    }

    #[test]
    fn signals_are_found_by_their_names() {
        for signal in StopSignal::ALL {
            assert_eq!(StopSignal::parse(signal.name()), Some(signal));
            let json = serde_json::to_string(&signal).unwrap();
            assert_eq!(json, format!("{:?}", signal.name()));
        }
        assert_eq!(StopSignal::parse("SIGSTOP"), None);
    }

    #[test]
    fn times_keep_their_milliseconds() {
        let stamp = UnixMillis(1_700_000_000_123).timestamp();
        assert_eq!((stamp.seconds, stamp.nanos), (1_700_000_000, 123_000_000));
    }
}
