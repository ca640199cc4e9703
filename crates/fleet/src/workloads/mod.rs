//! Workloads and their copies: a pure plan, a pure summary, and a thin controller.
pub mod controller;
pub mod drain;
pub mod files;
pub mod graph;
pub mod ledger;
pub mod placement;
pub mod plan;
pub mod rollout;
pub mod summary;
pub mod uploads;
pub mod urgency;
pub mod validate;
pub mod volumes;
pub mod watches;

/// Held by a workload until its last copy is gone.
pub const INSTANCES_FINALIZER: &str = "orrery.dev/instances";
/// Held by a copy until its agent has stopped it.
pub const AGENT_FINALIZER: &str = "orrery.dev/agent";
