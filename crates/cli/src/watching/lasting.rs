//! A watch that begins again when it has missed something.
//!
//! ```text
//!   open ──events──> told ──Expired──> open
//!                      └──no such project──> wait for the project ──it is there──> open
//! ```
use super::Change;
use crate::kinds;
use crate::output::print;
use crate::session::reason;
use anyhow::anyhow;
use futures::future::{BoxFuture, FutureExt as _};
use futures::stream::{self, BoxStream, StreamExt as _};
use orrery_client::Commander;
use orrery_proto::hub::v1::watch_response::Type;
use orrery_proto::hub::v1::{KindInfo, WatchRequest, WatchResponse};
use std::sync::Arc;
use std::time::Duration;

/// Before beginning again a watch that told nothing at all, so that a server in trouble is not asked
/// without a pause.
const PAUSE: Duration = Duration::from_secs(1);

/// What to make of a project that is not there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Patience {
    /// At the start it is an error: somebody has mistyped its name. Later it is waited for.
    Later,
    /// It is waited for.
    Always,
}

pub type Events = BoxStream<'static, anyhow::Result<WatchResponse>>;

/// Where watches come from.
pub trait Source: Send + Sync + 'static {
    fn open(self: Arc<Self>, request: WatchRequest) -> BoxFuture<'static, anyhow::Result<Events>>;
}

impl Source for Commander {
    fn open(self: Arc<Self>, request: WatchRequest) -> BoxFuture<'static, anyhow::Result<Events>> {
        let opening = async move {
            let watch = self.watch(request).await?;
            let events = stream::unfold(watch, |mut watch| async move {
                let event = watch.next().await.map_err(anyhow::Error::from).transpose()?;
                Some((event, watch))
            });
            Ok(events.boxed())
        };
        opening.boxed()
    }
}

/// The changes of one watch, and the error that it ends with, if any can end it.
pub fn changes(
    source: Arc<impl Source>,
    request: WatchRequest,
    projects: &KindInfo,
    patience: Patience,
) -> BoxStream<'static, anyhow::Result<Change>> {
    let project = WatchRequest {
        api_version: kinds::api_version(projects),
        kind: projects.kind.clone(),
        name: request.project.clone(),
        encoding: request.encoding,
        ..WatchRequest::default()
    };
    let patient = patience == Patience::Always;
    let lasting = Lasting { source, request, project, patient, heard: false, now: Now::Opening };
    stream::unfold(lasting, Lasting::next).boxed()
}

enum Now {
    Opening,
    Telling(Events),
    /// There is no such project, in the words of the server.
    Absent(anyhow::Error),
    Awaiting(Events, anyhow::Error),
    Over,
}

struct Lasting<S> {
    source: Arc<S>,
    request: WatchRequest,
    /// Watches the project that `request` is about.
    project: WatchRequest,
    /// Whether a project that is not there is waited for.
    patient: bool,
    /// Whether anything was told since the watch was opened last.
    heard: bool,
    now: Now,
}

impl<S: Source> Lasting<S> {
    async fn next(mut self) -> Option<(anyhow::Result<Change>, Self)> {
        loop {
            let told = match std::mem::replace(&mut self.now, Now::Over) {
                Now::Opening => self.open().await,
                Now::Telling(events) => self.tell(events).await,
                Now::Absent(why) => self.look_for_project(why).await,
                Now::Awaiting(events, why) => self.await_project(events, why).await,
                Now::Over => return None,
            };
            if let Some(told) = told {
                return Some((told, self));
            }
        }
    }

    async fn open(&mut self) -> Option<anyhow::Result<Change>> {
        match self.source.clone().open(self.request.clone()).await {
            Ok(events) => {
                self.now = Now::Telling(events);
                None
            }
            Err(error) => Some(Err(error)),
        }
    }

    async fn tell(&mut self, mut events: Events) -> Option<anyhow::Result<Change>> {
        let error = match events.next().await {
            Some(Ok(event)) => {
                self.heard = true;
                self.now = Now::Telling(events);
                return change(&event).transpose();
            }
            Some(Err(error)) => error,
            None => return Some(Err(anyhow!("the server ended the watch"))),
        };
        match reason(&error) {
            // What happened meanwhile is not told any more, or the project is another one now.
            Some("Expired") => {
                if !std::mem::take(&mut self.heard) {
                    tokio::time::sleep(PAUSE).await;
                }
                self.patient = true;
                self.now = Now::Opening;
                Some(Ok(Change::Again))
            }
            Some("NotFound") if self.patient && !self.request.project.is_empty() => {
                self.now = Now::Absent(error);
                Some(Ok(Change::Complete))
            }
            Some(_) | None => Some(Err(error)),
        }
    }

    async fn look_for_project(&mut self, why: anyhow::Error) -> Option<anyhow::Result<Change>> {
        match self.source.clone().open(self.project.clone()).await {
            Ok(events) => {
                self.now = Now::Awaiting(events, why);
                None
            }
            Err(error) => Some(Err(the_reason(why, error))),
        }
    }

    async fn await_project(
        &mut self,
        mut events: Events,
        why: anyhow::Error,
    ) -> Option<anyhow::Result<Change>> {
        match events.next().await {
            Some(Ok(event)) => match event.r#type() {
                Type::Added | Type::Modified => {
                    self.heard = true;
                    self.now = Now::Opening;
                    Some(Ok(Change::Again))
                }
                Type::Deleted | Type::Bookmark | Type::Unspecified => {
                    self.now = Now::Awaiting(events, why);
                    None
                }
            },
            Some(Err(error)) if reason(&error) == Some("Expired") => {
                self.now = Now::Absent(why);
                None
            }
            Some(Err(error)) => Some(Err(the_reason(why, error))),
            None => Some(Err(anyhow!("the server ended the watch"))),
        }
    }
}

/// Why a project cannot be waited for: whoever may not watch projects is told that it is not there.
fn the_reason(absent: anyhow::Error, error: anyhow::Error) -> anyhow::Error {
    if reason(&error).is_some() { absent } else { error }
}

fn change(event: &WatchResponse) -> anyhow::Result<Option<Change>> {
    let object = || print::json(event.resource.as_ref());
    Ok(match event.r#type() {
        Type::Added | Type::Modified => Some(Change::Is(object()?)),
        Type::Deleted => Some(Change::Gone(object()?)),
        Type::Bookmark => Some(Change::Complete),
        Type::Unspecified => None,
    })
}

#[cfg(test)]
mod tests;
