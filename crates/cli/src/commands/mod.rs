//! One file per command.
mod agent;
mod apply;
mod delete;
mod get;
mod kinds;
mod logs;
mod server;
mod up;
mod version;

use crate::args::{Arguments, Command};
use crate::exit;
use crate::logging;
use anyhow::Context as _;
use std::process::ExitCode;

/// Runs what was asked for.
pub fn run(arguments: Arguments) -> ExitCode {
    let Arguments { global, command } = arguments;
    let default_log = match &command {
        Command::Server(_) | Command::Agent(_) => "info",
        Command::Up(_)
        | Command::Apply(_)
        | Command::Get(_)
        | Command::Delete(_)
        | Command::Logs(_)
        | Command::Version(_) => "warn",
    };
    let outcome = logging::start(global.log.as_deref(), default_log).and_then(|()| {
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
        let runtime = runtime.context("start the asynchronous runtime")?;
        runtime.block_on(async {
            match command {
                Command::Up(arguments) => Box::pin(up::run(&global, arguments)).await,
                Command::Server(arguments) => Box::pin(server::run(arguments)).await,
                Command::Agent(arguments) => Box::pin(agent::run(arguments)).await,
                Command::Apply(arguments) => apply::run(&global, arguments).await,
                Command::Get(arguments) => get::run(&global, arguments).await,
                Command::Delete(arguments) => delete::run(&global, arguments).await,
                Command::Logs(arguments) => logs::run(&global, arguments).await,
                Command::Version(arguments) => version::run(&global, arguments).await,
            }
        })
    });
    exit::code(outcome)
}
