//! Workloads as containers of the node's podman.
//!
//! ```text
//!  agent ── API socket ──> podman ──> conmon ──> the container's first process
//!    ^                                  |
//!    `-- pidfd of the first process     `-- log file in the folder of the instance
//! ```
//!
//! Podman keeps the record: the container of an instance has a name that is made of the instance's
//! id, so there is never a second one, and labels that say what it was made of and what came before.
//! Conmon, not the agent, is the parent of a container; an agent that is killed and born again finds
//! the container by its name, and how it ended in podman's books.
mod container;
mod exec;
mod inspect;
mod owner;
mod service;
mod state;
mod unrecorded;
mod words;

pub(crate) use unrecorded::recover;

use super::exec::{ExecRequest, Executing};
use super::{Runtime, RuntimeError, StartRequest, StopRequest};
use crate::assignments::INSTANCES;
use crate::config::{PodmanConfig, SupervisorCommand};
use crate::disk::{self, Survive};
use crate::model::{InstanceId, Run, RunState};
use crate::procfs;
use crate::runtime::process::spawn;
use crate::supervisor::{LOG_FOLDER, deadline};
use crate::volumes::Volumes;
use bollard::Docker;
use bollard::query_parameters::{
    CreateContainerOptionsBuilder, CreateImageOptionsBuilder, KillContainerOptionsBuilder,
    RemoveContainerOptionsBuilder,
};
use futures::TryStreamExt;
use inspect::Container;
use orrery_proto::apps::v1::{Podman as PodmanSpec, workload_instance_spec};
use service::{Podman, Service};
use state::Glimpse;
use std::net::IpAddr;
use std::{io, path::PathBuf, process::Stdio, time::Duration};
use tokio::time::{Instant, sleep};

/// A note in the folder of an instance that it has, or may have, a container.
pub(crate) const MARK: &str = "podman";

/// What the note says of a container that runs without the agent having known of it.
const FOUND: &[u8] = b"found";

/// A note that the container with this id was asked to stop.
const STOP_MARK: &str = "podman-stop";

/// How long podman may take from the end of the first process to saying so.
const SETTLE_PATIENCE: Duration = Duration::from_secs(60);
const SETTLE_INTERVAL: Duration = Duration::from_millis(30);

/// The podman runtime of one agent.
pub struct PodmanRuntime {
    data_dir: PathBuf,
    node: String,
    service: Service,
    /// Which also ends containers that do not stop when they are asked.
    supervisor: SupervisorCommand,
}

impl PodmanRuntime {
    /// `run_dir` is where the socket goes when the agent has to start podman's service.
    pub fn new(
        data_dir: PathBuf,
        node: String,
        config: PodmanConfig,
        run_dir: PathBuf,
        supervisor: SupervisorCommand,
    ) -> Self {
        Self { data_dir, node, service: Service::new(config, run_dir), supervisor }
    }

    fn folder(&self, id: &InstanceId) -> PathBuf {
        self.data_dir.join(INSTANCES).join(id.as_str())
    }

    /// Whether the instance has, or may have, a container.
    pub(super) fn has(&self, id: &InstanceId) -> bool {
        self.folder(id).join(MARK).exists()
    }

    async fn look(
        &self,
        podman: &Podman,
        id: &InstanceId,
    ) -> Result<Option<Container>, RuntimeError> {
        inspect::container(&podman.socket, &container::name(id)).await
    }

    fn glimpse(&self, id: &InstanceId, found: &Container) -> Result<Glimpse, RuntimeError> {
        let asked = disk::read(&self.folder(id).join(STOP_MARK));
        let asked = asked.map_err(RuntimeError::io("read whether it was asked to stop"))?;
        let stopped = asked.as_deref() == Some(found.id.as_bytes());
        match state::glimpse(found, stopped) {
            Glimpse::Settled(run) if run.is_live() => self.known(id, found, run),
            glimpse => Ok(glimpse),
        }
    }

    /// Says of a live run whether the agent had forgotten it, and notes again which volumes it uses.
    fn known(&self, id: &InstanceId, found: &Container, run: Run) -> Result<Glimpse, RuntimeError> {
        let note = disk::read(&self.folder(id).join(MARK));
        let note = note.map_err(RuntimeError::io("read whether it was found"))?;
        if note.as_deref() != Some(FOUND) {
            return Ok(Glimpse::Settled(run));
        }
        let places = found.config.labels.as_ref().map(container::volumes).unwrap_or_default();
        let noted = Volumes::note_again(&self.data_dir, id, &places);
        noted.map_err(RuntimeError::io("note the volumes that it uses"))?;
        let warning = Some(unrecorded::FOUND.to_owned());
        Ok(Glimpse::Settled(Run { warning, ..run }))
    }

