//! What every way of running a workload has to offer.
mod all;
pub mod exec;
pub mod podman;
pub mod process;

pub(crate) use all::Runtimes;

use crate::model::{History, InstanceId, Run, SpecHash, StopSignal};
use crate::volumes::Bind;
use exec::{ExecRequest, Executing};
use orrery_proto::apps::v1::WorkloadInstanceSpec;
use std::net::IpAddr;
use std::{io, path::PathBuf, time::Duration};

/// Name of the process runtime, as agents say it in their hello.
pub const PROCESS: &str = "process";

/// Name of the podman runtime.
pub const PODMAN: &str = "podman";

/// Runs programs. The agent has at most one call per instance under way, [`Runtime::wait`] aside.
///
/// The contract that lets an agent die at any moment:
/// - A run outlives the agent, and [`Runtime::inspect`] of the next agent finds it again.
/// - Of one instance at most one run is live, even if two agents race to start it.
/// - A run that is reported as anything but running has left no process behind.
#[async_trait::async_trait]
pub trait Runtime: Send + Sync + 'static {
    /// Starts a run and returns when the program runs, or says in the run why it cannot. Only
    /// called when nothing runs. After an error the caller has to inspect.
    async fn start(&self, request: &StartRequest) -> Result<Run, RuntimeError>;

    /// The last run of the instance, whoever started it.
    async fn inspect(&self, id: &InstanceId) -> Result<Option<Run>, RuntimeError>;

    /// Like inspect, but returns only when nothing runs (any more). May be dropped at any time.
    async fn wait(&self, id: &InstanceId) -> Result<Option<Run>, RuntimeError>;

    /// Asks the run to stop. Returns before it has stopped; does nothing when nothing runs.
    async fn stop(&self, id: &InstanceId, request: StopRequest) -> Result<(), RuntimeError>;

    /// Ends the run with all its descendants. Returns before they are gone.
    async fn kill(&self, id: &InstanceId) -> Result<(), RuntimeError>;

    /// Forgets the last run. Refuses while something runs.
    async fn remove(&self, id: &InstanceId) -> Result<(), RuntimeError>;

    /// Begins a command where the live run is.
    async fn exec(&self, id: &InstanceId, request: ExecRequest) -> Result<Executing, RuntimeError>;

    /// Where the ports of the live run are reached.
    async fn address(&self, id: &InstanceId) -> Result<IpAddr, RuntimeError>;

    /// The process below which everything of the live run is, given the process that it reports.
    fn root(&self, id: &InstanceId, pid: i32) -> Option<i32>;

    /// The name of the container that the instance has, if it has one.
    fn container(&self, id: &InstanceId) -> Option<String>;
}

/// Everything a runtime has to know to start a run.
#[derive(Clone, Debug)]
pub struct StartRequest {
    pub id: InstanceId,
    pub project: String,
    pub spec: WorkloadInstanceSpec,
    pub hash: SpecHash,
    pub history: History,
    /// How to stop it if somebody other than the agent asks (the system that shuts down, say).
    pub stop: StopRequest,
    /// The folder with its files, if it has any.
    pub files: Option<PathBuf>,
    /// Volumes of this host that the program sees as folders.
    pub volumes: Vec<Bind>,
}

/// How a run is asked to stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StopRequest {
    pub signal: StopSignal,
    /// After this it is killed, even if the agent is gone by then.
    pub grace: Duration,
}

/// Why a runtime could not do its work. What is wrong with a program is not here but in its run.
#[derive(Debug, thiserror::Error)]
pub enum RuntimeError {
    #[error("cannot {doing}: {source}")]
    Io { doing: String, source: io::Error },
    #[error("an earlier run is not over yet")]
    StillThere,
    #[error("its supervisor did not answer within {} s", .0.as_secs())]
    NoAnswer(Duration),
    #[error("this runtime cannot run it")]
    Unsupported,
    #[error("it does not run")]
    NotRunning,
    #[error("{0}")]
    Podman(String),
}

impl RuntimeError {
    pub(crate) fn io(doing: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        let doing = doing.into();
        move |source| Self::Io { doing, source }
    }
}
