//! Objects that are stored as several resources.
//!
//! ```text
//!   Bundle ── from_hub ──> BundleHead                  the first part: name and metadata of the object
//!          <── to_hub ───  BundleSnapshot, BundleSnapshot ...
//! ```
//! A write puts every part anew, in one commit: whoever sees the first part change sees all of them
//! in the same commit, and nobody ever sees some of them.
mod compose;
mod watch;

use crate::accessor::{Accessor, WatchStream};
use crate::batch::Batch;
use crate::error::Error;
use crate::keys::Keys;
use crate::options::{
    Applied, ApplyOptions, DeleteOptions, Deleted, GetOptions, ListOptions, ObjectName, Outcome,
    Page, Precondition, StatusOptions, WatchOptions,
};
use crate::paging::{self, Shelf};
use crate::projects::Projects;
use crate::refusal::{self, from_store};
use crate::store_accessor::unreadable;
use async_trait::async_trait;
use compose::Composer;
use futures::StreamExt;
use orrery_api::{Encoded, Kind, Object, Spoke};
use orrery_store::{Expect, Op, Revision, Snapshot, Store};
use std::sync::Arc;

/// The innermost accessor of a kind whose stored form is several resources; on the stored view.
pub struct PartsAccessor {
    composer: Arc<Composer>,
    store: Store,
    projects: Arc<Projects>,
}

impl PartsAccessor {
    pub fn new(spoke: Arc<Spoke>, keys: Keys, store: Store, projects: Arc<Projects>) -> Self {
        Self { composer: Arc::new(Composer { spoke, keys }), store, projects }
    }

    fn key(&self, name: &ObjectName) -> String {
        self.composer.keys.object(&name.project, &name.name)
    }

    async fn found(&self, name: &ObjectName) -> Result<(Snapshot, Object, Revision), Error> {
        let snapshot = self.store.snapshot().await.map_err(from_store)?;
        let head = snapshot.get(&self.key(name)).cloned();
        let head = head.ok_or_else(|| refusal::not_found(self.kind(), name))?;
        let object = self.composer.read(&snapshot, &head)?;
        Ok((snapshot, object, head.modified))
    }

    /// The revision of what was written; none where it was only checked, or waits in a batch.
    async fn commit(
        &self,
        mut ops: Vec<Op>,
        name: &ObjectName,
        dry_run: bool,
        batch: Option<Batch>,
    ) -> Result<Option<Revision>, Error> {
        if dry_run {
            ops = refusal::checks(ops);
        }
        if let Some(batch) = batch {
            batch.add(ops);
            return Ok(None);
        }
        let (first, parts) = (self.key(name), self.composer.keys.parts(&name.project, &name.name));
        let committed = self.store.commit(ops).await;
        committed.map(|revision| (!dry_run).then_some(revision)).map_err(|error| match error {
            orrery_store::Error::Conflict { key, expected, actual }
                if *key == *first || key.starts_with(&parts) =>
            {
                refusal::conflict(self.kind(), name, expected, actual)
            }
            other => from_store(other),
        })
    }
}

#[async_trait]
impl Accessor for PartsAccessor {
    fn kind(&self) -> &Arc<Kind> {
        &self.composer.spoke.hub
    }

    async fn get(&self, options: GetOptions) -> Result<Object, Error> {
        self.found(&options.name).await.map(|(_, object, _)| object)
    }

    async fn list(&self, options: ListOptions) -> Result<Page, Error> {
        self.list_encoded(options).await?.try_map(Encoded::into_object).map_err(unreadable)
    }

    async fn apply(&self, mut object: Object, options: ApplyOptions) -> Result<Applied, Error> {
        let name = ObjectName::of(&object);
        let snapshot = self.store.snapshot().await.map_err(from_store)?;
        let expect = match (options.precondition, snapshot.get(&self.key(&name))) {
            (Precondition::Absent, _) | (Precondition::Any, None) => Expect::Absent,
            (Precondition::Present, _) => Expect::Present,
            (Precondition::At(revision), _) => Expect::At(revision),
            (Precondition::Any, Some(head)) => Expect::At(head.modified),
        };
        let outcome = if expect == Expect::Absent { Outcome::Created } else { Outcome::Changed };
        let before = object.resource_version().to_owned();
        object.set_resource_version("");
        let mut ops = self.composer.write(&snapshot, &object, expect)?;
        ops.extend(options.guards);
        let revision = match self.commit(ops, &name, options.dry_run, options.batch).await? {
            Some(revision) => revision.to_string(),
            None => before,
        };
        object.set_resource_version(&revision);
        Ok(Applied { object, outcome })
    }

    async fn delete(&self, options: DeleteOptions) -> Result<Deleted, Error> {
        let (snapshot, mut object, found) = self.found(&options.name).await?;
        let at = options.revision.unwrap_or(found);
        let mut ops = vec![Op::delete(self.key(&options.name), at)];
        let parts = self.composer.keys.parts(&options.name.project, &options.name.name);
        ops.extend(snapshot.range(&parts).map(|part| Op::delete(part.key.clone(), part.modified)));
        ops.extend(options.guards);
        let committed = self.commit(ops, &options.name, options.dry_run, options.batch).await?;
        if let Some(revision) = committed {
            object.set_resource_version(&revision.to_string());
        }
        Ok(Deleted { object, gone: true })
    }

    async fn status(&self, options: StatusOptions) -> Result<Object, Error> {
        if !self.kind().has_status() {
            return Err(Error::BadRequest(format!("{} has no status", self.kind().kind())));
        }
        self.get(options.name.into()).await
    }

    async fn watch(&self, options: WatchOptions) -> Result<WatchStream, Error> {
        let events = self.watch_encoded(options).await?;
        Ok(events.map(|event| event?.try_map(Encoded::into_object).map_err(unreadable)).boxed())
    }

    async fn list_encoded(&self, options: ListOptions) -> Result<Page<Encoded>, Error> {
        let (kind, keys) = (self.kind(), &self.composer.keys);
        // What is stored first is only a part of what can be selected by.
        let shelf = Shelf { kind, keys, projects: &self.projects, indexed: false };
        paging::list(&shelf, &self.store, &options, |snapshot, head| {
            self.composer.read(snapshot, head).map(Encoded::from)
        })
        .await
    }

    async fn watch_encoded(&self, options: WatchOptions) -> Result<WatchStream<Encoded>, Error> {
        watch::open(&self.store, &self.composer, options).await
    }
}
