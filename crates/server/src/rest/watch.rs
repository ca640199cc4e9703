//! Watching: one line of JSON for each change, for as long as the client listens.
//!
//! ```text
//!   no version, or 0           everything that is there as ADDED, then every change
//!   version N                  every change after N
//!   sendInitialEvents          as the first, with a bookmark that says where the first part ends
//! ```
//! The stream is pulled by the connection: a slow client holds nothing but its place in the shared
//! history, and one that is too slow is told so (410) and lists again.
use super::accept::Form;
use super::call::Call;
use super::catalog::PROJECT;
use super::failure::Failure;
use super::query::{Query, Version};
use super::render::Renderer;
use super::selection::Selection;
use crate::connection::in_turns;
use crate::identity::{GOOD_NO_LONGER, LastWords, Lasting};
use axum::body::{Body, Bytes};
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::Response;
use futures::stream::{self, Stream, StreamExt};
use orrery_api::{self as api, Encoded};
use orrery_hub::{Revision, WatchEvent, WatchOptions, WatchStream};
use serde_json::{Value, json};
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

/// A watch that does not say how long it wants to live ends after this and up to as much again, so
/// that the watches that were opened together do not come back together.
const LIFE_MIN: Duration = Duration::from_secs(1800);

pub async fn watch(call: &Call, project: Option<String>) -> Result<Response, Failure> {
    let mut selection = Selection::of(&call.resource, &call.query, project)?;
    call.check_version(call.query.version).await?;
    let name = selection.fields.exact("metadata.name").map(str::to_owned);
    let scope = selection.project.clone().unwrap_or_default();
    let only = name.as_deref().unwrap_or_default();
    let lasting = Lasting::watch(&call.guard, &call.resource.kind, &scope, only);
    let options = WatchOptions {
        project: selection.project.clone(),
        name,
        labels: std::mem::take(&mut selection.labels),
        fields: std::mem::take(&mut selection.fields),
        after: start(call).await?,
        include_lineage: call.query.lineage,
        include_shared: true,
        ..WatchOptions::default()
    };
    let body = match call.resource.accessor.watch_encoded(options).await {
        Ok(events) => {
            Body::from_stream(lines(call, call.guard.lasting(lasting, events), selection))
        }
        // Projects that the upstream does not have are not heard of here when they come.
        Err(orrery_hub::Error::ProjectNotFound { project }) if !call.is_elsewhere() => {
            let events = call.guard.lasting(lasting, nothing_yet(call, project).await?);
            Body::from_stream(lines(call, events, selection))
        }
        // Under this dialect a watch that cannot begin is a stream with one event.
        Err(error @ orrery_hub::Error::Expired { .. }) => {
            let failure = Failure::of(error, &call.resource, "");
            Body::from(line("ERROR", &failure.to_value()))
        }
        Err(error) => return Err(Failure::of(error, &call.resource, "")),
    };
    let mut response = Response::new(body);
    let kind = HeaderValue::from_static("application/json");
    response.headers_mut().insert(header::CONTENT_TYPE, kind);
    let no_cache = HeaderValue::from_static("no-cache, private");
    response.headers_mut().insert(header::CACHE_CONTROL, no_cache);
    let over = Failure::new(StatusCode::UNAUTHORIZED, "Unauthorized", GOOD_NO_LONGER);
    response.extensions_mut().insert(LastWords(line("ERROR", &over.to_value())));
    Ok(response)
}

/// A watch in a project that is not there has nothing to tell, which is no error in this dialect. It
/// ends when there is such a project: whoever comes back from where it was misses nothing. Who knew an earlier
/// one does not come here: that it is gone is told by the hub.
async fn nothing_yet(call: &Call, project: String) -> Result<WatchStream<Encoded>, Failure> {
    let kind = call.hub.scheme().by_full_name(PROJECT);
    let kind = kind.ok_or_else(|| Failure::internal("projects are not registered"))?;
    let failed = |error| Failure::of(error, &call.resource, "");
    let projects = call.hub.accessor(kind).map_err(failed)?;
    let options = WatchOptions { name: Some(project), ..WatchOptions::default() };
    let appears = projects.watch_encoded(options).await.map_err(failed)?;
    let absent = |event: &Result<WatchEvent<Encoded>, _>| match event {
        Ok(WatchEvent::Bookmark(_) | WatchEvent::Deleted(_)) | Err(_) => true,
        Ok(WatchEvent::Added(_) | WatchEvent::Modified(_)) => false,
    };
    let quiet =
        |event: &Result<WatchEvent<Encoded>, _>| !matches!(event, Ok(WatchEvent::Deleted(_)));
    let appears = appears.take_while(move |event| std::future::ready(absent(event)));
    Ok(appears.filter(move |event| std::future::ready(quiet(event))).boxed())
}

