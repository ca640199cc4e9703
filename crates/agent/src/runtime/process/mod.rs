//! Workloads as plain processes, each below a supervisor process of its own.
//!
//! ```text
//!  agent                      supervisor (own session, subreaper)         program (own group)
//!    | flock(lock), write launch    |                                          |
//!    |-- spawn, stdin = lock ------>| write run: starting                      |
//!    |                              |-- spawn -------------------------------->|
//!    |<-------- "ready" ------------| write run: running                       |
//!    |   (the agent may die and be born again here; pidfd tells it of the end) |
//!    |-- write request, SIGTERM --->|-- stop signal, later SIGKILL ----------->|
//!    |                              |<------- exit ----------------------------|
//!    |                              | kill what is left, write run: ended      |
//!    |<- pidfd readable ------------x                                          x
//! ```
//!
//! They speak through files that are replaced as a whole, and one signal: nothing to accept, to parse
//! halfway or to reconnect, no limit on the length of a path, and a supervisor of an older version
//! understands a newer agent. The lock goes from the agent to the supervisor as its standard input,
//! so it is held without a gap from before the supervisor exists until it is gone; whoever cannot get
//! it must not start anything.
//!
//! A program that ends while the agent is away has its end recorded by the supervisor; the agent
//! reports it and applies the restart policy when it is back.
mod environment;
mod exec;
mod leftovers;
mod mark;
pub(crate) mod record;
pub(crate) mod spawn;
mod state;
pub(crate) mod unrecorded;

use super::exec::{ExecRequest, Executing};
use super::{Runtime, RuntimeError, StartRequest, StopRequest};
use crate::config::SupervisorCommand;
use crate::model::{InstanceId, Run, RunState, StopSignal};
use crate::{cgroups, procfs};
use record::{Folder, Phase, Request};
use std::net::IpAddr;
use std::{io, path::PathBuf, time::Duration};

/// What programs are told of where they run.
pub(crate) struct NodeNames {
    pub(crate) node: String,
    /// Where the agent's server is; empty where nobody said.
    pub(crate) server: String,
    /// The data folder of the agent, an absolute path.
    pub(crate) data_dir: PathBuf,
}

/// The process runtime of one agent.
pub struct ProcessRuntime {
    instances: PathBuf,
    names: NodeNames,
    supervisor: SupervisorCommand,
}

impl ProcessRuntime {
    /// A runtime that keeps one folder per instance in `instances`, an absolute path.
    pub(crate) fn new(instances: PathBuf, names: NodeNames, supervisor: SupervisorCommand) -> Self {
        Self { instances, names, supervisor }
    }

    fn folder(&self, id: &InstanceId) -> Folder {
        Folder::new(self.instances.join(id.as_str()))
    }

    /// Tells the supervisor, which reads how to stop when the signal comes. When that cannot be
    /// written (a full disk) it stops as it was told at its start, which is better than not at all.
    async fn ask(&self, id: &InstanceId, stop: StopRequest) -> Result<(), RuntimeError> {
        let folder = self.folder(id);
        blocking("ask the supervisor to stop it", move || {
            let Some(record) = folder.read_record()? else { return Ok(()) };
            let Phase::Running { .. } = record.phase else { return Ok(()) };
            if let Err(error) = folder.write_request(&Request::new(record.run, stop)) {
                let folder = folder.path().display();
                tracing::warn!(%folder, %error, "cannot say how to stop; it stops its own way");
            }
            record.supervisor.signal(rustix::process::Signal::TERM).map(|_| ())
        })
        .await
    }
}

#[async_trait::async_trait]
impl Runtime for ProcessRuntime {
    async fn start(&self, request: &StartRequest) -> Result<Run, RuntimeError> {
        let folder = self.folder(&request.id);
        let launch = environment::launch(request, &self.names)?;
        let launched = launch.run.clone();
        let started =
            spawn::spawn(folder.clone(), launch, self.supervisor.clone(), &self.names.node).await?;
        let found = self.inspect(&request.id).await?;
        let run = match found {
            Some(run) if state::is_of(folder.clone(), launched).await? => run,
            Some(_) | None => silent(request, folder).await?,
        };
        if !run.is_live() {
            started.reap().await?;
        }
        Ok(run)
    }

    async fn inspect(&self, id: &InstanceId) -> Result<Option<Run>, RuntimeError> {
        state::settled(&self.folder(id), id).await
    }

    async fn wait(&self, id: &InstanceId) -> Result<Option<Run>, RuntimeError> {
        let folder = self.folder(id);
        if let Some(supervisor) = state::supervisor(folder).await? {
            spawn::ended(supervisor).await?;
        }
        self.inspect(id).await
    }

    async fn stop(&self, id: &InstanceId, request: StopRequest) -> Result<(), RuntimeError> {
        self.ask(id, request).await
    }

    async fn kill(&self, id: &InstanceId) -> Result<(), RuntimeError> {
        self.ask(id, StopRequest { signal: StopSignal::Kill, grace: Duration::ZERO }).await
    }

    async fn remove(&self, id: &InstanceId) -> Result<(), RuntimeError> {
        match self.inspect(id).await? {
            Some(run) if run.is_live() => Err(RuntimeError::StillThere),
            Some(_) | None => {
                let id = id.clone();
                blocking("remove its control groups", move || cgroups::remove(id.as_str())).await
            }
        }
    }

    async fn exec(&self, id: &InstanceId, request: ExecRequest) -> Result<Executing, RuntimeError> {
        exec::begin(self.folder(id), self.supervisor.clone(), request).await
    }

    async fn address(&self, _id: &InstanceId) -> Result<IpAddr, RuntimeError> {
        Ok(IpAddr::from([127, 0, 0, 1]))
    }

    /// The supervisor, because whatever loses its parent becomes its child.
    fn root(&self, _id: &InstanceId, pid: i32) -> Option<i32> {
        procfs::stat(pid).map(|stat| stat.parent)
    }

    fn container(&self, _id: &InstanceId) -> Option<String> {
        None
    }
}

/// A supervisor that ended before it recorded anything: the binary is broken, or not a supervisor.
async fn silent(request: &StartRequest, folder: Folder) -> Result<Run, RuntimeError> {
    let said = blocking("read the log of the supervisor", move || {
        std::fs::read_to_string(folder.supervisor_log())
    })
    .await?;
    let said = said.lines().next().unwrap_or("it left no message");
    let message = format!("its supervisor ended without starting it: {said}");
    let state = RunState::StartFailed { message };
    Ok(Run {
        hash: request.hash.clone(),
        history: request.history,
        state,
        warning: None,
        stop: None,
    })
}

/// Runs what may block on the disk away from the tasks that must not.
async fn blocking<T: Send + 'static>(
    doing: &str,
    work: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> Result<T, RuntimeError> {
    let outcome = tokio::task::spawn_blocking(work).await.map_err(io::Error::other);
    outcome.and_then(|outcome| outcome).map_err(RuntimeError::io(doing))
}
