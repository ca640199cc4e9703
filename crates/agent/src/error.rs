//! The ways in which an agent as a whole can fail. What goes wrong with one instance is a state of
//! that instance, never an error of the agent.
use crate::runtime::RuntimeError;
use std::{io, path::PathBuf};

/// Why the agent could not run or ended early.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The folder cannot be made, read or locked.
    #[error("cannot use the agent's data folder {path}: {source}")]
    DataDir {
        /// What was tried.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// Two agents on one folder would each think that the other's programs are theirs.
    #[error(
        "another agent{} already uses {path}; stop it, or give this one a data folder of its own",
        .holder.as_deref().map(|pid| format!(" (pid {pid})")).unwrap_or_default()
    )]
    InUse {
        /// The data folder.
        path: PathBuf,
        /// The process id that the other agent left in its lock file.
        holder: Option<String>,
    },
    /// What runs must be known before anything is started.
    #[error("cannot find out what still runs for this agent: {0}")]
    Recover(#[from] RuntimeError),
    /// Workloads were to be stopped with the agent and did not end, not even when killed.
    #[error("the agent stopped, but these instances did not: {}", .ids.join(", "))]
    NotStopped {
        /// The instances.
        ids: Vec<String>,
    },
    /// A task of the agent panicked; which is a fault in the agent.
    #[error("a task of the agent failed: {0}")]
    Task(#[from] tokio::task::JoinError),
}
