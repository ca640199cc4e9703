//! `orrery up`: everything on one machine, in one process group.
use super::{agent, operations, server::STOP_GRACE};
use crate::args::{Global, UpArguments};
use crate::connection::{self, Remembered};
use crate::identity;
use crate::output::{print, style};
use crate::paths;
use crate::signals::StopSignals;
use orrery_agent::OnStop;
use orrery_client::Endpoint;
use orrery_client::context::Context;
use orrery_pki::TlsFiles;
use orrery_runtime::Tasks;
use orrery_server::{Listen, Server, ServerOptions, StoreOptions};
use std::net::SocketAddr;
use std::path::Path;
use tokio_util::sync::CancellationToken;

pub async fn run(global: &Global, mut arguments: UpArguments) -> anyhow::Result<()> {
    let mut signals = StopSignals::listen()?;
    let data = paths::data(arguments.data_dir.take())?;
    let (name, encrypted) = (arguments.name.clone(), arguments.identity.tls);
    let server = Server::open(options(arguments, &data)?).await?;
    let url = format!("{}://{}", server.scheme_name(), server.address()?);
    let storage = server.storage_address();
    let drivers = server.drivers_address();
    let folder = data.join("agents").join(&name);
    let (admin, link) = match encrypted {
        true => {
            let admin = identity::admin(server.identities(), &data)?;
            (admin, identity::beside(server.identities(), &url, &name, &folder)?)
        }
        false => (TlsFiles::default(), Endpoint::new(&url, None)?.into()),
    };
    let stop = CancellationToken::new();
    let mut tasks = Tasks::new(stop.clone());
    if encrypted {
        let agent = Some((name.clone(), folder.clone()));
        identity::spawn_keeping(server.identities(), &data, agent, &mut tasks);
    }
    server.spawn(&mut tasks)?;

    let stop_agent = CancellationToken::new();
    let config = agent::config(&name, folder, OnStop::StopWorkloads)?;
    let agent = agent::start(config, link, stop_agent.clone());
    let context = Context {
        name: "local".to_owned(),
        server: url.clone(),
        project: Some("default".to_owned()),
        root: admin.root,
        certificate: admin.certificate,
        key: admin.key,
        ..Context::default()
    };
    let remembered = connection::remember(global, context)?;
    let ports = SidePorts { drivers, storage };
    welcome(&url, ports, &name, &data, &remembered)?;

    let serving = tasks.run(STOP_GRACE);
    tokio::pin!(agent, serving);
    let early = tokio::select! {
        outcome = &mut serving => Some(outcome.map_err(anyhow::Error::from)),
        outcome = &mut agent => Some(outcome),
        () = signals.next() => None,
    };
    if let Some(outcome) = early {
        stop.cancel();
        stop_agent.cancel();
        return outcome;
    }
    print::note("\nstopping workloads, then the server (press Ctrl-C again to leave at once)");
    let stopping = async {
        stop_agent.cancel();
        // The server goes on meanwhile, and hears how the workloads ended.
        let agent = tokio::select! {
            outcome = &mut agent => outcome,
            outcome = &mut serving => return outcome.map_err(anyhow::Error::from),
        };
        stop.cancel();
        serving.await?;
        agent
    };
    tokio::select! {
        outcome = stopping => outcome,
        () = signals.next() => Err(crate::exit::Interrupted.into()),
    }
}

/// A server for one machine, with its store in `data`.
fn options(arguments: UpArguments, data: &Path) -> anyhow::Result<ServerOptions> {
    let store = StoreOptions::Embedded(data.join("store"));
    let storage = arguments.storage.storage_listen;
    // Whoever tries it out can do without them.
    let beside = Listen::Beside { needed: false };
    Ok(ServerOptions {
        listen: arguments.listen,
        operations: operations::read(arguments.operations, &store, data)?,
        drivers: arguments.drivers_listen.unwrap_or(beside),
        store,
        tls: TlsFiles::default(),
        allow_plain: false,
        advertise: None,
        group_suffix: orrery_api::DEFAULT_GROUP_SUFFIX.to_owned(),
        identity: arguments.identity.options(),
        mesh: <_>::default(),
        storage: storage.unwrap_or(beside),
    })
}

/// Where peers other than agents and commanders are taken in.
struct SidePorts {
    drivers: Option<SocketAddr>,
    storage: Option<SocketAddr>,
}

fn welcome(
    url: &str,
    ports: SidePorts,
    agent: &str,
    data: &Path,
    remembered: &Remembered,
) -> anyhow::Result<()> {
    let style = style::stdout();
    // Where another context is current, commands would go there.
    let there = if remembered.is_current { "" } else { " --context local" };
    let port =
        |at: Option<SocketAddr>| at.map_or_else(|| "no port".to_owned(), |at| at.to_string());
    let lines = [
        style.strong(&format!("Orrery {} is ready.", orrery_client::VERSION)),
        format!("  server   {url}"),
        format!("  console  {url}{}", orrery_server::CONSOLE_PATH),
        format!("  drivers  {}", port(ports.drivers)),
        format!("  storage  {}", port(ports.storage)),
        format!("  agent    {agent}"),
        format!("  data     {}", data.display()),
        format!("  context  local, in {}", remembered.file.display()),
        String::new(),
        "In another terminal:".to_owned(),
        format!("  orrery{there} apply -f examples/hello.yaml"),
        format!("  orrery{there} get workloads -A"),
        String::new(),
        style.faint("Ctrl-C stops the server, the agent and every workload."),
    ];
    print::line(&lines.join("\n"))
}
