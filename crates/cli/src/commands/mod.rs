//! One file per command.
mod agent;
mod agent_volumes;
mod api_resources;
mod apply;
mod artifact;
mod auth;
mod backup;
mod completion;
mod context;
mod delete;
mod deleting;
mod describe;
mod diff;
mod driver;
mod edit;
mod editor;
mod events;
mod exec;
mod explain;
mod get;
mod get_nodes;
mod get_versions;
mod get_watch;
mod happenings;
mod join;
mod kubeconfig;
mod label;
mod logs;
mod man;
mod mesh;
mod nodes;
mod operations;
mod patch;
mod pki;
mod prune;
mod reference;
mod restart;
mod scale;
mod secrets;
mod server;
mod storage;
mod token;
mod top;
mod up;
mod usage;
mod version;
mod wait;

use crate::args::{Arguments, Command, Global};
use crate::exit;
use crate::logging;
use anyhow::Context as _;
use nodes::Wanted;
use std::process::ExitCode;
use tracing::{Instrument as _, Span};

/// Runs what was asked for.
pub fn run(arguments: Arguments) -> ExitCode {
    let Arguments { global, command } = arguments;
    let serves = matches!(
        command,
        Command::Server(_)
            | Command::Agent(_)
            | Command::Driver(_)
            | Command::StorageController(_)
            | Command::Csi(_)
    );
    let long_lived = serves || matches!(command, Command::Up(_));
    // What the files of the store go through says little to whoever runs a server.
    let default_log = if serves { "info,fjall=warn,lsm_tree=warn" } else { "warn" };
    // Where 1 is an answer, a failure is something else.
    let compares = matches!(command, Command::Diff(_));
    let failed = if compares { exit::FAILED_TO_COMPARE } else { exit::FAILED };
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let outcome = runtime.context("start the asynchronous runtime").and_then(|runtime| {
        let within = runtime.enter();
        let logging = logging::start(&global, default_log)?;
        drop(within);
        // What runs for long has a trace for each thing that it does, not one for its whole life.
        let span = if long_lived { Span::none() } else { tracing::info_span!("command") };
        let outcome = runtime.block_on(Box::pin(dispatch(&global, command).instrument(span)));
        drop(logging);
        outcome
    });
    exit::code(outcome, failed)
}

async fn dispatch(global: &Global, command: Command) -> anyhow::Result<()> {
    match command {
        Command::Up(arguments) => Box::pin(up::run(global, *arguments)).await,
        Command::Server(arguments) => Box::pin(server::run(*arguments)).await,
        Command::Agent(arguments) => Box::pin(agent::run(arguments)).await,
        Command::StorageController(arguments) => Box::pin(storage::controller(arguments)).await,
        Command::Csi(arguments) => Box::pin(storage::csi(arguments)).await,
        Command::Driver(arguments) => Box::pin(driver::run(arguments)).await,
        Command::Apply(arguments) => apply::run(global, arguments).await,
        Command::Get(arguments) => get::run(global, arguments).await,
        Command::Describe(arguments) => describe::run(global, arguments).await,
        Command::Events(arguments) => events::run(global, arguments).await,
        Command::Diff(arguments) => diff::run(global, arguments).await,
        Command::Delete(arguments) => delete::run(global, arguments).await,
        Command::Edit(arguments) => edit::run(global, arguments).await,
        Command::Patch(arguments) => patch::run(global, arguments).await,
        Command::Restart(arguments) => restart::run(global, arguments).await,
        Command::Scale(arguments) => scale::run(global, arguments).await,
        Command::Label(arguments) => label::run(global, arguments, label::Part::Labels).await,
        Command::Annotate(arguments) => {
            label::run(global, arguments, label::Part::Annotations).await
        }
        Command::Cordon(arguments) => nodes::run(global, arguments, Wanted::Closed).await,
        Command::Uncordon(arguments) => nodes::run(global, arguments, Wanted::Open).await,
        Command::Drain(arguments) => nodes::drain(global, arguments).await,
        Command::Wait(arguments) => wait::run(global, arguments).await,
        Command::Explain(arguments) => explain::run(global, arguments).await,
        Command::ApiResources(arguments) => api_resources::run(global, arguments).await,
        Command::Context(arguments) => context::run(global, arguments),
        Command::Completion(arguments) => completion::run(&arguments),
        Command::Man(arguments) => man::run(&arguments),
        Command::Reference(arguments) => reference::run(&arguments),
        Command::Kubeconfig(arguments) => kubeconfig::run(global, &arguments),
        Command::Mesh(arguments) => mesh::run(global, arguments).await,
        Command::Backup(arguments) => backup::save(global, arguments).await,
        Command::Restore(arguments) => backup::restore(arguments).await,
        Command::Secrets(arguments) => secrets::run(global, arguments).await,
        Command::Logs(arguments) => logs::run(global, arguments).await,
        Command::Exec(arguments) => Box::pin(exec::run(global, arguments)).await,
        Command::Top(arguments) => top::run(global, arguments).await,
        Command::Join(arguments) => join::run(arguments).await,
        Command::Pki(arguments) => pki::run(global, arguments).await,
        Command::Auth(arguments) => auth::run(global, arguments).await,
        Command::Token(arguments) => token::run(global, arguments).await,
        Command::Artifact(arguments) => artifact::run(global, arguments).await,
        Command::Version(arguments) => version::run(global, arguments).await,
    }
}