    /// What there is of an instance that has no record of a container. It is refused when somebody else
    /// made it; what runs of our own making is told; the rest makes room.
    async fn forgotten(
        &self,
        podman: &Podman,
        id: &InstanceId,
        found: &Container,
    ) -> Result<Option<Run>, RuntimeError> {
        unrecorded::refuse_others(found, &self.node, &self.data_dir)?;
        match state::glimpse(found, false) {
            Glimpse::Settled(run) if run.is_live() => {
                unrecorded::note(&self.folder(id))
                    .map_err(RuntimeError::io("note what was found"))?;
                self.settled(id).await
            }
            Glimpse::Settled(_) | Glimpse::Unsettled | Glimpse::NeverStarted => {
                discard(podman, id).await.map(|()| None)
            }
        }
    }

    /// The last run, once podman has made up its mind.
    async fn settled(&self, id: &InstanceId) -> Result<Option<Run>, RuntimeError> {
        let podman = self.service.client().await?;
        let deadline = Instant::now() + SETTLE_PATIENCE;
        loop {
            let Some(found) = self.look(&podman, id).await? else { return Ok(None) };
            match self.glimpse(id, &found)? {
                Glimpse::Settled(run) if !is_passing(&run) => return Ok(Some(run)),
                // It never ran, so nothing is forgotten with it.
                Glimpse::NeverStarted => {
                    discard(&podman, id).await?;
                    return Ok(None);
                }
                Glimpse::Settled(_) | Glimpse::Unsettled => {}
            }
            if deadline < Instant::now() {
                return Err(RuntimeError::NoAnswer(SETTLE_PATIENCE));
            }
            sleep(SETTLE_INTERVAL).await;
        }
    }

    /// Everything that has to be there before podman is asked to make a container.
    fn prepare(&self, id: &InstanceId) -> io::Result<()> {
        let folder = self.folder(id);
        disk::make_folder(&folder.join(LOG_FOLDER))?;
        forget(&folder.join(STOP_MARK))?;
        disk::write(&folder.join(MARK), b"", Survive::PowerCut)
    }

    async fn create_and_start(
        &self,
        podman: &Podman,
        request: &StartRequest,
        spec: &PodmanSpec,
    ) -> Result<Result<(), String>, RuntimeError> {
        if let Err(why) = ensure_image(podman, spec).await {
            return Ok(Err(why));
        }
        let name = container::name(&request.id);
        let body = container::body(request, spec, &self.node, &self.data_dir);
        let options = CreateContainerOptionsBuilder::default().name(&name).build();
        let image = spec.image();
        match podman.create_container(Some(options), body).await {
            Ok(_) => {}
            Err(error) if words::is_conflict(&error) => return Err(RuntimeError::StillThere),
            Err(error) => return Ok(Err(words::refused(image, &error))),
        }
        let given = match &request.files {
            Some(files) => owner::give(podman, &name, files).await,
            None => Ok(()),
        };
        let started = match given {
            Ok(()) => podman
                .start_container(&name, None)
                .await
                .map_err(|error| words::refused(image, &error)),
            Err(why) => Err(why),
        };
        if started.is_err() {
            discard(podman, &request.id).await?;
        }
        Ok(started)
    }

    /// Leaves somebody behind who ends the container after its grace, whatever becomes of this agent.
    async fn set_deadline(&self, id: &InstanceId, grace: Duration) -> Result<(), RuntimeError> {
        let podman = self.service.client().await?;
        let found = self.look(&podman, id).await?;
        let first = found.and_then(|found| state::pid(&found.state)).and_then(procfs::stat);
        let Some(first) = first.filter(|first| !first.zombie) else { return Ok(()) };
        let mut command = tokio::process::Command::new(&self.supervisor.program);
        command.args(&self.supervisor.args).arg(deadline::DEADLINE);
        command.args(deadline::words(first.identity, grace)).env_clear().current_dir("/");
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        // Its end is of no interest; the runtime waits for it so that it does not stay a zombie.
        command.spawn().map(drop).map_err(RuntimeError::io("set its deadline"))
    }

    async fn signal(&self, id: &InstanceId, signal: &str) -> Result<(), RuntimeError> {
        let podman = self.service.client().await?;
        let Some(found) = self.look(&podman, id).await? else { return Ok(()) };
        let mark = self.folder(id).join(STOP_MARK);
        let container = found.id;
        if let Err(error) = disk::write(&mark, container.as_bytes(), Survive::Process) {
            tracing::warn!(%id, %error, "cannot note that it is asked to stop");
        }
        let options = KillContainerOptionsBuilder::default().signal(signal).build();
        match podman.kill_container(&container, Some(options)).await {
            Err(error) if words::is_over(&error) => Ok(()),
            outcome => outcome.map_err(words::trouble("ask it to stop")),
        }
    }
}

/// Podman calls a container running for a moment after its first process has ended.
fn is_passing(run: &Run) -> bool {
    match run.state {
        RunState::Running { pid, .. } => procfs::stat(pid).is_none_or(|stat| stat.zombie),
        RunState::StartFailed { .. }
        | RunState::Ended { .. }
        | RunState::Lost { .. }
        | RunState::Unknown { .. } => false,
    }
}

