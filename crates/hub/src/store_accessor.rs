//! The innermost accessor: objects of one kind in the store.
//!
//! It works on the stored view, in which `metadata.project` is the project's id. Bytes in the store
//! hold no `resourceVersion`; it is the revision of the entry.
use crate::accessor::{Accessor, WatchStream};
use crate::error::Error;
use crate::keys::Keys;
use crate::options::{
    Applied, ApplyOptions, DeleteOptions, Deleted, GetOptions, ListOptions, ObjectName, Outcome,
    Page, Precondition, StatusOptions, WatchOptions,
};
use crate::paging::{self, Shelf};
use crate::projects::Projects;
use crate::recent::Recent;
use crate::refusal::{self, from_store};
use crate::watch;
use async_trait::async_trait;
use futures::StreamExt;
use orrery_api::{Encoded, FieldSelector, Kind, LabelSelector, Object, ObjectError};
use orrery_store::{Entry, Expect, Op, Revision, Store};
use std::sync::Arc;

#[derive(Clone)]
pub struct StoreAccessor {
    kind: Arc<Kind>,
    keys: Keys,
    store: Store,
    projects: Arc<Projects>,
    recent: Arc<Recent>,
}

impl StoreAccessor {
    pub fn new(kind: Arc<Kind>, keys: Keys, store: Store, projects: Arc<Projects>) -> Self {
        Self { kind, keys, store, projects, recent: Arc::default() }
    }

    /// What is kept for watchers.
    pub fn recent(&self) -> &Arc<Recent> {
        &self.recent
    }

    fn key(&self, name: &ObjectName) -> String {
        self.keys.object(&name.project, &name.name)
    }

    async fn entry(&self, name: &ObjectName) -> Result<Arc<Entry>, Error> {
        let entry = self.store.get(&self.key(name)).await.map_err(from_store)?;
        entry.ok_or_else(|| refusal::not_found(&self.kind, name))
    }

    async fn expectation(&self, name: &ObjectName, wanted: Precondition) -> Result<Expect, Error> {
        Ok(match wanted {
            Precondition::Absent => Expect::Absent,
            Precondition::Present => Expect::Present,
            Precondition::At(revision) => Expect::At(revision),
            Precondition::Any => match self.store.get(&self.key(name)).await.map_err(from_store)? {
                Some(entry) => Expect::At(entry.modified),
                None => Expect::Absent,
            },
        })
    }

    async fn commit(&self, op: Op, name: &ObjectName, guards: Vec<Op>) -> Result<Revision, Error> {
        let own = op.key().clone();
        let mut ops = vec![op];
        ops.extend(guards);
        self.store.commit(ops).await.map_err(|error| match error {
            orrery_store::Error::Conflict { key, expected, actual } if key == own => {
                refusal::conflict(&self.kind, name, expected, actual)
            }
            other => from_store(other),
        })
    }
}

#[async_trait]
impl Accessor for StoreAccessor {
    fn kind(&self) -> &Arc<Kind> {
        &self.kind
    }

    async fn get(&self, options: GetOptions) -> Result<Object, Error> {
        let entry = self.entry(&options.name).await?;
        decode(&self.kind, &entry)
    }

    async fn list(&self, options: ListOptions) -> Result<Page, Error> {
        self.list_encoded(options).await?.try_map(Encoded::into_object).map_err(unreadable)
    }

    async fn apply(&self, mut object: Object, options: ApplyOptions) -> Result<Applied, Error> {
        let name = ObjectName::of(&object);
        let expect = self.expectation(&name, options.precondition).await?;
        let created = expect == Expect::Absent;
        let outcome = if created { Outcome::Created } else { Outcome::Changed };
        let before = object.resource_version().to_owned();
        object.set_resource_version("");
        let put = Op::put(self.key(&name), object.encode(), expect);
        let revision = if let Some(batch) = options.batch {
            let put = if options.dry_run { refusal::checked(put) } else { put };
            batch.add(std::iter::once(put).chain(options.guards));
            before
        } else if options.dry_run {
            let checks = refusal::checks(options.guards);
            self.commit(refusal::checked(put), &name, checks).await?;
            before
        } else {
            self.commit(put, &name, options.guards).await?.to_string()
        };
        object.set_resource_version(&revision);
        Ok(Applied { object, outcome })
    }

