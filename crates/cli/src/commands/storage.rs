//! `orrery storage-controller` and `orrery csi`.
use crate::args::{CsiArguments, StorageControllerArguments};
use crate::signals::StopSignals;
use orrery_pki::{ClientAuth, LiveTls, TlsFiles};
use orrery_storage_node::run::{Tls, run_controller, run_csi};
use tokio_util::sync::CancellationToken;

pub async fn controller(arguments: StorageControllerArguments) -> anyhow::Result<()> {
    let tls = tls(&arguments.tls.files())?;
    until_told(|stop| run_controller(arguments.options, tls, stop)).await
}

pub async fn csi(arguments: CsiArguments) -> anyhow::Result<()> {
    let tls = tls(&arguments.tls.files())?;
    until_told(|stop| run_csi(arguments.options, tls, stop)).await
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

fn tls(files: &TlsFiles) -> anyhow::Result<Tls> {
    // A renewed certificate is noticed without a restart.
    Ok(match LiveTls::from_files(files)? {
        Some(live) => Tls {
            server: Some(live.server_config(ClientAuth::Required)),
            client: Some(live.client_config()),
        },
        None => Tls::default(),
    })
}
