//! What changes for a project: its own objects, and those that begin or end to be shared with it.
//!
//! Which object a project reads under a name depends on all that it could read under it. A watcher therefore
//! remembers those, and tells what the choice between them becomes.
use super::{Sight, chosen};
use crate::accessor::WatchStream;
use crate::error::Error;
use crate::options::{WatchEvent, WatchOptions};
use crate::recent::Recent;
use crate::refusal::from_store;
use crate::store_accessor::encode_at;
use crate::watch::{Reader, Scope, Wanted, follow};
use orrery_api::Encoded;
use orrery_store::{Entry, Event, EventBatch, Revision, Snapshot, Store};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;

pub(crate) async fn open(
    sight: Sight,
    store: &Store,
    recent: &Arc<Recent>,
    options: WatchOptions,
) -> Result<WatchStream<Encoded>, Error> {
    let name = options.name.as_deref().or_else(|| options.fields.exact("metadata.name"));
    let name = name.map(str::to_owned);
    let everywhere = sight.keys.all().to_owned();
    let wanted = Wanted::new(&sight.keys, &options);
    let (recent, standing) = (recent.clone(), Mutex::default());
    let reader = SharedReader { sight, recent, wanted, name, standing };
    if let Some(after) = options.after {
        let snapshot = store.snapshot_at(after).await.map_err(from_store)?;
        reader.stand(&snapshot);
    }
    let scope = Scope {
        objects: everywhere.clone(),
        changes: everywhere,
        after: options.after,
        idle: options.bookmark_interval,
    };
    follow(store, scope, reader).await
}

/// What the project could read under each name, by key.
type Standing = BTreeMap<String, BTreeMap<Arc<str>, Arc<Entry>>>;

struct SharedReader {
    sight: Sight,
    recent: Arc<Recent>,
    wanted: Wanted,
    /// The one name that is watched.
    name: Option<String>,
    /// Held only within a call.
    standing: Mutex<Standing>,
}

impl SharedReader {
    /// Begins with what is there.
    fn stand(&self, snapshot: &Snapshot) {
        let own = self.sight.keys.project(&self.sight.reader);
        let terms = self.sight.terms();
        let shared = self.sight.candidates(snapshot, &terms);
        let mut standing = self.standing.lock();
        for entry in snapshot.range(&own).chain(shared) {
            let name = self.sight.name_of(entry);
            if self.is_wanted(name) && self.sight.claim(entry).is_readable() {
                let of_name = standing.entry(name.to_owned()).or_default();
                of_name.insert(entry.key.clone(), entry.clone());
            }
        }
    }

    fn is_wanted(&self, name: &str) -> bool {
        self.name.as_deref().is_none_or(|wanted| wanted == name)
    }

    /// What the project reads under a name.
    fn choice(&self, standing: &Standing, name: &str) -> Option<Arc<Entry>> {
        let entries = standing.get(name)?.values();
        chosen(entries.map(|entry| (self.sight.claim(entry), entry.clone())))
    }

    /// Takes in one change; what was read before and what is read now under its name.
    fn take(&self, event: &Event) -> (Option<Arc<Entry>>, Option<Arc<Entry>>) {
        let key = event.key();
        let Some((_, name)) = self.sight.keys.place(key).filter(|(_, name)| self.is_wanted(name))
        else {
            return (None, None);
        };
        let mut standing = self.standing.lock();
        let before = self.choice(&standing, name);
        let now = match event {
            Event::Put { entry, .. } => Some(entry),
            Event::Delete { .. } => None,
        };
        let now = now.filter(|entry| self.sight.claim(entry).is_readable());
        let of_name = standing.entry(name.to_owned()).or_default();
        match now {
            Some(entry) => of_name.insert(key.clone(), entry.clone()),
            None => of_name.remove(key),
        };
        if of_name.is_empty() {
            standing.remove(name);
        }
        (before, self.choice(&standing, name))
    }

    /// An entry as the project sees it, if it fits the selectors.
    fn shown(&self, entry: &Entry, revision: Revision) -> Result<Option<Encoded>, Error> {
        let found = match self.sight.claim(entry).own {
            true => self.recent.encoded(&self.sight.kind, entry, revision)?,
            false => self.sight.view(entry, revision)?,
        };
        Ok(self.wanted.fits(&found)?.then_some(found))
    }

    fn change(&self, event: &Event, at: Revision) -> Result<Vec<WatchEvent<Encoded>>, Error> {
        let (before, after) = self.take(event);
        if unchanged(before.as_deref(), after.as_deref()) {
            return Ok(Vec::new());
        }
        let replaced = matches!((&before, &after), (Some(old), Some(new)) if old.key != new.key);
        // Of two changes at one revision the first is told at the one before: whoever goes on from there
        // hears of both again, and misses none.
        let gone = if replaced { Revision(at.0.saturating_sub(1)) } else { at };
        let old = before.map(|entry| self.shown(&entry, gone)).transpose()?.flatten();
        let new = after.map(|entry| self.shown(&entry, at)).transpose()?.flatten();
        Ok(match (old, new) {
            (None, None) => Vec::new(),
            (None, Some(new)) => vec![WatchEvent::Added(new)],
            (Some(old), None) => vec![WatchEvent::Deleted(old)],
            (Some(old), Some(new)) if replaced => {
                vec![WatchEvent::Deleted(old), WatchEvent::Added(new)]
            }
            (Some(_), Some(new)) => vec![WatchEvent::Modified(new)],
        })
    }
}

/// Whether what is read is the same as before: the change was of something that is hidden.
fn unchanged(before: Option<&Entry>, after: Option<&Entry>) -> bool {
    match (before, after) {
        (Some(old), Some(new)) => old.key == new.key && old.modified == new.modified,
        (None, None) => true,
        (Some(_), None) | (None, Some(_)) => false,
    }
}

impl Reader for SharedReader {
    fn present(&self, _snapshot: &Snapshot, entry: &Entry) -> Result<Option<Encoded>, Error> {
        let found = match self.sight.claim(entry).own {
            true => encode_at(&self.sight.kind, entry, entry.modified)?,
            false => self.sight.view(entry, entry.modified)?,
        };
        Ok(self.wanted.fits(&found)?.then_some(found))
    }

    fn changes(&self, batch: &EventBatch) -> Result<Vec<WatchEvent<Encoded>>, Error> {
        let mut changes = Vec::new();
        for event in &batch.events {
            changes.extend(self.change(event, batch.revision)?);
        }
        Ok(changes)
    }

    fn candidates(&self, snapshot: &Snapshot) -> Option<Vec<String>> {
        self.stand(snapshot);
        let standing = self.standing.lock();
        let chosen = standing.keys().filter_map(|name| self.choice(&standing, name));
        Some(chosen.map(|entry| entry.key.to_string()).collect())
    }
}
