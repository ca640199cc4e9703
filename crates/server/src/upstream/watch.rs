//! The changes of a kind at an upstream, across connections that are lost.
//!
//! ```text
//!   open ─> state, bookmark, changes ... ─ lost ─> open after the last revision that was told ─> changes ...
//!             └─ lost before the bookmark: an error          └─ too old there: Expired, list again
//! ```
use super::errors::Question;
use super::link::Link;
use super::requests;
use futures::stream::{self, StreamExt as _};
use orrery_api::{Encoded, Kind};
use orrery_hub::{Error, ObjectName, Revision, WatchEvent, WatchOptions, WatchStream};
use orrery_proto::hub::v1 as wire;
use orrery_proto::hub::v1::watch_response::Type;
use orrery_runtime::Backoff;
use std::sync::Arc;
use std::time::Duration;
use tonic::Streaming;

/// How long is waited before a connection that was lost is tried again.
const RETRY: Backoff =
    Backoff { first: Duration::from_millis(50), longest: Duration::from_secs(5) };

/// Opens a watch. What it cannot begin with is an error; what comes later it overcomes, or ends with one.
pub async fn open(
    kind: Arc<Kind>,
    link: Arc<Link>,
    options: WatchOptions,
) -> Result<WatchStream<Encoded>, Error> {
    let place = ObjectName::new(
        options.project.as_deref().unwrap_or_default(),
        options.name.as_deref().unwrap_or_default(),
    );
    let request = requests::watch(&kind, &options);
    let mut watch = Watch {
        address: link.address().to_owned(),
        told: options.after,
        kind,
        link,
        place,
        request,
        responses: None,
        failures: 0,
    };
    watch.connect().await?;
    Ok(stream::unfold(Some(watch), step).boxed())
}

/// After an error there is nothing.
async fn step(watch: Option<Watch>) -> Option<(Result<WatchEvent<Encoded>, Error>, Option<Watch>)> {
    let mut watch = watch?;
    match watch.next().await {
        Ok(event) => Some((Ok(event), Some(watch))),
        Err(error) => Some((Err(error), None)),
    }
}

struct Watch {
    kind: Arc<Kind>,
    link: Arc<Link>,
    address: String,
    place: ObjectName,
    request: wire::WatchRequest,
    responses: Option<Streaming<wire::WatchResponse>>,
    /// Everything up to here was told; `None` until the state at the beginning was.
    told: Option<Revision>,
    /// How often in a row it could not be opened.
    failures: u32,
}

impl Watch {
    async fn next(&mut self) -> Result<WatchEvent<Encoded>, Error> {
        loop {
            let Some(responses) = &mut self.responses else {
                self.reconnect().await?;
                continue;
            };
            let lost = match responses.message().await {
                Ok(Some(response)) => return self.event(response),
                Ok(None) => self.question().away("it ended the watch"),
                Err(status) => self.link.failed(&self.question(), &status),
            };
            self.responses = None;
            self.overcome(lost)?;
        }
    }

    async fn connect(&mut self) -> Result<(), Error> {
        let request = wire::WatchRequest {
            resource_version: self.told.map(|at| at.to_string()).unwrap_or_default(),
            ..self.request.clone()
        };
        let question = self.question();
        let opened = self
            .link
            .ask(&question, request, |mut hub, request| async move { hub.watch(request).await });
        let opened = opened.await?;
        self.responses = Some(opened);
        Ok(())
    }

    /// Opens it again from where it was.
    async fn reconnect(&mut self) -> Result<(), Error> {
        tokio::time::sleep(RETRY.delay(self.failures, rand::random())).await;
        match self.connect().await {
            Ok(()) => Ok(()),
            Err(error) => self.overcome(error),
        }
    }

    /// Goes on after a lost connection, if nothing can be missed by that.
    fn overcome(&mut self, lost: Error) -> Result<(), Error> {
        let Some(told) = self.told else { return Err(lost) };
        match lost {
            Error::Away { cause, .. } => {
                self.failures = self.failures.saturating_add(1);
                let (kind, upstream) = (self.kind.kind(), &self.address);
                tracing::debug!(kind, upstream, cause, "the upstream's watch is down");
                Ok(())
            }
            // One that has never been at this revision is another one than before.
            Error::BadRequest(_) => {
                Err(Error::Expired { requested: told, oldest: told, resume: None })
            }
            other => Err(other),
        }
    }

    fn event(&mut self, response: wire::WatchResponse) -> Result<WatchEvent<Encoded>, Error> {
        self.failures = 0;
        let at = response.resource_version.parse().map_err(|_| {
            let text = &response.resource_version;
            Error::Internal(format!("{}: {text:?} is no revision", self.address))
        })?;
        let kind = response.r#type();
        // The state at the beginning comes in the order of names: only its end says how far it is.
        if self.told.is_some() || kind == Type::Bookmark {
            self.told = Some(at);
        }
        let found = |resource| {
            let unfit = |why| Error::Internal(format!("{}: {why}", self.address));
            requests::found(&self.kind, resource).map_err(unfit)
        };
        match kind {
            Type::Added => found(response.resource).map(WatchEvent::Added),
            Type::Modified => found(response.resource).map(WatchEvent::Modified),
            Type::Deleted => found(response.resource).map(WatchEvent::Deleted),
            Type::Bookmark => Ok(WatchEvent::Bookmark(at)),
            Type::Unspecified => {
                Err(Error::Internal(format!("{}: a change of no type", self.address)))
            }
        }
    }

    fn question(&self) -> Question<'_> {
        let (kind, upstream) = (&self.kind, &self.address);
        Question { kind, upstream, name: &self.place, writes: false }
    }
}
