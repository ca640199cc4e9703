//! The files through which agent and supervisor speak, all in the folder of the instance.
use super::super::StopRequest;
use crate::disk::{self, Survive};
use crate::model::{Exit, History, SpecHash, StopSignal, UnixMillis};
use crate::procfs::Identity;
use crate::volumes::Bind;
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use std::{collections::BTreeMap, io, path::PathBuf, time::Duration};

/// Of all files here. A file with another version is not understood, and said so.
const VERSION: u32 = 1;

/// The folder of one instance.
#[derive(Clone, Debug)]
pub(crate) struct Folder(PathBuf);

/// What the supervisor should run; written by the agent.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Launch {
    pub version: u32,
    /// Different for each run.
    pub run: String,
    pub hash: SpecHash,
    pub history: History,
    pub command: String,
    pub args: Vec<String>,
    /// The whole environment of the program.
    pub env: BTreeMap<String, String>,
    /// The folder of the instance has one to work in when this is absent.
    pub working_directory: Option<String>,
    pub stop: Stop,
    /// Who runs it: a name or number, and a group after a colon.
    #[serde(default)]
    pub user: Option<String>,
    /// What each of its processes may have.
    #[serde(default)]
    pub limits: Limits,
    /// What all of its processes may have together.
    #[serde(default)]
    pub group: GroupLimits,
    /// What the program sees beside the folders of the host.
    #[serde(default)]
    pub volumes: Vec<Bind>,
}

/// What the system grants one process; nothing means that nothing is changed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Limits {
    pub open_files: Option<u64>,
    pub processes: Option<u64>,
    pub core_bytes: Option<u64>,
    pub address_space_bytes: Option<u64>,
    pub stack_bytes: Option<u64>,
}

/// What a control group grants its processes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct GroupLimits {
    pub cpu_millis: Option<u64>,
    pub memory_bytes: Option<u64>,
    pub processes: Option<u64>,
}

/// How to stop the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Stop {
    pub signal: StopSignal,
    grace_ms: u64,
}

/// That the program should stop now; written by the agent, read when it sends SIGTERM.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Request {
    version: u32,
    /// The run that is meant; a request for an earlier one is void.
    pub run: String,
    pub stop: Stop,
}

/// What became of the run; written by the supervisor.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Record {
    version: u32,
    pub run: String,
    pub hash: SpecHash,
    pub history: History,
    /// The boot in which the process ids mean something.
    pub boot: String,
    pub supervisor: Identity,
    pub phase: Phase,
    /// What it runs without, although it was asked for.
    #[serde(default)]
    pub warning: Option<String>,
    /// How its supervisor was told to stop it; absent from records of earlier versions.
    #[serde(default)]
    pub stop: Option<Stop>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", rename_all_fields = "camelCase")]
pub(crate) enum Phase {
    Starting,
    StartFailed {
        message: String,
    },
    Running {
        program: Identity,
        started_at: UnixMillis,
    },
    Ended {
        exit: Exit,
        interrupted: bool,
        started_at: UnixMillis,
        finished_at: UnixMillis,
        ran_ms: u64,
    },
}

impl Launch {
    pub(crate) fn new(run: String, hash: SpecHash, history: History, stop: StopRequest) -> Self {
        Self {
            version: VERSION,
            run,
            hash,
            history,
            command: String::new(),
            args: Vec::new(),
            env: BTreeMap::new(),
            working_directory: None,
            stop: stop.into(),
            user: None,
            limits: Limits::default(),
            group: GroupLimits::default(),
            volumes: Vec::new(),
        }
    }
}

impl Launch {
    /// Whether something has to be done between the fork and the program.
    pub(crate) fn needs_stage(&self) -> bool {
        self.user.is_some()
            || self.limits != Limits::default()
            || self.group != GroupLimits::default()
    }
}

impl Stop {
    pub(crate) fn grace(self) -> Duration {
        Duration::from_millis(self.grace_ms)
    }
}

impl From<StopRequest> for Stop {
    fn from(request: StopRequest) -> Self {
        let grace_ms = u64::try_from(request.grace.as_millis()).unwrap_or(u64::MAX);
        Self { signal: request.signal, grace_ms }
    }
}

