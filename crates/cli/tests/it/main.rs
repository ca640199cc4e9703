//! The `orrery` binary as a person uses it.
#![allow(clippy::unwrap_used, reason = "a panic with its line is a good test failure")]
mod backup;
mod bad_input;
mod changes;
mod dependencies;
mod harness;
mod identity;
mod logs;
mod manage;
mod metrics;
mod queries;
mod reachability;
mod readme;
mod reference;
mod replicas;
mod storage;
mod terminal;
mod tls;
mod up;
