//! Changes here that are written back at once.
use futures::StreamExt as _;
use orrery_api::Encoded;
use orrery_hub::{Accessor, Error, ObjectName, WatchEvent, WatchOptions};
use orrery_proto::core::v1::GitSync;
use orrery_runtime::{Backoff, KeyQueue, View};
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

/// How long a change waits for others that come together with it.
const GATHER: Duration = Duration::from_millis(300);

/// Watches one kind, and asks for a look at the syncs that write it back. As long as there are none, it
/// watches nothing.
pub struct Trigger {
    pub accessor: Arc<dyn Accessor>,
    pub view: Arc<View<GitSync>>,
    pub queue: KeyQueue<ObjectName>,
    /// Whether any sync writes back.
    pub wanted: watch::Receiver<bool>,
}

/// Whether a sync writes back.
pub fn writes(sync: &GitSync) -> bool {
    sync.spec.as_ref().is_some_and(|spec| spec.write_back.is_some())
}

impl Trigger {
    /// Runs until it is told to stop.
    pub async fn run(self, stop: CancellationToken) -> Result<(), Error> {
        tokio::select! {
            () = stop.cancelled() => Ok(()),
            never = self.watch_on() => never,
        }
    }

    async fn watch_on(&self) -> Result<(), Error> {
        let mut failures = 0;
        loop {
            self.until(true).await;
            let outcome = tokio::select! {
                () = self.until(false) => continue,
                outcome = self.follow(&mut failures) => outcome,
            };
            failures += 1;
            let wait = Backoff::RECONCILE.delay(failures, rand::random());
            if let Err(error) = outcome {
                let kind = self.accessor.kind().kind();
                tracing::warn!(kind, %error, ?wait, "watch broke, beginning anew");
            }
            tokio::time::sleep(wait).await;
        }
    }

    async fn until(&self, wanted: bool) {
        let mut told = self.wanted.clone();
        if told.wait_for(|it| *it == wanted).await.is_err() {
            // Nobody will say so any more: the server stops.
            std::future::pending::<()>().await;
        }
    }

    async fn follow(&self, failures: &mut u32) -> Result<(), Error> {
        let mut events = self.accessor.watch_encoded(WatchOptions::default()).await?;
        // What was last seen of each; a status that changes is nothing to git.
        let mut seen: HashMap<ObjectName, i64> = HashMap::new();
        let mut begun = false;
        while let Some(event) = events.next().await {
            let (name, generation) = match event? {
                WatchEvent::Added(it) | WatchEvent::Modified(it) => {
                    let (name, generation) = read(&it)?;
                    (name, Some(generation))
                }
                WatchEvent::Deleted(it) => (read(&it)?.0, None),
                WatchEvent::Bookmark(_) => {
                    (begun, *failures) = (true, 0);
                    continue;
                }
            };
            let before = match generation {
                Some(generation) => seen.insert(name.clone(), generation),
                None => seen.remove(&name),
            };
            if begun && before != generation {
                self.ask(&name);
            }
        }
        Ok(())
    }

    fn ask(&self, changed: &ObjectName) {
        let project = match self.accessor.kind().cluster_scoped() {
            true => crate::source::SYSTEM,
            false => changed.project.as_str(),
        };
        for (name, sync) in self.view.all() {
            if name.project == project && writes(&sync) {
                self.queue.add_within(name, GATHER);
            }
        }
    }
}

fn read(found: &Encoded) -> Result<(ObjectName, i64), Error> {
    let meta = found.meta().map_err(|error| Error::Internal(error.to_string()))?;
    Ok((ObjectName::new(meta.project, meta.name), meta.generation))
}
