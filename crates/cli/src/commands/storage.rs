//! `orrery storage-controller` and `orrery csi`.
use crate::args::{CsiArguments, StorageControllerArguments};
use crate::identity::{Own, Wanting};
use crate::signals::StopSignals;
use orrery_pki::{ClientAuth, LiveTls, Role};
use orrery_storage_node::run::{Tls, run_controller, run_csi};
use tokio_util::sync::CancellationToken;

pub async fn controller(arguments: StorageControllerArguments) -> anyhow::Result<()> {
    let options = arguments.options;
    let who = Wanting {
        role: Role::Controller,
        name: &options.id,
        beside: &options.registry,
        folder: &options.storage.state.join(Role::Controller.as_str()),
    };
    let own = Own::find(&arguments.tls, &arguments.joining, who).await?;
    let tls = tls(own.live.as_ref());
    own.kept_during(until_told(|stop| run_controller(options, tls, stop))).await
}

pub async fn csi(arguments: CsiArguments) -> anyhow::Result<()> {
    let options = arguments.options;
    let own = match &options.registry {
        // On volumes of its own it talks to nobody.
        None => Own::default(),
        Some(registry) => {
            let who = Wanting {
                role: Role::Host,
                name: &options.node_id,
                beside: registry,
                folder: &options.storage.state.join(Role::Host.as_str()),
            };
            Own::find(&arguments.tls, &arguments.joining, who).await?
        }
    };
    let tls = tls(own.live.as_ref());
    own.kept_during(until_told(|stop| run_csi(options, tls, stop))).await
}

/// Runs until a signal asks for the end, and then until it has ended.
async fn until_told<F>(start: impl FnOnce(CancellationToken) -> F) -> anyhow::Result<()>
where
    F: Future<Output = orrery_storage_node::Result<()>>,
{
    let mut signals = StopSignals::listen()?;
    let stop = CancellationToken::new();
    let running = start(stop.clone());
    tokio::pin!(running);
    tokio::select! {
        outcome = &mut running => return Ok(outcome?),
        () = signals.next() => tracing::info!("stopping"),
    }
    stop.cancel();
    Ok(running.await?)
}

/// A renewed certificate is noticed without a restart.
fn tls(live: Option<&LiveTls>) -> Tls {
    match live {
        Some(live) => Tls {
            server: Some(live.server_config(ClientAuth::Required)),
            client: Some(live.client_config()),
        },
        None => Tls::default(),
    }
}
