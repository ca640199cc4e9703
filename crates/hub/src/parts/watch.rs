//! Changes of objects that are several entries: all of them change in one commit.
use super::compose::Composer;
use crate::accessor::WatchStream;
use crate::error::Error;
use crate::options::{WatchEvent, WatchOptions};
use crate::watch::{Reader, Scope, Wanted, follow};
use orrery_api::Encoded;
use orrery_store::{Entry, Event, EventBatch, Revision, Snapshot, Store};
use std::sync::Arc;

pub async fn open(
    store: &Store,
    composer: &Arc<Composer>,
    options: WatchOptions,
) -> Result<WatchStream<Encoded>, Error> {
    let wanted = Wanted::new(&composer.keys, &options);
    let scope = Scope {
        objects: wanted.prefix.clone(),
        changes: composer.keys.all_with_parts().to_owned(),
        after: options.after,
        idle: options.bookmark_interval,
    };
    follow(store, scope, PartsReader { composer: composer.clone(), wanted }).await
}

struct PartsReader {
    composer: Arc<Composer>,
    wanted: Wanted,
}

impl PartsReader {
    /// Whether a key is that of an object this watcher wants, and not of a part of one.
    fn is_wanted(&self, key: &str) -> bool {
        key.starts_with(&self.wanted.prefix) && self.wanted.is_key(key)
    }

    fn shown<'a>(
        &self,
        head: &Entry,
        parts: impl Iterator<Item = &'a Entry>,
        revision: Revision,
    ) -> Result<Encoded, Error> {
        self.composer.compose(head, parts, revision).map(Encoded::from)
    }

    fn change(
        &self,
        batch: &EventBatch,
        event: &Event,
    ) -> Result<Option<WatchEvent<Encoded>>, Error> {
        let parts = self.composer.parts_of(event.key());
        let of_it = || batch.events.iter().filter(|event| event.key().starts_with(&parts));
        let after = of_it().filter_map(|event| after(event));
        let before = of_it().filter_map(|event| before(event));
        let revision = batch.revision;
        Ok(match event {
            Event::Put { entry, previous } => {
                let now = self.shown(entry, after, revision)?;
                let now = self.wanted.fits(&now)?.then_some(now);
                let old = match previous {
                    Some(previous) => Some(self.shown(previous, before, revision)?),
                    None => None,
                };
                let old = match old {
                    Some(old) if self.wanted.fits(&old)? => Some(old),
                    Some(_) | None => None,
                };
                match (now, old) {
                    (Some(now), None) => Some(WatchEvent::Added(now)),
                    (Some(now), Some(_)) => Some(WatchEvent::Modified(now)),
                    (None, Some(old)) => Some(WatchEvent::Deleted(old)),
                    (None, None) => None,
                }
            }
            Event::Delete { previous, .. } => {
                let last = self.shown(previous, before, revision)?;
                self.wanted.fits(&last)?.then_some(WatchEvent::Deleted(last))
            }
        })
    }
}

fn after(event: &Event) -> Option<&Entry> {
    match event {
        Event::Put { entry, .. } => Some(entry),
        Event::Delete { .. } => None,
    }
}

fn before(event: &Event) -> Option<&Entry> {
    match event {
        Event::Put { previous, .. } => previous.as_deref(),
        Event::Delete { previous, .. } => Some(previous),
    }
}

impl Reader for PartsReader {
    fn present(&self, snapshot: &Snapshot, entry: &Entry) -> Result<Option<Encoded>, Error> {
        if !self.is_wanted(&entry.key) {
            return Ok(None);
        }
        let found = Encoded::from(self.composer.read(snapshot, entry)?);
        Ok(self.wanted.fits(&found)?.then_some(found))
    }

    fn changes(&self, batch: &EventBatch) -> Result<Vec<WatchEvent<Encoded>>, Error> {
        let mut changes = Vec::new();
        for event in batch.events.iter().filter(|event| self.is_wanted(event.key())) {
            changes.extend(self.change(batch, event)?);
        }
        Ok(changes)
    }
}