async fn discard(podman: &Docker, id: &InstanceId) -> Result<(), RuntimeError> {
    // With the volumes that were made for it alone.
    let options = RemoveContainerOptionsBuilder::default().v(true).force(false).build();
    match podman.remove_container(&container::name(id), Some(options)).await {
        Err(error) if words::is_missing(&error) || words::is_unchanged(&error) => Ok(()),
        outcome => outcome.map_err(words::trouble("remove its container")),
    }
}

fn forget(path: &std::path::Path) -> io::Result<()> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        outcome => outcome,
    }
}

/// Sees to it that the image is there, or says why it is not.
async fn ensure_image(podman: &Docker, spec: &PodmanSpec) -> Result<(), String> {
    let image = spec.image();
    let pull = spec.pull.as_deref().unwrap_or("missing");
    let there = match podman.inspect_image(image).await {
        Ok(_) => true,
        Err(error) if words::is_missing(&error) => false,
        Err(error) => return Err(words::no_image(image, &words::said(&error))),
    };
    match (pull, there) {
        ("never", false) => Err(words::no_image(image, "it is never to be fetched (pull: never)")),
        ("never", true) | ("missing", true) => Ok(()),
        (_, _) => {
            let options = CreateImageOptionsBuilder::default().from_image(image).build();
            let fetched = podman.create_image(Some(options), None, None);
            let fetched = fetched.try_for_each(|_| async { Ok(()) }).await;
            fetched.map_err(|error| {
                words::no_image(image, &format!("cannot be fetched: {}", words::said(&error)))
            })
        }
    }
}

#[async_trait::async_trait]
impl Runtime for PodmanRuntime {
    async fn start(&self, request: &StartRequest) -> Result<Run, RuntimeError> {
        let Some(workload_instance_spec::Runtime::Podman(spec)) = &request.spec.runtime else {
            return Err(RuntimeError::Unsupported);
        };
        let podman = self.service.client().await?;
        match self.look(&podman, &request.id).await? {
            Some(_) if self.has(&request.id) => discard(&podman, &request.id).await?,
            Some(found) => {
                if let Some(run) = self.forgotten(&podman, &request.id, &found).await? {
                    return Ok(run);
                }
            }
            None => {}
        }
        self.prepare(&request.id).map_err(RuntimeError::io("prepare its folder"))?;
        match self.create_and_start(&podman, request, spec).await? {
            Ok(()) => match self.settled(&request.id).await? {
                Some(run) => Ok(run),
                None => {
                    Err(RuntimeError::Podman("its container vanished as it started".to_owned()))
                }
            },
            Err(message) => Ok(Run {
                hash: request.hash.clone(),
                history: request.history,
                state: RunState::StartFailed { message },
                warning: None,
                stop: None,
            }),
        }
    }

    async fn inspect(&self, id: &InstanceId) -> Result<Option<Run>, RuntimeError> {
        self.settled(id).await
    }

    async fn wait(&self, id: &InstanceId) -> Result<Option<Run>, RuntimeError> {
        let run = self.settled(id).await?;
        let Some(RunState::Running { pid, .. }) = run.as_ref().map(|run| &run.state) else {
            return Ok(run);
        };
        let process = procfs::stat(*pid).map(|stat| stat.identity);
        let handle = process.map(procfs::Identity::open).transpose();
        let handle = handle.map_err(RuntimeError::io("watch its first process"))?.flatten();
        if let Some(handle) = handle {
            spawn::ended(handle).await?;
        }
        self.settled(id).await
    }

    async fn stop(&self, id: &InstanceId, request: StopRequest) -> Result<(), RuntimeError> {
        // In this order: once it was asked, its end is certain.
        self.set_deadline(id, request.grace).await?;
        self.signal(id, request.signal.name()).await
    }

    async fn kill(&self, id: &InstanceId) -> Result<(), RuntimeError> {
        self.signal(id, "SIGKILL").await
    }

    async fn remove(&self, id: &InstanceId) -> Result<(), RuntimeError> {
        let podman = self.service.client().await?;
        match self.settled(id).await? {
            Some(run) if run.is_live() => Err(RuntimeError::StillThere),
            Some(_) => discard(&podman, id).await,
            None => Ok(()),
        }?;
        forget(&self.folder(id).join(MARK)).map_err(RuntimeError::io("forget its container"))
    }

    async fn exec(&self, id: &InstanceId, request: ExecRequest) -> Result<Executing, RuntimeError> {
        let podman = self.service.client().await?;
        exec::begin(podman.docker, &container::name(id), request).await
    }

    async fn address(&self, id: &InstanceId) -> Result<IpAddr, RuntimeError> {
        let podman = self.service.client().await?;
        let found = self.look(&podman, id).await?;
        found.map(|found| state::address(&found)).ok_or(RuntimeError::NotRunning)
    }

    fn root(&self, _id: &InstanceId, pid: i32) -> Option<i32> {
        Some(pid)
    }

    fn container(&self, id: &InstanceId) -> Option<String> {
        Some(container::name(id))
    }
}
