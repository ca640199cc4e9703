//! Events are news; old news goes.
use orrery_hub::{Error, Hub, ListOptions, ObjectName};
use orrery_proto::core::v1::Event;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// How long an event is kept after it last happened.
const KEEP_SECONDS: i64 = 3600;
/// How often old ones are looked for.
const INTERVAL: Duration = Duration::from_secs(60);

/// Deletes old events until it is told to stop.
pub async fn expire(hub: Hub, stop: CancellationToken) -> Result<(), Error> {
    loop {
        tokio::select! {
            () = stop.cancelled() => return Ok(()),
            () = tokio::time::sleep(INTERVAL) => {}
        }
        if let Err(error) = sweep(&hub).await {
            tracing::warn!(%error, "cannot delete old events, will try again");
        }
    }
}

async fn sweep(hub: &Hub) -> Result<(), Error> {
    let events = hub.resources::<Event>()?;
    let oldest = hub.clock().now().seconds - KEEP_SECONDS;
    for event in events.list(ListOptions::default()).await? {
        if last_seen(&event).is_some_and(|seconds| seconds < oldest)
            && let Some(meta) = event.metadata
        {
            events.delete(&ObjectName::new(meta.project, meta.name)).await?;
        }
    }
    Ok(())
}

/// When it happened last; what does not say it, happened when it was written first.
fn last_seen(event: &Event) -> Option<i64> {
    let told = event.spec.as_ref().and_then(|spec| spec.last_timestamp);
    let made = event.metadata.as_ref().and_then(|meta| meta.creation_timestamp);
    told.or(made).map(|time| time.seconds)
}
