//! `orrery driver`: drivers as processes of their own.
use crate::args::{
    AwsDriver, DriverArguments, DriverCommand, DriverConnection, ProcessDriver, QemuDriver,
};
use crate::identity::{Own, Wanting};
use crate::paths;
use crate::signals::StopSignals;
use anyhow::{Context as _, bail};
use orrery_driver::process::{Agent, Process};
use orrery_driver::qemu::{self, Qemu};
use orrery_driver::{Driver, Options, aws, process};
use orrery_pki::{LiveTls, Role};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

/// Group and version of the classes that our drivers serve.
const GROUP: &str = "infra.orrery.dev";
const VERSION: &str = "v1";

pub async fn run(arguments: DriverArguments) -> anyhow::Result<()> {
    match arguments.driver {
        DriverCommand::Process(arguments) => processes(arguments).await,
        DriverCommand::Qemu(arguments) => virtual_machines(arguments).await,
        DriverCommand::Aws(AwsDriver { connection, owner, endpoint }) => {
            let driver = Arc::new(aws::Aws::new(owner, endpoint));
            serve(&connection, aws::KIND, &folder(None, "aws")?, driver).await
        }
    }
}

async fn processes(arguments: ProcessDriver) -> anyhow::Result<()> {
    let folder = folder(arguments.data_dir, "process")?;
    let server = arguments.agents.agent_server;
    let agent = Agent {
        program: std::env::current_exe().context("find this program's own file")?,
        loopback: loopback(&server)?,
        server,
    };
    let options =
        process::Options { root: folder.clone(), subnet: arguments.subnet, agent: Some(agent) };
    let driver = Process::new(options)?;
    driver.resume().await.context("take up the machines of an earlier start")?;
    serve(&arguments.connection, process::KIND, &folder, Arc::new(driver)).await
}

async fn virtual_machines(arguments: QemuDriver) -> anyhow::Result<()> {
    let folder = folder(arguments.data_dir, "qemu")?;
    let server = arguments.agents.agent_server;
    // In a virtual machine's network, this machine's loopback has an address of its own.
    let server = match loopback(&server)? {
        Some(address) if server.starts_with("http:") => {
            format!("http://10.0.2.2:{}", address.port())
        }
        Some(_) => bail!(
            "virtual machines reach this machine as 10.0.2.2: give the server that name with --tls-name 10.0.2.2, and say --agent-server https://10.0.2.2:PORT"
        ),
        None => server,
    };
    let driver = Qemu::new(qemu::Options { root: folder.clone(), server })?;
    serve(&arguments.connection, qemu::KIND, &folder, Arc::new(driver)).await
}

/// The folder of a driver's machines.
fn folder(given: Option<PathBuf>, driver: &str) -> anyhow::Result<PathBuf> {
    Ok(match given {
        Some(folder) => paths::data(Some(folder))?,
        None => paths::data(None)?.join("machines").join(driver),
    })
}

/// Registers and serves until it is told to stop.
async fn serve(
    connection: &DriverConnection,
    kind: &str,
    folder: &Path,
    driver: Arc<dyn Driver>,
) -> anyhow::Result<()> {
    let mut signals = StopSignals::listen()?;
    let name = connection.name.clone().unwrap_or_else(|| kind.to_lowercase());
    let who = Wanting { role: Role::Driver, name: &name, beside: &connection.server, folder };
    let own = Own::find(&connection.tls, &connection.joining, who).await?;
    let tls = own.live.as_ref().map(LiveTls::client_config);
    let channel = orrery_driver::channel(&connection.server, tls)?;
    let mut options = Options::new(&name, GROUP, kind, VERSION);
    options.max_concurrent = connection.max_concurrent;
    tracing::info!(kind, server = connection.server, "driver starts");
    let stop = CancellationToken::new();
    let running = own.kept_during(orrery_driver::run(options, channel, driver, stop.clone()));
    tokio::pin!(running);
    tokio::select! {
        () = &mut running => return Ok(()),
        () = signals.next() => tracing::info!("leaving; what is under way is finished first"),
    }
    stop.cancel();
    tokio::select! {
        () = running => Ok(()),
        () = signals.next() => Err(crate::exit::Interrupted.into()),
    }
}

/// The address of a server that only this machine reaches. Machines need a way to it.
fn loopback(url: &str) -> anyhow::Result<Option<SocketAddr>> {
    let rest = url.strip_prefix("http://").or_else(|| url.strip_prefix("https://"));
    let Some(rest) = rest else {
        bail!("{url:?} is no server; write http://HOST:PORT or https://HOST:PORT")
    };
    let rest = rest.trim_end_matches('/');
    let address = match rest.strip_prefix("localhost:") {
        Some(port) => port.parse().ok().map(|port| (IpAddr::V4(Ipv4Addr::LOCALHOST), port).into()),
        None => rest.parse::<SocketAddr>().ok(),
    };
    Ok(address.filter(|address| address.ip().is_loopback()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(url: &str, expect: Option<&str>) {
        let found = loopback(url).unwrap().map(|address| address.to_string());
        assert_eq!(found.as_deref(), expect, "{url}");
    }

    #[test]
    fn only_a_server_on_loopback_needs_a_way() {
        check("http://127.0.0.1:7443", Some("127.0.0.1:7443"));
        check("http://localhost:7443/", Some("127.0.0.1:7443"));
        check("http://10.0.0.5:7443", None);
        check("https://127.0.0.1:7443", Some("127.0.0.1:7443"));
        check("https://orrery.example:7443", None);
        assert!(loopback("127.0.0.1:7443").is_err());
    }
}