impl From<Stop> for StopRequest {
    fn from(stop: Stop) -> Self {
        Self { signal: stop.signal, grace: stop.grace() }
    }
}

impl Request {
    pub(crate) fn new(run: String, stop: StopRequest) -> Self {
        Self { version: VERSION, run, stop: stop.into() }
    }
}

impl Record {
    pub(crate) fn starting(launch: &Launch, boot: String, supervisor: Identity) -> Self {
        Self {
            version: VERSION,
            run: launch.run.clone(),
            hash: launch.hash.clone(),
            history: launch.history,
            boot,
            supervisor,
            phase: Phase::Starting,
            warning: None,
            stop: Some(launch.stop),
        }
    }
}

impl Folder {
    pub(crate) fn new(path: PathBuf) -> Self {
        Self(path)
    }

    pub(crate) fn path(&self) -> &PathBuf {
        &self.0
    }

    /// The id of the instance.
    pub(crate) fn name(&self) -> &str {
        self.0.file_name().and_then(|name| name.to_str()).unwrap_or_default()
    }

    /// Held for the life of the supervisor.
    pub(crate) fn lock(&self) -> PathBuf {
        self.0.join("lock")
    }

    /// Where a program without a working directory of its own starts.
    pub(crate) fn work(&self) -> PathBuf {
        self.0.join("work")
    }

    /// Where the output of the program goes.
    pub(crate) fn logs(&self) -> PathBuf {
        self.0.join(crate::supervisor::LOG_FOLDER)
    }

    /// What the supervisor reads; and, in a file of its own each, commands beside the program.
    pub(crate) fn launch(&self) -> PathBuf {
        self.0.join("launch.json")
    }

    /// What the supervisor has to say about itself; it is silent when all is well.
    pub(crate) fn supervisor_log(&self) -> PathBuf {
        self.0.join("supervisor.log")
    }

    pub(crate) fn record(&self) -> PathBuf {
        self.0.join("run.json")
    }

    pub(crate) fn write_launch(&self, launch: &Launch) -> io::Result<()> {
        write(self.launch(), launch, Survive::Process)
    }

    pub(crate) fn read_launch(&self) -> io::Result<Option<Launch>> {
        read_launch(self.launch())
    }

    pub(crate) fn write_request(&self, request: &Request) -> io::Result<()> {
        write(self.0.join("request.json"), request, Survive::Process)
    }

    pub(crate) fn read_request(&self) -> io::Result<Option<Request>> {
        read(self.0.join("request.json"), |request: &Request| request.version)
    }

    pub(crate) fn write_record(&self, record: &Record) -> io::Result<()> {
        write(self.record(), record, Survive::PowerCut)
    }

    pub(crate) fn read_record(&self) -> io::Result<Option<Record>> {
        read(self.record(), |record: &Record| record.version)
    }
}

pub(crate) fn write_launch(path: PathBuf, launch: &Launch) -> io::Result<()> {
    write(path, launch, Survive::Process)
}

pub(crate) fn read_launch(path: PathBuf) -> io::Result<Option<Launch>> {
    read(path, |launch: &Launch| launch.version)
}

fn write<T: Serialize>(path: PathBuf, value: &T, survive: Survive) -> io::Result<()> {
    disk::write(&path, &serde_json::to_vec_pretty(value)?, survive)
}

/// Nothing when there is no such file; `InvalidData` when it cannot be understood.
fn read<T: DeserializeOwned>(
    path: PathBuf,
    version: impl FnOnce(&T) -> u32,
) -> io::Result<Option<T>> {
    let Some(bytes) = disk::read(&path)? else { return Ok(None) };
    let broken = |why: String| {
        io::Error::new(io::ErrorKind::InvalidData, format!("{} is broken: {why}", path.display()))
    };
    let value: T = serde_json::from_slice(&bytes).map_err(|error| broken(error.to_string()))?;
    match version(&value) {
        VERSION => Ok(Some(value)),
        other => Err(broken(format!("version {other}, this agent knows {VERSION}"))),
    }
}
