//! The innermost accessor: objects of one kind in the store.
//!
//! It works on the stored view, in which `metadata.project` is the project's id. Bytes in the store
//! hold no `resourceVersion`; it is the revision of the entry.
use crate::accessor::{Accessor, WatchStream};
use crate::cursor::Cursor;
use crate::error::Error;
use crate::keys::Keys;
use crate::options::{
    Applied, ApplyOptions, DeleteOptions, Deleted, GetOptions, ListOptions, ObjectName, Outcome,
    Page, Precondition, StatusOptions, WatchOptions,
};
use crate::watch;
use async_trait::async_trait;
use orrery_api::{Kind, Object};
use orrery_store::{Entry, Expect, Op, Revision, Snapshot, Store};
use std::sync::Arc;

#[derive(Clone)]
pub struct StoreAccessor {
    kind: Arc<Kind>,
    keys: Keys,
    store: Store,
}

impl StoreAccessor {
    pub fn new(kind: Arc<Kind>, keys: Keys, store: Store) -> Self {
        Self { kind, keys, store }
    }

    fn key(&self, name: &ObjectName) -> String {
        self.keys.object(&name.project, &name.name)
    }

    fn not_found(&self, name: &ObjectName) -> Error {
        Error::NotFound {
            kind: self.kind.qualified_plural(),
            project: name.project.clone(),
            name: name.name.clone(),
        }
    }

    async fn entry(&self, name: &ObjectName) -> Result<Arc<Entry>, Error> {
        let entry = self.store.get(&self.key(name)).await.map_err(from_store)?;
        entry.ok_or_else(|| self.not_found(name))
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
                self.conflict(name, expected, actual)
            }
            other => from_store(other),
        })
    }

    fn conflict(&self, name: &ObjectName, expected: Expect, actual: Option<Revision>) -> Error {
        let kind = self.kind.qualified_plural();
        let ObjectName { project, name } = name.clone();
        match (expected, actual) {
            (Expect::Absent, _) => Error::AlreadyExists { kind, project, name },
            (Expect::Present, None) => Error::NotFound { kind, project, name },
            (Expect::At(at), None) | (Expect::CreatedAt(at), None) => {
                Error::Conflict { kind, name, message: format!("it was at {at} and is gone") }
            }
            (expected, Some(actual)) => Error::Conflict {
                kind,
                name,
                message: format!(
                    "it is at revision {actual}, expected {expected:?}; read it again"
                ),
            },
        }
    }

    async fn snapshot(&self, at: Option<Revision>) -> Result<Snapshot, Error> {
        match at {
            Some(revision) => self.store.snapshot_at(revision).await.map_err(from_store),
            None => self.store.snapshot().await.map_err(from_store),
        }
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
        let cursor = options.continue_from.as_deref().map(Cursor::decode).transpose()?;
        let at = cursor.as_ref().map(|cursor| cursor.revision).or(options.at);
        let snapshot = self.snapshot(at).await?;
        // A list of one name in one project is a look-up, not a scan.
        let prefix = match (&options.project, options.fields.exact("metadata.name")) {
            (Some(id), Some(name)) => self.keys.object(id, name),
            (Some(id), None) => self.keys.project(id),
            (None, _) => self.keys.all().to_owned(),
        };
        let (after, known) = match cursor {
            None => (None, None),
            Some(cursor) if cursor.after.starts_with(&prefix) => {
                (Some(cursor.after), cursor.remaining)
            }
            Some(_) => return Err(foreign_token()),
        };
        let mut page = Page {
            items: Vec::new(),
            revision: snapshot.revision(),
            continue_from: None,
            remaining: None,
        };
        let mut last_key = None;
        // No key is empty, so everything comes after the empty one.
        for entry in snapshot.range_after(&prefix, after.as_deref().unwrap_or_default()) {
            let object = decode(&self.kind, entry)?;
            if !options.labels.matches(&object) || !options.fields.matches(&object) {
                continue;
            }
            if 0 < options.limit && page.items.len() == options.limit {
                // Only the first page counts: the others know what the one before has left.
                let selects = !options.labels.is_empty() || !options.fields.is_empty();
                let given = options.limit as u64;
                let all = || known.unwrap_or_else(|| snapshot.range(&prefix).count() as u64);
                page.remaining = (!selects).then(|| all().saturating_sub(given));
                let (revision, remaining) = (page.revision, page.remaining);
                let cursor = last_key.map(|after| Cursor { revision, after, remaining });
                page.continue_from = cursor.map(|cursor| cursor.encode());
                break;
            }
            page.items.push(object);
            last_key = Some(entry.key.to_string());
        }
        Ok(page)
    }

    async fn apply(&self, mut object: Object, options: ApplyOptions) -> Result<Applied, Error> {
        let name = ObjectName::of(&object);
        let expect = self.expectation(&name, options.precondition).await?;
        let created = expect == Expect::Absent;
        let outcome = if created { Outcome::Created } else { Outcome::Changed };
        let before = object.update_meta(|meta| std::mem::take(&mut meta.resource_version));
        let put = Op::put(self.key(&name), object.encode(), expect);
        let revision = if let Some(batch) = options.batch {
            let put = if options.dry_run { checked(put) } else { put };
            batch.add(std::iter::once(put).chain(options.guards));
            before
        } else if options.dry_run {
            self.commit(checked(put), &name, checks(options.guards)).await?;
            before
        } else {
            self.commit(put, &name, options.guards).await?.to_string()
        };
        object.update_meta(|meta| meta.resource_version = revision);
        Ok(Applied { object, outcome })
    }

    async fn delete(&self, options: DeleteOptions) -> Result<Deleted, Error> {
        let entry = self.entry(&options.name).await?;
        let at = options.revision.unwrap_or(entry.modified);
        let mut object = decode(&self.kind, &entry)?;
        let delete = Op::delete(self.key(&options.name), at);
        if let Some(batch) = options.batch {
            let delete = if options.dry_run { checked(delete) } else { delete };
            batch.add(std::iter::once(delete).chain(options.guards));
            return Ok(Deleted { object, gone: true });
        }
        if options.dry_run {
            self.commit(checked(delete), &options.name, checks(options.guards)).await?;
            return Ok(Deleted { object, gone: true });
        }
        let revision = self.commit(delete, &options.name, options.guards).await?;
        object.update_meta(|meta| meta.resource_version = revision.to_string());
        Ok(Deleted { object, gone: true })
    }

    async fn status(&self, options: StatusOptions) -> Result<Object, Error> {
        if !self.kind.has_status() {
            let kind = self.kind.kind();
            return Err(Error::BadRequest(format!("{kind} has no status")));
        }
        self.get(GetOptions { name: options.name }).await
    }

    async fn watch(&self, options: WatchOptions) -> Result<WatchStream, Error> {
        watch::open(&self.store, &self.kind, &self.keys, options).await
    }
}

