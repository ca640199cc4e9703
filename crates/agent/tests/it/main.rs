//! The agent with real programs. Each test has an agent, a folder and programs of its own.
#![allow(clippy::unwrap_used, reason = "a test that unwraps nothing fails, as it should")]

mod adoption;
mod assignments;
mod chaos;
mod dependencies;
mod exec;
mod files;
mod lifecycle;
mod limits;
mod logs;
mod lost;
mod podman;
mod probes;
mod process;
mod reporting;
mod starting;
mod stopping;
mod world;
