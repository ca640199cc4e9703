//! Follows what is uploaded to workloads: files of theirs have changed.
use super::files::FileUsers;
use futures::TryStreamExt;
use orrery_hub::artifacts::Artifacts;
use orrery_hub::{Error, ObjectName};
use std::sync::Arc;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// Before the watch is opened again after an error.
const PAUSE: Duration = Duration::from_secs(1);

pub struct Uploads {
    pub artifacts: Artifacts,
    pub users: Arc<FileUsers>,
}

impl Uploads {
    /// Tells which workloads to look at again, until it is told to stop.
    pub async fn run(
        self,
        tell: impl Fn(ObjectName),
        stop: CancellationToken,
    ) -> Result<(), std::convert::Infallible> {
        loop {
            let outcome = tokio::select! {
                () = stop.cancelled() => return Ok(()),
                outcome = self.follow(&tell) => outcome,
            };
            if let Err(error) = outcome {
                tracing::warn!(%error, "cannot follow what is uploaded, will try again");
            }
            tokio::select! {
                () = stop.cancelled() => return Ok(()),
                () = tokio::time::sleep(PAUSE) => {}
            }
        }
    }

    /// Until the watch ends. What changed while there was none is found by looking at all.
    async fn follow(&self, tell: &impl Fn(ObjectName)) -> Result<(), Error> {
        let mut changes = self.artifacts.changes().await?;
        self.users.all_uploading().into_iter().for_each(tell);
        while let Some(uids) = changes.try_next().await? {
            uids.iter().filter_map(|uid| self.users.uploading(uid)).for_each(tell);
        }
        Ok(())
    }
}
