//! Whether etcd has room. With its database at its quota it raises an alarm and takes no writes until somebody has
//! made room and silenced the alarm; reads go on, so that nothing else would tell.

use std::sync::atomic::{AtomicBool, Ordering};

use super::{
    client::{Client, Repeat},
    pb::{self, maintenance_client::MaintenanceClient},
};
use crate::error::Error;

/// What to do about it, for people.
const FULL: &str = "etcd is out of space (NOSPACE): compact and defragment it or raise its --quota-backend-bytes, then \
    run \"etcdctl alarm disarm\"";

/// What is known of it, told to the log when it changes.
#[derive(Default)]
pub(super) struct Room {
    full: AtomicBool,
}

impl Room {
    /// Takes in what became of a commit that writes.
    pub fn learn<T>(&self, outcome: &Result<T, Error>) {
        match outcome {
            Ok(_) => self.note(false),
            Err(error) if *error == full() => self.note(true),
            Err(_) => {}
        }
    }

    /// Asks a member; alarms are those of all members.
    pub async fn check(&self, client: &Client) -> Result<(), Error> {
        let send =
            |wire| async move { MaintenanceClient::new(wire).status(pb::StatusRequest {}).await };
        let said = match client.ask(Repeat::Safe, send).await.map_err(Error::from) {
            Ok(status) => status.errors,
            Err(error) if error.retryable() => return Err(error),
            // One that tells us nothing about itself: what commits came to is all there is.
            Err(_) if self.full.load(Ordering::Relaxed) => return Err(full()),
            Err(_) => return Ok(()),
        };
        let has = |alarm: &str| said.iter().any(|error| error.contains(alarm));
        self.note(has("NOSPACE"));
        if has("NOSPACE") {
            return Err(full());
        }
        if has("CORRUPT") {
            return Err(Error::unavailable("members of etcd differ from each other (CORRUPT)"));
        }
        Ok(())
    }

    fn note(&self, full: bool) {
        if self.full.swap(full, Ordering::Relaxed) == full {
            return;
        }
        if full {
            tracing::error!("nothing can be written: {FULL}");
        } else {
            tracing::info!("etcd has room again, and takes writes");
        }
    }
}

pub(super) fn full() -> Error {
    Error::unavailable(FULL)
}
