//! The fleet against a whole server, over both transports.
#![allow(clippy::unwrap_used, reason = "a panic with its line is a good test failure")]
mod agents;
mod breakages;
mod commanders;
mod dependencies;
mod files;
mod placement;
mod relay;
mod rollout;
mod states;
mod talks;
mod workloads;
