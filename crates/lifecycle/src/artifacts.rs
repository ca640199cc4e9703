//! Files of objects that are gone, and content that nothing refers to, go after a while.
use orrery_hub::artifacts::{Artifacts, Collected};
use orrery_hub::{Error, Hub};
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// How often they are looked for: often enough for a disk, seldom enough that reading every reference
/// costs nothing to speak of.
const INTERVAL: Duration = Duration::from_secs(600);

/// Collects until it is told to stop.
pub async fn collect(hub: Hub, stop: CancellationToken) -> Result<(), Error> {
    let artifacts = Artifacts::new(hub);
    loop {
        tokio::select! {
            () = stop.cancelled() => return Ok(()),
            () = tokio::time::sleep(INTERVAL) => {}
        }
        match artifacts.collect().await {
            Ok(Collected { files: 0, chunks: 0 }) => {}
            Ok(Collected { files, chunks }) => {
                tracing::info!(files, chunks, "collected artifacts that nothing refers to");
            }
            Err(error) => tracing::warn!(%error, "cannot collect artifacts, will try again"),
        }
    }
}