/// A dry run asks the store whether the write would be accepted, and writes nothing.
fn checked(op: Op) -> Op {
    Op::check(op.key().clone(), op.expect())
}

fn checks(guards: Vec<Op>) -> Vec<Op> {
    guards.into_iter().map(checked).collect()
}

fn foreign_token() -> Error {
    Error::BadRequest("the continue token belongs to another list; start this one again".into())
}

/// An entry as the object that it holds.
pub(crate) fn decode(kind: &Arc<Kind>, entry: &Entry) -> Result<Object, Error> {
    decode_at(kind, entry, entry.modified)
}

pub(crate) fn decode_at(
    kind: &Arc<Kind>,
    entry: &Entry,
    revision: Revision,
) -> Result<Object, Error> {
    let mut object = Object::decode(kind, &entry.value)
        .map_err(|error| Error::Internal(format!("cannot read {}: {error}", entry.key)))?;
    object.update_meta(|meta| meta.resource_version = revision.to_string());
    Ok(object)
}

pub(crate) fn from_store(error: orrery_store::Error) -> Error {
    use orrery_store::Error as Store;
    match error {
        Store::Compacted { requested, oldest } => Error::Expired { requested, oldest },
        Store::TooLarge { .. } | Store::TooManyOperations { .. } => {
            Error::TooLarge(error.to_string())
        }
        Store::Conflict { ref key, .. } => Error::Conflict {
            kind: "object".into(),
            name: key.to_string(),
            message: "something it depends on changed; try again".into(),
        },
        Store::Invalid { .. } | Store::FutureRevision { .. } => {
            Error::BadRequest(error.to_string())
        }
        Store::Unavailable { .. } | Store::Unreachable { .. } | Store::Uncertain { .. } => {
            Error::Unavailable(error.to_string())
        }
        Store::Corrupt { .. } => Error::Internal(error.to_string()),
    }
}
