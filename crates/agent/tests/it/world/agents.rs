//! Agents: one that can be stopped or dropped, and one that can be killed.
use super::{PATIENCE, Server};
use orrery_agent::{AgentConfig, Error};
use orrery_proto::fleet::v1::{FromServer, ToServer};
use prost::Message;
use rustix::process::{Pid, Signal, kill_process_group};
use std::{path::Path, process::Stdio};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

/// About as much room as the real connection has.
const CHANNEL_LEN: usize = 16;

/// An agent in this process.
pub struct Agent {
    stop: CancellationToken,
    task: JoinHandle<Result<(), Error>>,
}

impl Agent {
    pub fn start(config: AgentConfig) -> (Self, Server) {
        Self::start_with_room(config, CHANNEL_LEN)
    }

    pub fn start_with_room(config: AgentConfig, room: usize) -> (Self, Server) {
        let (to_server, from_agent) = mpsc::channel(room);
        let (to_agent, from_server) = mpsc::channel(CHANNEL_LEN);
        let stop = CancellationToken::new();
        let running = orrery_agent::run(config, to_server, from_server, stop.clone());
        let task = tokio::spawn(running);
        (Self { stop, task }, Server::new(to_agent, from_agent))
    }

    /// Asks it to stop and returns what it returns.
    pub async fn stop(mut self) -> Result<(), Error> {
        self.stop.cancel();
        timeout(PATIENCE, &mut self.task).await.unwrap().unwrap()
    }

    /// Returns what it returns without being asked.
    pub async fn ended(mut self) -> Result<(), Error> {
        timeout(PATIENCE, &mut self.task).await.unwrap().unwrap()
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// An agent in a process of its own.
pub struct KillableAgent {
    child: Child,
}

impl KillableAgent {
    pub fn start(data_dir: &Path) -> (Self, Server) {
        Self::start_with(data_dir, &[])
    }

    pub fn start_with(data_dir: &Path, env: &[(String, String)]) -> (Self, Server) {
        let mut command = Command::new(env!("CARGO_BIN_EXE_agent-harness"));
        command.process_group(0).envs(env.iter().cloned());
        Self::spawn(command, data_dir)
    }

    /// As a service manager starts it: the first of a session that has no terminal.
    pub fn lead_session(data_dir: &Path) -> (Self, Server) {
        let mut command = Command::new("setsid");
        command.arg(env!("CARGO_BIN_EXE_agent-harness"));
        Self::spawn(command, data_dir)
    }

    fn spawn(mut command: Command, data_dir: &Path) -> (Self, Server) {
        let mut child = command
            .arg("agent")
            .arg(data_dir)
            .env("ORRERY_TEST_SECRET", "of the agent")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let (to_agent, messages) = mpsc::channel(CHANNEL_LEN);
        let (states, from_agent) = mpsc::channel(CHANNEL_LEN);
        tokio::spawn(forward(messages, child.stdin.take().unwrap()));
        tokio::spawn(collect(child.stdout.take().unwrap(), states));
        (Self { child }, Server::new(to_agent, from_agent))
    }

    /// As a terminal does on Ctrl-C: everything in its process group gets the signal.
    pub async fn interrupt_group(mut self) {
        let group = Pid::from_raw(i32::try_from(self.child.id().unwrap()).unwrap()).unwrap();
        kill_process_group(group, Signal::INT).unwrap();
        self.child.wait().await.unwrap();
    }

    /// With SIGKILL: it cannot do anything about it.
    pub async fn kill(mut self) {
        self.child.kill().await.unwrap();
    }
}

async fn forward(mut messages: mpsc::Receiver<FromServer>, mut pipe: ChildStdin) {
    while let Some(message) = messages.recv().await {
        let bytes = message.encode_to_vec();
        let len = u32::try_from(bytes.len()).unwrap().to_le_bytes();
        if pipe.write_all(&[&len, bytes.as_slice()].concat()).await.is_err() {
            return;
        }
    }
}

async fn collect(mut pipe: ChildStdout, states: mpsc::Sender<ToServer>) {
    while let Ok(len) = pipe.read_u32_le().await {
        let mut bytes = vec![0; usize::try_from(len).unwrap()];
        if pipe.read_exact(&mut bytes).await.is_err() {
            return;
        }
        if states.send(ToServer::decode(bytes.as_slice()).unwrap()).await.is_err() {
            return;
        }
    }
}
