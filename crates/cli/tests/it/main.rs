//! The `orrery` binary as a person uses it.
#![allow(clippy::unwrap_used, reason = "a panic with its line is a good test failure")]
mod bad_input;
mod dependencies;
mod harness;
mod logs;
mod reachability;
mod readme;
mod tls;
mod up;
