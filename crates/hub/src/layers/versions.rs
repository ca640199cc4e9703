//! What objects were under the earlier names of their versions, for kinds that keep it.
//!
//! ```text
//!   spec.version 1.0 ──> 1.1        what it was as 1.0 is kept, in the same commit
//!   spec.version 1.1 ──> 1.0        what it was as 1.1 is kept; 1.0 is what it is now
//!   spec.version stays              nothing is kept: a version is what was last declared under its name
//!   it is deleted                   its versions go in the same commit
//! ```
//! They stand beside the object, under keys that no watch of objects follows. It works on the stored view.
use crate::accessor::{Accessor, WatchStream};
use crate::clock::Clock;
use crate::error::Error;
use crate::keys::Keys;
use crate::options::{
    Applied, ApplyOptions, DeleteOptions, Deleted, GetOptions, ListOptions, ObjectName, Page, Part,
    Precondition, StatusOptions, Version, WatchOptions,
};
use crate::refusal::{self, from_store};
use crate::store_accessor::{decode, unreadable};
use async_trait::async_trait;
use orrery_api::{Encoded, Kind, LINEAGE, Object};
use orrery_store::{Entry, Expect, Op, Snapshot, Store};
use std::sync::Arc;

/// Versions of one object that are kept beside the one that it is at. They are deleted in one commit with it, and a
/// commit takes a hundred operations.
pub const KEPT_MAX: usize = 20;

/// When an object left a version; in what is kept only.
const LEFT_AT: &str = "orrery.dev/version-left-at";
/// How the annotations end in which tools keep what they applied.
const LAST_APPLIED: &str = "last-applied-configuration";

/// Around the objects of one kind whose versions are kept.
pub struct Versions {
    inner: Arc<dyn Accessor>,
    keys: Keys,
    store: Store,
    clock: Arc<dyn Clock>,
}

/// What a change of the version does to what is kept.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Moves {
    /// What the object was until now is kept.
    pub keep: bool,
    /// The names of versions that are not kept any more.
    pub forget: Vec<String>,
}

/// What becomes of the versions of an object when its version changes from one name to another. `kept` are the names
/// that are kept, those that were left first before others.
pub fn moves(from: &str, to: &str, kept: &[String]) -> Moves {
    if from == to {
        return Moves::default();
    }
    let keep = !from.is_empty();
    let mut forget: Vec<String> = kept.iter().filter(|name| *name == to).cloned().collect();
    // What is left now takes the place of what was kept under its name.
    let others: Vec<&String> = kept.iter().filter(|name| *name != to && *name != from).collect();
    let excess = (others.len() + usize::from(keep)).saturating_sub(KEPT_MAX);
    forget.extend(others.into_iter().take(excess).cloned());
    Moves { keep, forget }
}

impl Versions {
    pub fn new(inner: Arc<dyn Accessor>, keys: Keys, store: Store, clock: Arc<dyn Clock>) -> Self {
        Self { inner, keys, store, clock }
    }

    async fn live(&self, name: &ObjectName) -> Result<Option<Arc<Entry>>, Error> {
        self.store.get(&self.keys.object(&name.project, &name.name)).await.map_err(from_store)
    }

    /// What is kept of an object, that which was left first before others: names and entries.
    fn kept(&self, snapshot: &Snapshot, name: &ObjectName) -> Vec<(String, Arc<Entry>)> {
        let prefix = self.keys.versions(&name.project, &name.name);
        let entries = snapshot.range(&prefix);
        let name =
            |entry: &Arc<Entry>| entry.key.strip_prefix(&prefix).unwrap_or_default().to_owned();
        let mut kept: Vec<_> = entries.map(|entry| (name(entry), entry.clone())).collect();
        kept.sort_by_key(|(_, entry)| entry.modified);
        kept
    }

    /// Adds to a write what it means for the versions of the object. Most writes leave the version as it is, and
    /// cost a look.
    async fn follow(
        &self,
        name: &ObjectName,
        to: &str,
        options: &mut ApplyOptions,
    ) -> Result<(), Error> {
        let new = options.precondition == Precondition::Absent;
        if new || options.dry_run || options.part == Part::Status {
            return Ok(());
        }
        let Some(live) = self.live(name).await? else { return Ok(()) };
        let old = Encoded::new(self.kind(), live.value.clone());
        if old.version() == to {
            return Ok(());
        }
        let snapshot = self.store.snapshot().await.map_err(from_store)?;
        let kept = self.kept(&snapshot, name);
        let names: Vec<String> = kept.iter().map(|(name, _)| name.clone()).collect();
        let Moves { keep, forget } = moves(old.version(), to, &names);
        if keep {
            let key = self.keys.version(&name.project, &name.name, old.version());
            let at = |(_, entry): &(_, Arc<Entry>)| Expect::At(entry.modified);
            let before = kept.iter().find(|(name, _)| name == old.version());
            let left = trimmed(decode(self.kind(), &live)?, Some(&self.clock.now().to_string()));
            options.guards.push(Op::put(key, left.encode(), before.map_or(Expect::Absent, at)));
        }
        let forgotten = kept.iter().filter(|(name, _)| forget.contains(name));
        let delete = |(_, entry): &(_, Arc<Entry>)| Op::delete(entry.key.clone(), entry.modified);
        options.guards.extend(forgotten.map(delete));
        Ok(())
    }

