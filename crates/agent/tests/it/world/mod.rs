//! A server that is played by the test, agents in this process and in others, and programs.
mod agents;
mod podman;
mod program;
mod server;

pub use agents::{Agent, KillableAgent};
pub use podman::Box1;
pub use program::{Program, exists, kill, read, read_lines, wait_for, wait_gone};
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

impl Drop for World {
    fn drop(&mut self) {
        self.end_all();
    }
}

impl World {
    pub fn new() -> Self {
        Self { dir: tempfile::tempdir().unwrap() }
    }

    /// Ends everything that works in the folder of this test, supervisors included.
    fn end_all(&self) {
        let below = |pid: &i64| {
            let folder = std::fs::read_link(format!("/proc/{pid}/cwd")).unwrap_or_default();
            folder.starts_with(self.path())
        };
        loop {
            let entries = std::fs::read_dir("/proc").unwrap();
            let pids = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
            let left: Vec<i64> = pids.filter(below).collect();
            if left.is_empty() {
                return;
            }
            for pid in left {
                // Gone already is as good.
                let _ = program::try_kill(pid);
            }
        }
    }

    /// Where programs and tests leave each other notes.
    pub fn path(&self) -> &Path {
        self.dir.path()
    }

    pub fn data_dir(&self) -> std::path::PathBuf {
        self.path().join("data")
    }

    pub fn run_dir(&self) -> std::path::PathBuf {
        self.data_dir().join("run")
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
        config.run_dir = self.run_dir();
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
