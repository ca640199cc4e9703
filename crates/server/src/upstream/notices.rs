//! Hears of the changes at an upstream, and has what is kept of them forgotten.
use futures::StreamExt as _;
use orrery_api::{Encoded, ObjectError};
use orrery_hub::{
    Error, Hub, ListOptions, ObjectName, Revision, Storage, WatchEvent, WatchOptions,
};
use orrery_runtime::Backoff;
use std::convert::Infallible;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// How long is waited before a watch that could not begin is tried again.
const RETRY: Backoff =
    Backoff { first: Duration::from_millis(100), longest: Duration::from_secs(5) };

/// Listens to the upstream of a storage until it is told to stop: one watch for everything that is kept of a kind.
pub async fn listen(hub: Hub, name: String, stop: CancellationToken) -> Result<(), Infallible> {
    let Some(storage) = hub.storage(&name) else { return Ok(()) };
    let mut failures = 0;
    loop {
        let outcome = tokio::select! {
            () = stop.cancelled() => return Ok(()),
            outcome = follow(storage, &mut failures) => outcome,
        };
        // What was kept may have changed, unheard; nothing is used for longer than until it expires.
        failures += 1;
        let wait = RETRY.delay(failures, rand::random());
        if let (Err(error), 1) = (outcome, failures) {
            tracing::warn!(storage = name, %error, "changes at the upstream cannot be heard of");
        }
        tokio::select! {
            () = stop.cancelled() => return Ok(()),
            () = tokio::time::sleep(wait) => {}
        }
    }
}

/// Follows one watch from its beginning to its end. What is kept from before its beginning is forgotten, because
/// what happened until then was not heard.
async fn follow(storage: &Storage, failures: &mut u32) -> Result<(), Error> {
    let Some(cache) = storage.cache() else { return Ok(()) };
    let newest = ListOptions { limit: 1, ..ListOptions::default() };
    let after = cache.upstream().list_encoded(newest).await?.revision;
    let options = WatchOptions { after: Some(after), ..WatchOptions::default() };
    let mut events = cache.upstream().watch_encoded(options).await?;
    storage.forget_all();
    cache.set_heard(after);
    *failures = 0;
    while let Some(event) = events.next().await {
        let heard = match event? {
            WatchEvent::Added(object)
            | WatchEvent::Modified(object)
            | WatchEvent::Deleted(object) => {
                let (name, revision) = place_of(&object).map_err(unfit)?;
                storage.changed(&name);
                revision
            }
            WatchEvent::Bookmark(revision) => Some(revision),
        };
        if let Some(revision) = heard {
            cache.set_heard(revision);
        }
    }
    Ok(())
}

fn unfit(error: ObjectError) -> Error {
    Error::Internal(error.to_string())
}

/// Which object it is, and when it became what it is.
fn place_of(object: &Encoded) -> Result<(ObjectName, Option<Revision>), ObjectError> {
    let name = ObjectName::new(object.project()?, object.name()?);
    Ok((name, object.resource_version()?.parse().ok()))
}
