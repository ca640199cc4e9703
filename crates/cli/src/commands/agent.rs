//! `orrery agent`.
use super::agent_volumes;
use crate::SUPERVISOR;
use crate::args::AgentArguments;
use crate::identity::{self, Linked};
use crate::paths;
use crate::signals::StopSignals;
use anyhow::Context as _;
use orrery_agent::{AgentConfig, OnStop, SupervisorCommand};
use orrery_client::agent::Link;
use std::path::PathBuf;
use std::sync::Arc;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

/// Messages that wait between the agent and its connection.
const MESSAGES_MAX: usize = 64;

pub async fn run(arguments: AgentArguments) -> anyhow::Result<()> {
    let mut signals = StopSignals::listen()?;
    let folder = match &arguments.data_dir {
        Some(folder) => paths::data(Some(folder.clone()))?,
        None => paths::data(None)?.join("agents").join(&arguments.name),
    };
    let link = identity::of_agent(&arguments, &folder).await?;
    let on_stop =
        if arguments.stop_workloads { OnStop::StopWorkloads } else { OnStop::LeaveRunning };
    let stop = CancellationToken::new();
    let mut config = config(&arguments.name, folder, on_stop)?;
    config.labels = arguments.labels.into_iter().collect();
    config.address = arguments.address;
    config.podman.socket = arguments.podman_socket;
    let running = start(config, link, stop.clone());
    tokio::pin!(running);
    tokio::select! {
        outcome = &mut running => return outcome,
        () = signals.next() => tracing::info!("stopping"),
    }
    stop.cancel();
    running.await
}

/// An agent of this name, whose supervisors are this very program.
pub fn config(name: &str, folder: PathBuf, on_stop: OnStop) -> anyhow::Result<AgentConfig> {
    let program = std::env::current_exe().context("find this program's own file")?;
    let supervisor = SupervisorCommand { program, args: vec![SUPERVISOR.into()] };
    let agent_id = orrery_agent::agent_id(&folder)?;
    let mut config = AgentConfig::new(name, folder, supervisor);
    config.agent_id = agent_id;
    config.on_stop = on_stop;
    config.volumes = Some(Arc::new(agent_volumes::Mounts::default()));
    Ok(config)
}

/// An agent and its connection; it ends after `stop` was cancelled.
pub fn start(
    mut config: AgentConfig,
    linked: Linked,
    stop: CancellationToken,
) -> impl Future<Output = anyhow::Result<()>> + use<> {
    let (to_server, to_server_rx) = mpsc::channel(MESSAGES_MAX);
    let (from_server_tx, from_server) = mpsc::channel(MESSAGES_MAX);
    config.server = linked.endpoint.server();
    let hello = orrery_agent::hello(&config);
    let link = Link {
        transport: linked.endpoint,
        hello,
        to_server: to_server_rx,
        from_server: from_server_tx,
    };
    // The link outlives the agent, so that the agent's last words are still sent.
    let unlink = CancellationToken::new();
    let connected = link.run(unlink.clone());
    let renewal = linked.renewal;
    let renewing = unlink.clone();
    let renewed = async move {
        match renewal {
            Some(renewal) => renewal.run(renewing).await,
            None => Ok(()),
        }
    };
    async move {
        let agent = async {
            let outcome = orrery_agent::run(config, to_server, from_server, stop).await;
            unlink.cancel();
            outcome
        };
        let (outcome, Ok(()), Ok(())) = tokio::join!(agent, connected, renewed);
        Ok(outcome?)
    }
}
