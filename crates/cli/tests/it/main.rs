//! The `orrery` binary as a person uses it.
#![allow(clippy::unwrap_used, reason = "a panic with its line is a good test failure")]
mod backup;
mod bad_input;
mod changes;
mod dependencies;
mod harness;
mod identity;
mod logs;
mod machines;
mod manage;
mod mesh;
mod metrics;
mod qemu;
mod queries;
mod reachability;
mod readme;
mod reference;
mod replicas;
mod secrets;
mod soak;
mod storage;
mod terminal;
mod tls;
mod top;
mod traces;
mod up;
mod volumes;
