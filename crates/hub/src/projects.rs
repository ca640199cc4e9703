//! Project names and ids.
//!
//! People name projects; the store holds their ids, so that a project that is created again under
//! an old name does not inherit what the old one left. A name leads to one id at a time; an id leads
//! to one name for ever, so that direction may be remembered.
use crate::error::Error;
use crate::keys::Keys;
use crate::layers::project_end::Gone;
use crate::refusal::from_store;
use crate::store_accessor::decode;
use futures::FutureExt as _;
use orrery_api::Kind;
use orrery_store::{Entry, Event, EventBatch, Expect, Op, Revision, Snapshot, Store, Watcher};
use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::Arc;

/// More remembered names than this are forgotten and read again.
const REMEMBERED_MAX: usize = 10_000;

/// Commits that are looked through at once for what has happened to a project; there are few of each.
const AT_ONCE_MAX: usize = 64;

#[derive(Debug)]
struct Known {
    modified: Revision,
    id: Arc<str>,
    terminating: bool,
}

/// Looks projects up.
pub struct Projects {
    kind: Arc<Kind>,
    keys: Keys,
    store: Store,
    by_name: Mutex<HashMap<String, Known>>,
    names: Mutex<HashMap<Arc<str>, Arc<str>>>,
}

/// A project that exists.
#[derive(Clone, Debug)]
pub struct Project {
    pub id: Arc<str>,
    pub terminating: bool,
    /// Holds as long as the project is what it was when it was looked up.
    pub guard: Op,
}

impl Projects {
    pub fn new(kind: Arc<Kind>, keys: Keys, store: Store) -> Self {
        Self { kind, keys, store, by_name: <_>::default(), names: <_>::default() }
    }

    /// The project of this name, now.
    pub async fn by_name(&self, name: &str) -> Result<Project, Error> {
        let key = self.keys.object("", name);
        let entry = self.store.get(&key).await.map_err(from_store)?;
        let entry = entry.ok_or_else(|| Error::ProjectNotFound { project: name.to_owned() })?;
        let guard = Op::check(key, Expect::At(entry.modified));
        if let Some(known) = self.by_name.lock().get(name)
            && known.modified == entry.modified
        {
            let (id, terminating) = (known.id.clone(), known.terminating);
            return Ok(Project { id, terminating, guard });
        }
        let (id, terminating) = self.learn(&entry)?;
        Ok(Project { id, terminating, guard })
    }

    /// The deletions of projects of this name after a revision, or from now on.
    pub async fn endings(&self, name: &str, after: Option<Revision>) -> Result<Endings, Error> {
        let key = self.keys.object("", name);
        let after = after.unwrap_or_else(|| self.store.revision());
        // Another server may have told the caller of more than this one has read yet.
        if self.store.revision() < after {
            self.store.snapshot().await.map_err(from_store)?;
        }
        let watcher = self.store.watch(&key, after).map_err(from_store)?;
        Ok(Endings { key, after, watcher })
    }

    /// The name behind an id; the id itself where nobody knows any more.
    pub fn name_of(&self, id: &str) -> Arc<str> {
        if let Some(name) = self.names.lock().get(id) {
            return name.clone();
        }
        self.read_all(&self.store.snapshot_now());
        self.names.lock().get(id).cloned().unwrap_or_else(|| id.into())
    }

    /// The name of the project that has this id, if it is still there.
    pub fn living(&self, id: &str) -> Option<Arc<str>> {
        let name = self.name_of(id);
        let there = self.id_in(&self.store.snapshot_now(), &name).ok().flatten();
        if there.as_deref() == Some(id) {
            return Some(name);
        }
        // An id is given once, so what is gone need not be looked for again.
        remember(&mut self.names.lock(), id.into(), name);
        None
    }

    /// The id of the project that had this name in a snapshot.
    pub fn id_in(&self, snapshot: &Snapshot, name: &str) -> Result<Option<Arc<str>>, Error> {
        let entry = snapshot.get(&self.keys.object("", name));
        entry.map(|entry| self.id(entry)).transpose()
    }

    /// The project whose name comes next after a name, as it was in a snapshot: its name and id.
    pub fn next_in(
        &self,
        snapshot: &Snapshot,
        after: &str,
    ) -> Result<Option<(String, Arc<str>)>, Error> {
        let (base, after) = (self.keys.object("", ""), self.keys.object("", after));
        let Some(entry) = snapshot.range_after(&base, &after).next() else {
            return Ok(None);
        };
        let name = entry.key.strip_prefix(&base).unwrap_or_default();
        Ok(Some((name.to_owned(), self.id(entry)?)))
    }

    fn id(&self, entry: &Entry) -> Result<Arc<str>, Error> {
        let name = entry.key.rsplit('/').next().unwrap_or_default();
        if let Some(known) = self.by_name.lock().get(name)
            && known.modified == entry.modified
        {
            return Ok(known.id.clone());
        }
        self.learn(entry).map(|(id, _)| id)
    }

    fn read_all(&self, snapshot: &Snapshot) {
        for entry in snapshot.range(self.keys.all()) {
            if let Err(error) = self.learn(entry) {
                tracing::error!(%error, "cannot read a project");
            }
        }
    }

    fn learn(&self, entry: &Entry) -> Result<(Arc<str>, bool), Error> {
        let project = decode(&self.kind, entry)?;
        let (name, id): (Arc<str>, Arc<str>) = (project.name().into(), project.uid().into());
        let terminating = project.deletion_timestamp().is_some();
        let known = Known { modified: entry.modified, id: id.clone(), terminating };
        remember(&mut self.by_name.lock(), name.to_string(), known);
        remember(&mut self.names.lock(), id.clone(), name);
        Ok((id, terminating))
    }
}

/// The deletions of projects of one name.
pub struct Endings {
    key: String,
    after: Revision,
    watcher: Watcher,
}

impl Endings {
    /// Refuses to go on beyond one that has happened already.
    pub fn check(&mut self) -> Result<(), Error> {
        loop {
            let batches = self.watcher.ready(AT_ONCE_MAX).map_err(from_store)?;
            if batches.is_empty() {
                return Ok(());
            }
            if let Some(oldest) = batches.iter().find_map(|batch| self.deletion_in(batch)) {
                return Err(Error::Expired { requested: self.after, oldest, resume: None });
            }
        }
    }

    /// Ready with the next one.
    pub fn next(self) -> Gone {
        self.wait().boxed()
    }

    async fn wait(mut self) -> Result<Revision, Error> {
        loop {
            let batch = self.watcher.next().await.map_err(from_store)?;
            if let Some(revision) = self.deletion_in(&batch) {
                return Ok(revision);
            }
        }
    }

    fn deletion_in(&self, batch: &EventBatch) -> Option<Revision> {
        batch.events.iter().find_map(|event| match event {
            Event::Delete { previous, revision } if *previous.key == *self.key => Some(*revision),
            Event::Delete { .. } | Event::Put { .. } => None,
        })
    }
}

fn remember<K: std::hash::Hash + Eq, V>(map: &mut HashMap<K, V>, key: K, value: V) {
    if REMEMBERED_MAX <= map.len() {
        map.clear();
    }
    map.insert(key, value);
}
