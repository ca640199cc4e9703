//! The command line: parses arguments, calls the parts, prints what they say.
//!
//! Owns: arguments, output, exit codes. Not in it: anything that a program could want without a
//! terminal; that lives in `client`, `server` and `agent`.
mod args;
mod commands;
mod connection;
mod exit;
mod logging;
mod manifests;
mod output;
mod paths;
mod signals;

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
    let arguments = program.into_iter().chain(rest);
    match args::Arguments::try_parse_from(arguments) {
        Ok(arguments) => commands::run(arguments),
        Err(error) => exit::usage(&error),
    }
}
