//! The fleet against a whole server, over both transports.
#![allow(clippy::unwrap_used, reason = "a panic with its line is a good test failure")]
mod agents;
mod commanders;
mod dependencies;
mod placement;
mod workloads;