/// The revision to go on from; none where the present state comes first.
async fn start(call: &Call) -> Result<Option<Revision>, Failure> {
    let Query { initial_events, version, .. } = &call.query;
    Ok(match (initial_events, version) {
        (Some(true), _) => None,
        (Some(false), Version::Unset | Version::Any) => Some(call.current_revision().await?),
        (None, Version::Unset | Version::Any) => None,
        (Some(false) | None, Version::At(revision)) => Some(*revision),
    })
}

/// The lines of the answer; they end when the client has listened long enough or the server stops.
fn lines(
    call: &Call,
    events: WatchStream<Encoded>,
    selection: Selection,
) -> impl Stream<Item = Result<Bytes, Infallible>> + use<> {
    let life = call.query.timeout.unwrap_or_else(default_life);
    let stop = call.stop.clone();
    let end = async move {
        tokio::select! {
            () = stop.cancelled() => {}
            () = tokio::time::sleep(life) => {}
        }
    };
    let state = State {
        events,
        writer: Writer {
            shared: shared_form(call),
            renderer: call.renderer(),
            selection,
            bookmarks: call.query.bookmarks,
            announce_end: call.query.initial_events == Some(true),
            first: true,
        },
        over: false,
    };
    let lines = in_turns(stream::unfold(state, State::next), Bytes::len);
    lines.take_until(Box::pin(end)).map(Ok)
}

/// What watchers that get the same lines have in common. Tables show ages, so each has its own.
fn shared_form(call: &Call) -> Option<Arc<str>> {
    let resource = &call.resource;
    if resource.kind.has_secrets() && !call.guard.sees_everything() {
        // What one may see, another may not.
        return None;
    }
    match call.form {
        Form::Json | Form::Yaml | Form::Metadata(_) => {
            let (face, form) = (resource.face, call.form);
            Some(format!("rest {face:?} {form:?} {}", resource.api_version()).into())
        }
        Form::Table(_) => None,
    }
}

fn default_life() -> Duration {
    LIFE_MIN + rand::random_range(Duration::ZERO..LIFE_MIN)
}

struct State {
    events: WatchStream<Encoded>,
    writer: Writer,
    over: bool,
}

impl State {
    async fn next(mut self) -> Option<(Bytes, Self)> {
        while !self.over {
            let written = match self.events.next().await? {
                Ok(event) => self.writer.write(&event),
                Err(error) => Err(Failure::of(error, &self.writer.renderer.resource, "")),
            };
            match written {
                Ok(Some(line)) => return Some((line, self)),
                Ok(None) => {}
                Err(failure) => {
                    self.over = true;
                    return Some((line("ERROR", &failure.to_value()), self));
                }
            }
        }
        None
    }
}

/// Turns events into lines.
struct Writer {
    renderer: Renderer,
    selection: Selection,
    bookmarks: bool,
    /// The next bookmark ends the initial events, and the client waits for it.
    announce_end: bool,
    first: bool,
    /// The name of the lines that others get too.
    shared: Option<Arc<str>>,
}

const KINDS: [&str; 3] = ["ADDED", "MODIFIED", "DELETED"];

impl Writer {
    fn write(&mut self, event: &WatchEvent<Encoded>) -> Result<Option<Bytes>, Failure> {
        let (number, object) = match event {
            WatchEvent::Added(object) => (0, object),
            WatchEvent::Modified(object) => (1, object),
            WatchEvent::Deleted(object) => (2, object),
            WatchEvent::Bookmark(revision) => {
                let end = std::mem::take(&mut self.announce_end);
                let bookmark = || self.renderer.bookmark(&revision.to_string(), end);
                return Ok(self.bookmarks.then(|| line("BOOKMARK", &bookmark())));
            }
        };
        if !self.selection.fits_project(object.project().map_err(Failure::internal)?) {
            return Ok(None);
        }
        let first = std::mem::take(&mut self.first);
        let make = || {
            let shown =
                self.renderer.watched(object.object().map_err(Failure::internal)?, first)?;
            Ok(line(KINDS[usize::from(number)], &shown))
        };
        match &self.shared {
            Some(name) => object.form(&api::Form { name: name.clone(), number }, make).map(Some),
            None => make().map(Some),
        }
    }
}

fn line(kind: &str, object: &Value) -> Bytes {
    Bytes::from(format!("{}\n", json!({ "type": kind, "object": object })))
}
