//! What a server lets go when it is not needed any more: memory that its start or a burst of changes took.
use crate::{memory, program};
use orrery_hub::Hub;
use std::convert::Infallible;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// When starting is over: controllers have looked at everything once, and who waited for the server is connected.
const STARTED_AFTER: Duration = Duration::from_secs(2);

/// How long nobody asked for what was shown to watchers, at least, before it is forgotten.
const REST_INTERVAL: Duration = Duration::from_secs(3);

pub async fn rest(hub: Hub, stop: CancellationToken) -> Result<(), Infallible> {
    let lived = stop.run_until_cancelled(async {
        tokio::time::sleep(STARTED_AFTER).await;
        match program::give_back() {
            Ok(bytes) => tracing::debug!(bytes, "gave back the pages that the program began with"),
            // Nothing depends on it.
            Err(error) => tracing::debug!(%error, "cannot give back pages of the program"),
        }
        loop {
            tokio::time::sleep(REST_INTERVAL).await;
            hub.rest();
            memory::give_back();
        }
    });
    match lived.await {
        None => Ok(()),
    }
}
