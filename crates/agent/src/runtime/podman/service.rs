//! Podman's API socket: one that is there, or one that the agent starts.
use super::super::RuntimeError;
use super::words;
use crate::config::PodmanConfig;
use crate::disk;
use bollard::{ClientVersion, Docker};
use std::{
    fs::File,
    io::{self, Read},
    path::{Path, PathBuf},
    process::Stdio,
    time::Duration,
};
use tokio::process::{Child, Command};
use tokio::sync::Mutex;
use tokio::time::{Instant, sleep};

/// The oldest version of the API that podman of every supported Debian speaks.
const API: ClientVersion = ClientVersion { major_version: 1, minor_version: 41 };

/// How long an answer may take. Fetching an image takes longer, but says something meanwhile.
const ANSWER_SECONDS: u64 = 120;

/// A socket that is there answers at once; one that a dead service left does not.
const PING_PATIENCE: Duration = Duration::from_secs(5);

/// A started service answers within a second; more is a busy machine.
const START_PATIENCE: Duration = Duration::from_secs(30);
const START_INTERVAL: Duration = Duration::from_millis(20);

/// The service that the agent started ends itself when nobody has asked it anything for so long.
const IDLE_SECONDS: &str = "--time=60";

/// How much of what a failed service said is repeated.
const SAID_MAX_BYTES: u64 = 2048;

/// A podman that answered: the library for most questions, the socket for what that cannot read.
#[derive(Clone)]
pub(super) struct Podman {
    pub docker: Docker,
    pub socket: PathBuf,
}

impl std::ops::Deref for Podman {
    type Target = Docker;

    fn deref(&self) -> &Docker {
        &self.docker
    }
}

/// The way to podman.
pub(super) struct Service {
    config: PodmanConfig,
    folder: PathBuf,
    /// What answered last.
    connected: Mutex<Option<Podman>>,
}

impl Service {
    /// `folder` is where the socket goes that the agent starts.
    pub(super) fn new(config: PodmanConfig, folder: PathBuf) -> Self {
        Self { config, folder, connected: Mutex::new(None) }
    }

    fn own_socket(&self) -> PathBuf {
        self.folder.join("podman.sock")
    }

    /// A podman that answers.
    pub(super) async fn client(&self) -> Result<Podman, RuntimeError> {
        let mut connected = self.connected.lock().await;
        if let Some(podman) = connected.as_ref()
            && answers(podman).await
        {
            return Ok(podman.clone());
        }
        let podman = match self.find().await {
            Some(podman) => podman,
            None => self.start().await?,
        };
        Ok(connected.insert(podman).clone())
    }

    /// A podman that answers without being started.
    pub(super) async fn find(&self) -> Option<Podman> {
        for socket in self.config.sockets().into_iter().chain([self.own_socket()]) {
            if let Some(podman) = dial(&socket)
                && answers(&podman).await
            {
                return Some(podman);
            }
        }
        None
    }

    async fn start(&self) -> Result<Podman, RuntimeError> {
        let socket = self.own_socket();
        let mut child = self.spawn(&socket).map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => {
                let program = self.config.program.display();
                let text = format!("there is no {program} on this node; install podman there");
                RuntimeError::Podman(text)
            }
            _ => RuntimeError::io("start podman's service")(error),
        })?;
        let deadline = Instant::now() + START_PATIENCE;
        loop {
            if let Some(podman) = dial(&socket)
                && answers(&podman).await
            {
                tracing::info!(socket = %socket.display(), "started podman's service");
                return Ok(podman);
            }
            let ended = child.try_wait().map_err(RuntimeError::io("wait for podman's service"))?;
            if ended.is_some() || deadline < Instant::now() {
                let said = said(&self.log());
                return Err(RuntimeError::Podman(format!("podman's service does not run: {said}")));
            }
            sleep(START_INTERVAL).await;
        }
    }

    fn log(&self) -> PathBuf {
        self.folder.join("podman.log")
    }

    /// In a process group of its own, where a terminal's Ctrl-C does not reach it. It may outlive the
    /// agent: the next one finds its socket.
    fn spawn(&self, socket: &Path) -> io::Result<Child> {
        disk::make_folder(&self.folder)?;
        let log = File::create(self.log())?;
        Command::new(&self.config.program)
            .args(["system", "service", IDLE_SECONDS])
            .arg(format!("unix://{}", socket.display()))
            .envs(&self.config.env)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .process_group(0)
            .spawn()
    }
}

fn dial(socket: &Path) -> Option<Podman> {
    let docker = Docker::connect_with_unix(socket.to_str()?, ANSWER_SECONDS, &API).ok()?;
    Some(Podman { docker, socket: socket.to_owned() })
}

async fn answers(docker: &Docker) -> bool {
    matches!(tokio::time::timeout(PING_PATIENCE, docker.ping()).await, Ok(Ok(_)))
}

fn said(log: &Path) -> String {
    let mut text = String::new();
    let read = File::open(log).and_then(|file| file.take(SAID_MAX_BYTES).read_to_string(&mut text));
    match read {
        Ok(_) if !text.trim().is_empty() => words::last_line(&text).to_owned(),
        Ok(_) | Err(_) => "it left no message".to_owned(),
    }
}