    /// An object as it was under the name of a version.
    async fn at(&self, name: &ObjectName, version: &str) -> Result<Object, Error> {
        let live = self.live(name).await?.ok_or_else(|| refusal::not_found(self.kind(), name))?;
        let live = decode(self.kind(), &live)?;
        if live.version() == version {
            return Ok(trimmed(live, None));
        }
        let key = self.keys.version(&name.project, &name.name, version);
        let entry = self.store.get(&key).await.map_err(from_store)?;
        let entry = entry.ok_or_else(|| Error::NotFound {
            kind: format!("version of {} \"{}\"", self.kind().qualified_plural(), name.name),
            project: name.project.clone(),
            name: version.to_owned(),
        })?;
        Ok(trimmed(decode(self.kind(), &entry)?, None))
    }
}

/// What is kept of an object, and can be declared again: nothing that only the server or others write. Without a time
/// the word about when it was left is taken away.
fn trimmed(mut object: Object, left_at: Option<&str>) -> Object {
    object.clear_status();
    object.set_resource_version("");
    object.update_meta(|meta| {
        meta.finalizers.clear();
        meta.owner_references.clear();
        meta.managed_fields.clear();
        let others = |key: &str| key != LINEAGE && key != LEFT_AT && !key.ends_with(LAST_APPLIED);
        meta.annotations.retain(|key, _| others(key));
        meta.annotations.extend(left_at.map(|time| (LEFT_AT.to_owned(), time.to_owned())));
    });
    object
}

#[async_trait]
impl Accessor for Versions {
    fn kind(&self) -> &Arc<Kind> {
        self.inner.kind()
    }

    async fn get(&self, options: GetOptions) -> Result<Object, Error> {
        match &options.version {
            Some(version) => self.at(&options.name, version).await,
            None => self.inner.get(options).await,
        }
    }

    async fn list(&self, options: ListOptions) -> Result<Page, Error> {
        self.inner.list(options).await
    }

    async fn apply(&self, object: Object, mut options: ApplyOptions) -> Result<Applied, Error> {
        self.follow(&ObjectName::of(&object), object.version(), &mut options).await?;
        self.inner.apply(object, options).await
    }

    async fn delete(&self, mut options: DeleteOptions) -> Result<Deleted, Error> {
        if !options.dry_run {
            let snapshot = self.store.snapshot().await.map_err(from_store)?;
            let kept = self.kept(&snapshot, &options.name).into_iter();
            options.guards.extend(kept.map(|(_, it)| Op::delete(it.key.clone(), it.modified)));
        }
        self.inner.delete(options).await
    }

    async fn status(&self, options: StatusOptions) -> Result<Object, Error> {
        self.inner.status(options).await
    }

    async fn watch(&self, options: WatchOptions) -> Result<WatchStream, Error> {
        self.inner.watch(options).await
    }

    async fn get_encoded(&self, options: GetOptions) -> Result<Encoded, Error> {
        match &options.version {
            Some(version) => self.at(&options.name, version).await.map(Encoded::from),
            None => self.inner.get_encoded(options).await,
        }
    }

    async fn apply_encoded(
        &self,
        given: Encoded,
        mut options: ApplyOptions,
    ) -> Result<Applied<Encoded>, Error> {
        let (project, name) = (given.project(), given.name());
        let name = ObjectName::new(project.map_err(unreadable)?, name.map_err(unreadable)?);
        self.follow(&name, given.version(), &mut options).await?;
        self.inner.apply_encoded(given, options).await
    }

    async fn list_encoded(&self, options: ListOptions) -> Result<Page<Encoded>, Error> {
        self.inner.list_encoded(options).await
    }

    async fn watch_encoded(&self, options: WatchOptions) -> Result<WatchStream<Encoded>, Error> {
        self.inner.watch_encoded(options).await
    }

    async fn versions(&self, name: ObjectName) -> Result<Vec<Version>, Error> {
        let snapshot = self.store.snapshot().await.map_err(from_store)?;
        let live = snapshot.get(&self.keys.object(&name.project, &name.name));
        let live = live.ok_or_else(|| refusal::not_found(self.kind(), &name))?;
        let live = decode(self.kind(), live)?;
        let current =
            Version { name: live.version().to_owned(), generation: live.generation(), until: None };
        let mut versions: Vec<Version> = Vec::new();
        versions.extend(Some(current).filter(|current| !current.name.is_empty()));
        for (name, entry) in self.kept(&snapshot, &name).into_iter().rev() {
            let kept = decode(self.kind(), &entry)?;
            let until = kept.annotation(LEFT_AT).unwrap_or_default().to_owned();
            versions.push(Version { name, generation: kept.generation(), until: Some(until) });
        }
        Ok(versions)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// After any number of changes, what is kept are the names that were left last, as many as there is room
        /// for, and never the one that the object is at.
        ///
        /// proves: HUB-12
        #[test]
        fn the_latest_are_kept(names in prop::collection::vec("[a-z]|", 1..80)) {
            let (mut at, mut kept, mut left) = (String::new(), Vec::<String>::new(), Vec::new());
            for to in names {
                let Moves { keep, forget } = moves(&at, &to, &kept);
                kept.retain(|name| !forget.contains(name) && *name != at);
                if keep {
                    kept.push(at.clone());
                }
                if at != to {
                    left.push(at.clone());
                }
                at = to;
                let mut expect: Vec<String> = Vec::new();
                for name in left.iter().rev().filter(|name| !name.is_empty() && **name != at) {
                    if !expect.contains(name) {
                        expect.push(name.clone());
                    }
                }
                prop_assert!(kept.len() <= KEPT_MAX && !kept.contains(&at));
                // What is dropped to make room does not come back.
                let shown: Vec<String> = kept.iter().rev().cloned().collect();
                prop_assert_eq!(&shown[..], &expect[..shown.len()]);
                prop_assert!(shown.len() == expect.len() || KEPT_MAX - 1 <= shown.len());
            }
        }
    }
}
