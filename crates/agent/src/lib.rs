//! The agent: runs the workloads of one node and says how they are.
//!
//! ```text
//!  FromServer --> inbox --> assignments (on disk) --+
//!                                                   v
//!                                     plan(desired, observed, now)      pure
//!                                                   |
//!                     actions: save, start, stop, kill, remove
//!                                                   v
//!  ToServer <-- reporter <-- observed <--- Runtime (process, podman)
//!                                                   | one supervisor per process,
//!                                                   v podman's conmon per container
//!                                          the program and its descendants
//! ```
//!
//! Owns: the decision what to do with each instance ([`plan`]), the assignments on disk, the
//! [`runtime::Runtime`] trait with the `process` and `podman` runtimes behind it, the supervisor
//! process ([`supervisor`]), probes, files, commands beside instances, and the reports to the server.
//!
//! Not in it: the connection to the server. Whoever holds the connection gives the agent two bounded
//! channels, sends [`hello`] as the first message of each connection, and connects again when it is
//! lost. The agent goes on without a server, and without itself: a supervisor outlives the agent.

#![cfg_attr(
    test,
    allow(clippy::unwrap_used, reason = "a test that unwraps nothing fails, as it should")
)]

mod agent;
mod assignments;
mod cgroups;
mod clock;
mod config;
mod dependencies;
mod desired;
mod disk;
mod error;
mod execs;
mod files;
mod folder_id;
mod load;
mod lock;
mod logs;
pub mod model;
pub mod plan;
mod probes;
mod procfs;
mod report;
pub mod runtime;
pub mod supervisor;
mod users;
pub mod volumes;

pub use agent::run;
pub use config::{AgentConfig, OnStop, PodmanConfig, SupervisorCommand, hello};
pub use error::Error;
pub use folder_id::agent_id;
pub use plan::Timing;
pub use volumes::HostVolumes;
