//! The `orrery` binary as a person uses it.
#![allow(clippy::unwrap_used, reason = "a panic with its line is a good test failure")]
mod backup;
mod bad_input;
mod harness;
mod reachability;
mod readme;
mod tls;
mod up;
