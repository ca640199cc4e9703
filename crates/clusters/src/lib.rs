//! Clusters: pools of machines, and the addons of a blueprint on every one of them.
//!
//! ```text
//!   Cluster ──expand──> MachineClass, MachineDeployment (one of each for a pool) ──> machines, nodes
//!      │                                                                               │
//!      └─ Blueprint ─ Addon, Addon, ... ──in order──> Workload (one for an addon) ─────┘ one copy on each
//! ```
//!
//! Owns: the kinds Cluster, Blueprint and Addon: what they must be like ([`validate`]), what they are expanded to and
//! what is said of them ([`plan`], pure), and the controllers that the leader runs. Not in it: how machines are made
//! (crate `machines`) and how workloads run (crate `fleet`). What they do is read from the store, where all meet.
mod controller;
pub mod names;
pub mod plan;
pub mod validate;
mod watches;
mod wiring;

pub use wiring::{register, rules, spawn_leader};
