//! `orrery server`.
use crate::args::ServerArguments;
use crate::paths;
use crate::signals::StopSignals;
use orrery_runtime::Tasks;
use orrery_server::{Server, ServerOptions, StoreOptions};
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// How long everything may take to end after a signal.
pub const STOP_GRACE: Duration = Duration::from_secs(10);

pub async fn run(arguments: ServerArguments) -> anyhow::Result<()> {
    let mut signals = StopSignals::listen()?;
    let data = paths::data(arguments.data_dir)?;
    let options = ServerOptions {
        listen: arguments.listen,
        store: StoreOptions::Embedded(data.join("store")),
        tls: arguments.tls.files(),
        allow_plain: arguments.allow_plain,
        group_suffix: arguments.group_suffix,
    };
    let server = Server::open(options).await?;
    let address = server.address()?;
    let scheme = server.scheme_name();
    let stop = CancellationToken::new();
    let mut tasks = Tasks::new(stop.clone());
    server.spawn(&mut tasks)?;
    tracing::info!(data = %data.display(), "serving on {scheme}://{address}");
    let running = tasks.run(STOP_GRACE);
    tokio::pin!(running);
    tokio::select! {
        outcome = &mut running => return Ok(outcome?),
        () = signals.next() => tracing::info!("stopping"),
    }
    stop.cancel();
    Ok(running.await?)
}
