//! The command line: parses arguments, calls the parts, prints what they say.
//!
//! ```text
//!   args ─> commands ─┬─> session: one server, its kinds, its resources as JSON
//!                     ├─> targets: which resources the words mean
//!                     ├─> waiting, watching, changing: what several commands do alike
//!                     └─> output: tables, listings, a screen that changes in place
//! ```
//! Owns: arguments, output, exit codes. Not in it: anything that a program could want without a
//! terminal; that lives in `client`, `server` and `agent`.
mod args;
mod changing;
mod commands;
mod complete;
mod connection;
mod definitions;
mod exit;
mod figures;
mod hiding;
mod identity;
mod kinds;
mod logging;
mod manifests;
mod merging;
mod output;
mod paths;
mod reference;
mod scheme;
mod session;
mod signals;
mod sorting;
mod targets;
mod waiting;
mod watching;

use clap::Parser as _;
use std::ffi::OsString;
use std::process::ExitCode;

/// The hidden first argument that turns this binary into the parent of one workload instance.
pub const SUPERVISOR: &str = "instance-supervisor";

/// Runs the command line and says how it went.
pub fn main(arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    let mut arguments = arguments.into_iter();
    let program = arguments.next();
    let rest: Vec<OsString> = arguments.collect();
    // Before anything else: a supervisor has no environment, no configuration and no terminal.
    if rest.first().is_some_and(|first| first == SUPERVISOR) {
        return orrery_agent::supervisor::main(rest.into_iter().skip(1));
    }
    let arguments: Vec<OsString> = program.into_iter().chain(rest).collect();
    if let Some(answered) = complete::answer(&arguments) {
        return answered;
    }
    match args::Arguments::try_parse_from(arguments) {
        Ok(arguments) => commands::run(arguments),
        Err(error) => exit::usage(&error),
    }
}
