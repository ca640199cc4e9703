//! Changes in the store as changes of objects.
use crate::accessor::WatchStream;
use crate::error::Error;
use crate::keys::Keys;
use crate::options::{WatchEvent, WatchOptions};
use crate::store_accessor::{decode, decode_at, from_store};
use futures::stream::{self, StreamExt};
use orrery_api::{FieldSelector, Kind, LabelSelector, Object};
use orrery_store::{Entry, Event, Revision, Store, Watcher};
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

/// How long a watcher hears nothing before it is told how far the store has come, so that it can
/// go on from there even after the history before it is gone.
pub const BOOKMARK_INTERVAL: Duration = Duration::from_secs(60);

/// Opens a watch on the stored view of a kind.
pub(crate) async fn open(
    store: &Store,
    kind: &Arc<Kind>,
    keys: &Keys,
    mut options: WatchOptions,
) -> Result<WatchStream, Error> {
    if let (None, Some(name)) = (&options.name, options.fields.exact("metadata.name")) {
        options.name = Some(name.to_owned());
    }
    let (prefix, only) = scope(keys, &options);
    let filter = Filter {
        kind: kind.clone(),
        labels: options.labels,
        fields: options.fields,
        name: options.name,
        only,
    };
    let mut pending = VecDeque::new();
    let after = match options.after {
        Some(after) => after,
        None => {
            let snapshot = store.snapshot().await.map_err(from_store)?;
            for entry in snapshot.range(&prefix) {
                pending.extend(filter.present(entry)?.map(WatchEvent::Added));
            }
            pending.push_back(WatchEvent::Bookmark(snapshot.revision()));
            snapshot.revision()
        }
    };
    let watcher = store.watch(&prefix, after).map_err(from_store)?;
    let idle = options.bookmark_interval.unwrap_or(BOOKMARK_INTERVAL);
    let state = State { watcher, filter, pending, idle };
    Ok(stream::try_unfold(state, |mut state| async move {
        let event = state.next().await?;
        Ok(Some((event, state)))
    })
    .boxed())
}

/// The prefix to watch, and the only key of interest where there is one.
fn scope(keys: &Keys, options: &WatchOptions) -> (String, Option<String>) {
    match (&options.project, &options.name) {
        (Some(project), Some(name)) => {
            let key = keys.object(project, name);
            (key.clone(), Some(key))
        }
        (Some(project), None) => (keys.project(project), None),
        (None, _) => (keys.all().to_owned(), None),
    }
}

struct State {
    watcher: Watcher,
    filter: Filter,
    pending: VecDeque<WatchEvent>,
    idle: Duration,
}

impl State {
    async fn next(&mut self) -> Result<WatchEvent, Error> {
        loop {
            if let Some(event) = self.pending.pop_front() {
                return Ok(event);
            }
            let batch = match tokio::time::timeout(self.idle, self.watcher.next()).await {
                Ok(batch) => batch.map_err(from_store)?,
                Err(_) => return Ok(WatchEvent::Bookmark(self.watcher.bookmark())),
            };
            for event in &batch.events {
                self.pending.extend(self.filter.change(event)?);
            }
        }
    }
}

struct Filter {
    kind: Arc<Kind>,
    labels: LabelSelector,
    fields: FieldSelector,
    name: Option<String>,
    only: Option<String>,
}

impl Filter {
    /// What a change in the store is to this watcher. An object that no longer fits the selectors
    /// is gone for it, as it was when it still did; one that begins to fit is new.
    fn change(&self, event: &Event) -> Result<Option<WatchEvent>, Error> {
        Ok(match event {
            Event::Put { entry, previous } => {
                match (self.present(entry)?, self.before(previous.as_deref())?) {
                    (Some(now), None) => Some(WatchEvent::Added(now)),
                    (Some(now), Some(_)) => Some(WatchEvent::Modified(now)),
                    (None, Some(before)) => Some(self.left(before, entry.modified)?),
                    (None, None) => None,
                }
            }
            Event::Delete { previous, revision } => match self.present(previous)? {
                Some(_) => Some(self.left(previous, *revision)?),
                None => None,
            },
        })
    }

    /// What was there before, if this watcher saw it. Nothing is decoded where everything fits.
    fn before<'a>(&self, previous: Option<&'a Entry>) -> Result<Option<&'a Entry>, Error> {
        let Some(previous) = previous else { return Ok(None) };
        let seen = self.takes_everything() || self.present(previous)?.is_some();
        Ok(seen.then_some(previous))
    }

    fn left(&self, before: &Entry, revision: Revision) -> Result<WatchEvent, Error> {
        decode_at(&self.kind, before, revision).map(WatchEvent::Deleted)
    }

    fn takes_everything(&self) -> bool {
        let Self { kind: _, labels, fields, name, only } = self;
        labels.is_empty() && fields.is_empty() && name.is_none() && only.is_none()
    }

    /// The object, if it fits.
    fn present(&self, entry: &Entry) -> Result<Option<Object>, Error> {
        if !self.interesting(entry) {
            return Ok(None);
        }
        let object = decode(&self.kind, entry)?;
        let fits = self.name.as_deref().is_none_or(|name| name == object.name())
            && self.labels.matches(&object)
            && self.fields.matches(&object);
        Ok(fits.then_some(object))
    }

    fn interesting(&self, entry: &Entry) -> bool {
        self.only.as_deref().is_none_or(|only| only == &*entry.key)
    }
}
