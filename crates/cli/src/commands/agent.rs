//! `orrery agent`.
use super::agent_volumes;
use crate::SUPERVISOR;
use crate::args::AgentArguments;
use crate::identity::Linked;
use crate::paths;
use crate::signals::StopSignals;
use anyhow::Context as _;
use orrery_agent::{AgentConfig, OnStop, SupervisorCommand};
use orrery_client::agent::Link;
use std::collections::BTreeMap;
use std::net::IpAddr;
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
    let link = Linked::find(&arguments, &folder).await?;
    let on_stop =
        if arguments.stop_workloads { OnStop::StopWorkloads } else { OnStop::LeaveRunning };
    let stop = CancellationToken::new();
    let labels = arguments.labels.into_iter().collect();
    let place = Place { name: &arguments.name, labels, address: arguments.address };
    let running = start(place, folder, link, on_stop, stop.clone())?;
    tokio::pin!(running);
    tokio::select! {
        outcome = &mut running => return outcome,
        () = signals.next() => tracing::info!("stopping"),
    }
    stop.cancel();
    running.await
}

/// Who an agent is.
pub struct Place<'a> {
    pub name: &'a str,
    pub labels: BTreeMap<String, String>,
    /// Where others reach what runs there.
    pub address: Option<IpAddr>,
}

impl<'a> Place<'a> {
    /// One of which only the name is said.
    pub fn named(name: &'a str) -> Self {
        Self { name, labels: BTreeMap::new(), address: None }
    }
}

/// An agent and its connection; it ends after `stop` was cancelled.
pub fn start(
    place: Place<'_>,
    folder: PathBuf,
    linked: Linked,
    on_stop: OnStop,
    stop: CancellationToken,
) -> anyhow::Result<impl Future<Output = anyhow::Result<()>> + use<>> {
    let program = std::env::current_exe().context("find this program's own file")?;
    let supervisor = SupervisorCommand { program, args: vec![SUPERVISOR.into()] };
    let mut config = AgentConfig::new(place.name, folder, supervisor);
    config.on_stop = on_stop;
    config.labels = place.labels;
    config.address = place.address;
    config.volumes = Some(Arc::new(agent_volumes::Mounts::default()));
    let (to_server, to_server_rx) = mpsc::channel(MESSAGES_MAX);
    let (from_server_tx, from_server) = mpsc::channel(MESSAGES_MAX);
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
    Ok(async move {
        let agent = async {
            let outcome = orrery_agent::run(config, to_server, from_server, stop).await;
            unlink.cancel();
            outcome
        };
        let (outcome, Ok(()), Ok(())) = tokio::join!(agent, connected, renewed);
        Ok(outcome?)
    })
}