    async fn delete(&self, options: DeleteOptions) -> Result<Deleted, Error> {
        let entry = self.entry(&options.name).await?;
        let at = options.revision.unwrap_or(entry.modified);
        let mut object = decode(&self.kind, &entry)?;
        let delete = Op::delete(self.key(&options.name), at);
        if let Some(batch) = options.batch {
            let delete = if options.dry_run { refusal::checked(delete) } else { delete };
            batch.add(std::iter::once(delete).chain(options.guards));
            return Ok(Deleted { object, gone: true });
        }
        if options.dry_run {
            let checks = refusal::checks(options.guards);
            self.commit(refusal::checked(delete), &options.name, checks).await?;
            return Ok(Deleted { object, gone: true });
        }
        let revision = self.commit(delete, &options.name, options.guards).await?;
        object.set_resource_version(&revision.to_string());
        Ok(Deleted { object, gone: true })
    }

    async fn status(&self, options: StatusOptions) -> Result<Object, Error> {
        if !self.kind.has_status() {
            let kind = self.kind.kind();
            return Err(Error::BadRequest(format!("{kind} has no status")));
        }
        self.get(options.name.into()).await
    }

    async fn watch(&self, options: WatchOptions) -> Result<WatchStream, Error> {
        let events = self.watch_encoded(options).await?;
        Ok(events.map(|event| event?.try_map(Encoded::into_object).map_err(unreadable)).boxed())
    }

    async fn get_encoded(&self, options: GetOptions) -> Result<Encoded, Error> {
        let entry = self.entry(&options.name).await?;
        encode_at(&self.kind, &entry, entry.modified)
    }

    async fn apply_encoded(
        &self,
        given: Encoded,
        options: ApplyOptions,
    ) -> Result<Applied<Encoded>, Error> {
        let is_versioned = !given.resource_version().map_err(unreadable)?.is_empty();
        if is_versioned || options.dry_run || options.batch.is_some() {
            let object = given.into_object().map_err(unreadable)?;
            return self.apply(object, options).await.map(Applied::from);
        }
        let (project, name) = (given.project(), given.name());
        let name = ObjectName::new(project.map_err(unreadable)?, name.map_err(unreadable)?);
        let expect = self.expectation(&name, options.precondition).await?;
        let created = expect == Expect::Absent;
        let outcome = if created { Outcome::Created } else { Outcome::Changed };
        let put = Op::put(self.key(&name), given.bytes().clone(), expect);
        let revision = self.commit(put, &name, options.guards).await?;
        let object = Encoded::at(&self.kind, given.bytes(), &revision.to_string());
        Ok(Applied { object: object.map_err(unreadable)?, outcome })
    }

    async fn list_encoded(&self, options: ListOptions) -> Result<Page<Encoded>, Error> {
        let Self { kind, keys, projects, .. } = self;
        let shelf = Shelf { kind, keys, projects, indexed: true };
        paging::list(&shelf, &self.store, &options, |_, entry| {
            encode_at(&self.kind, entry, entry.modified)
        })
        .await
    }

    async fn watch_encoded(&self, options: WatchOptions) -> Result<WatchStream<Encoded>, Error> {
        watch::open(&self.store, &self.kind, &self.keys, &self.recent, options).await
    }
}

/// Whether an object is selected. Nothing is decoded where everything is.
pub(crate) fn fits(
    found: &Encoded,
    labels: &LabelSelector,
    fields: &FieldSelector,
) -> Result<bool, Error> {
    if labels.is_empty() && fields.is_empty() {
        return Ok(true);
    }
    let object = found.object().map_err(unreadable)?;
    Ok(labels.matches(object) && fields.matches(object))
}

pub(crate) fn unreadable(error: ObjectError) -> Error {
    Error::Internal(error.to_string())
}

/// An entry as the object that it holds.
pub(crate) fn decode(kind: &Arc<Kind>, entry: &Entry) -> Result<Object, Error> {
    let mut object = Object::decode(kind, &entry.value).map_err(|error| damaged(entry, &error))?;
    object.set_resource_version(&entry.modified.to_string());
    Ok(object)
}

/// An entry as the object that it holds, at a revision, still as bytes.
pub(crate) fn encode_at(
    kind: &Arc<Kind>,
    entry: &Entry,
    revision: Revision,
) -> Result<Encoded, Error> {
    Encoded::at(kind, &entry.value, &revision.to_string()).map_err(|error| damaged(entry, &error))
}

fn damaged(entry: &Entry, error: &ObjectError) -> Error {
    Error::Internal(format!("cannot read {}: {error}", entry.key))
}
