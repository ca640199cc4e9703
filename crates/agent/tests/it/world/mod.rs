//! A server that is played by the test, agents in this process and in others, and programs.
mod agents;
mod program;
mod server;

pub use agents::{Agent, KillableAgent};
pub use program::{Program, exists, kill, read, wait_for, wait_gone};
pub use server::Server;

use orrery_agent::{AgentConfig, SupervisorCommand};
use std::{path::Path, time::Duration};
use tempfile::TempDir;

/// Longest that any single condition is waited for. Reached only when a test fails.
pub const PATIENCE: Duration = Duration::from_secs(20);

/// A folder for one agent and its programs.
pub struct World {
    dir: TempDir,
}

impl World {
    pub fn new() -> Self {
        Self { dir: tempfile::tempdir().unwrap() }
    }

    /// Where programs and tests leave each other notes.
    pub fn path(&self) -> &Path {
        self.dir.path()
    }

    pub fn data_dir(&self) -> std::path::PathBuf {
        self.path().join("data")
    }

    pub fn instance_dir(&self, id: &str) -> std::path::PathBuf {
        self.data_dir().join("instances").join(id)
    }

    /// A configuration with short waits.
    pub fn config(&self) -> AgentConfig {
        let supervisor = SupervisorCommand {
            program: env!("CARGO_BIN_EXE_agent-harness").into(),
            args: vec!["supervisor".into()],
        };
        let mut config = AgentConfig::new("node-1", self.data_dir(), supervisor);
        config.timing.first_delay = Duration::from_millis(20);
        config.timing.longest_delay = Duration::from_millis(200);
        config.timing.retry_after = Duration::from_millis(200);
        config
    }

    /// A program that runs this shell script, with `$T` as the folder of the test.
    pub fn script(&self, text: &str) -> Program {
        Program::script(self.path(), text)
    }

    /// Starts an agent in this process, connected to a server that has greeted it.
    pub async fn agent(&self) -> (Agent, Server) {
        self.agent_with(|_| ()).await
    }

    pub async fn agent_with(&self, edit: impl FnOnce(&mut AgentConfig)) -> (Agent, Server) {
        let (agent, server) = self.lonely_agent(edit);
        server.greet().await;
        (agent, server)
    }

    /// Starts an agent that hears nothing from its server.
    pub fn lonely_agent(&self, edit: impl FnOnce(&mut AgentConfig)) -> (Agent, Server) {
        let mut config = self.config();
        edit(&mut config);
        Agent::start(config)
    }

    /// Starts an agent in a process of its own, connected to a server that has greeted it.
    pub async fn killable_agent(&self) -> (KillableAgent, Server) {
        let (agent, server) = KillableAgent::start(&self.data_dir());
        server.greet().await;
        (agent, server)
    }
}
