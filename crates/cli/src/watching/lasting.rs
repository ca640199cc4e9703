//! A watch that begins again when it has missed something.
//!
//! ```text
//!   open ──events──> told ──Expired──> open
//!                      ├──no such project──> wait for the project ──it is there──> open
//!                      └──connection lost──> pause, connect ──connected──> open
//! ```
use super::{Change, Told};
use crate::kinds;
use crate::output::print;
use crate::session::{Ended, is_away, reason};
use futures::future::BoxFuture;
use futures::stream::{self, BoxStream, StreamExt as _};
use orrery_proto::hub::v1::watch_response::Type;
use orrery_proto::hub::v1::{KindInfo, WatchRequest, WatchResponse};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// Before beginning again a watch that told nothing at all, so that a server in trouble is not asked
/// without a pause.
const PAUSE: Duration = Duration::from_secs(1);

/// Between two attempts to reach a server that is away: at first, and at most.
const RETRY_FIRST: Duration = Duration::from_millis(250);
const RETRY_MAX: Duration = Duration::from_secs(5);
/// How long a server may be away before the watch ends; a restart takes seconds, an upgrade of its
/// machine minutes.
const AWAY_MAX: Duration = Duration::from_secs(300);

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

    /// Connects again, once, where the connection is lost.
    fn restore(self: Arc<Self>) -> BoxFuture<'static, anyhow::Result<()>>;
}

/// The changes of one watch, and the error that it ends with, if any can end it.
pub fn changes(
    source: Arc<impl Source>,
    request: WatchRequest,
    projects: &KindInfo,
    patience: Patience,
) -> BoxStream<'static, anyhow::Result<Told>> {
    let project = WatchRequest {
        api_version: kinds::api_version(projects),
        kind: projects.kind.clone(),
        name: request.project.clone(),
        encoding: request.encoding,
        ..WatchRequest::default()
    };
    let patient = patience == Patience::Always;
    let (now, away) = (Now::Opening, None);
    let told = Outage::None;
    let lasting = Lasting { source, request, project, patient, heard: false, away, told, now };
    stream::unfold(lasting, Lasting::next).boxed()
}

enum Now {
    Opening,
    Telling(Events),
    /// There is no such project, in the words of the server.
    Absent(anyhow::Error),
    Awaiting(Events, anyhow::Error),
    /// The connection is lost.
    Away,
    Over,
}

/// What was told of the connection.
enum Outage {
    None,
    /// That it is lost. That it is there again is told when the server has told something: one that
    /// takes connections while its store is away is of no use yet.
    Lost,
    /// That it is there again; next come `Change::Again` and this.
    Found(Change),
    Again(Change),
}

/// How long somebody has been away, and when to try again.
pub struct Away {
    since: Instant,
    /// Before the next attempt.
    pause: Duration,
}

impl Away {
    pub fn new() -> Self {
        Self { since: Instant::now(), pause: RETRY_FIRST }
    }

    pub fn is_too_long(&self) -> bool {
        AWAY_MAX <= self.since.elapsed()
    }

    /// How long to wait before the next attempt.
    pub fn next_pause(&mut self) -> Duration {
        let pause = self.pause;
        self.pause = RETRY_MAX.min(pause * 2);
        pause
    }

    async fn pause(&mut self) {
        tokio::time::sleep(self.next_pause()).await;
    }
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
    /// Since the connection was lost and until the server says something.
    away: Option<Away>,
    told: Outage,
    now: Now,
}

impl<S: Source> Lasting<S> {
    async fn next(mut self) -> Option<(anyhow::Result<Told>, Self)> {
        loop {
            match std::mem::replace(&mut self.told, Outage::None) {
                Outage::Found(change) => {
                    self.told = Outage::Again(change);
                    return Some((Ok(Told::Change(Change::Again)), self));
                }
                Outage::Again(change) => return Some((Ok(Told::Change(change)), self)),
                before @ (Outage::None | Outage::Lost) => self.told = before,
            }
            let news = match std::mem::replace(&mut self.now, Now::Over) {
                Now::Opening => self.open().await,
                Now::Telling(events) => self.tell(events).await,
                Now::Absent(why) => self.look_for_project(why).await,
                Now::Awaiting(events, why) => self.await_project(events, why).await,
                Now::Away => self.reach().await.map(Err),
                Now::Over => return None,
            };
            let Some(told) = news.and_then(|news| self.judge(news)) else { continue };
            return Some((told, self));
        }
    }

    /// What to tell of what was heard, if anything.
    fn judge(&mut self, news: anyhow::Result<Change>) -> Option<anyhow::Result<Told>> {
        let was_lost = matches!(self.told, Outage::Lost);
        match news {
            Ok(change) if was_lost => {
                self.told = Outage::Found(change);
                Some(Ok(Told::Found))
            }
            Ok(change) => Some(Ok(Told::Change(change))),
            Err(error) if is_away(&error) && !self.is_given_up() => {
                self.now = Now::Away;
                self.told = Outage::Lost;
                (!was_lost).then(|| Ok(Told::Lost(format!("{error:#}"))))
            }
            Err(error) => Some(Err(error)),
        }
    }

    /// Whether the server has been away for too long.
    fn is_given_up(&self) -> bool {
        self.away.as_ref().is_some_and(Away::is_too_long)
    }

    /// One attempt to reach the server again; says why it failed.
    async fn reach(&mut self) -> Option<anyhow::Error> {
        self.away.get_or_insert_with(Away::new).pause().await;
        self.source.clone().restore().await.err().or_else(|| {
            self.patient |= std::mem::take(&mut self.heard);
            self.now = Now::Opening;
            None
        })
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
                (self.heard, self.away) = (true, None);
                self.now = Now::Telling(events);
                return change(&event).transpose();
            }
            Some(Err(error)) => error,
            None => return Some(Err(Ended.into())),
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
                    (self.heard, self.away) = (true, None);
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
            None => Some(Err(Ended.into())),
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
