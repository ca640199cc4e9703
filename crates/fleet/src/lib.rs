//! Agents and workloads: who is connected, what runs where, and what became of it.
//!
//! ```text
//!   Workload ──plan──> WorkloadInstance ──assignments──> outbox ──> agent
//!      ^                      ^                                       │
//!      └──────summary─────────┴───────────────states──────────────────┘
//! ```
//! Owns: the communication middleware (agent and commander connections), the workload controller,
//! the states that agents report, Node resources.
//! Not in it: running anything (that is the agent), what a commander's request means (that is the
//! server's), TLS and listeners.
pub mod agents;
pub mod commander;
pub mod middleware;
pub mod workloads;

pub mod elsewhere;
mod execs;
mod fleet;
pub mod leader;
mod logs;
pub mod peers;
mod top;
pub mod where_is;

pub use fleet::{Fleet, Place};
pub use middleware::hello::VERSION;
