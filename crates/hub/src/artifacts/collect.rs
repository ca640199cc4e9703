//! Files of objects that are gone, and content that nothing refers to.
use super::record::{self, FileRecord, OwnerRecord};
use super::{Artifacts, keys};
use crate::error::Error;
use crate::options::ObjectName;
use crate::refusal::from_store;
use orrery_store::{Entry, Expect, Op};
use std::collections::HashSet;

/// Files that are deleted in one commit, with room for their owner.
const BATCH: usize = 90;

/// What a collection took away.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Collected {
    pub files: usize,
    pub chunks: usize,
}

impl Artifacts {
    /// Takes away what is not needed any more. Safe at any time and by several at once.
    pub async fn collect(&self) -> Result<Collected, Error> {
        let files = self.collect_files().await?;
        let chunks = self.collect_chunks().await?;
        Ok(Collected { files, chunks })
    }

    async fn collect_files(&self) -> Result<usize, Error> {
        let mut collected = 0;
        for entry in self.entries(keys::OWNERS).await? {
            let uid = entry.key.strip_prefix(keys::OWNERS).unwrap_or_default().to_owned();
            if !self.is_there(&uid, &record::read(&entry)?).await? {
                collected += self.collect_owner(&uid, &entry).await?;
            }
        }
        Ok(collected)
    }

    async fn is_there(&self, uid: &str, owner: &OwnerRecord) -> Result<bool, Error> {
        // What a newer server stored is not this one's to judge.
        let Some(kind) = self.hub.scheme().by_full_name(&owner.kind) else { return Ok(true) };
        let name = ObjectName::new(owner.project.as_str(), owner.name.as_str());
        match self.hub.accessor(kind)?.get(name.into()).await {
            Ok(object) => Ok(object.uid() == uid),
            Err(Error::NotFound { .. } | Error::ProjectNotFound { .. }) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Someone who read the object before it went may still write a file: then the owner's entry
    /// has changed, and the next collection finds the rest.
    async fn collect_owner(&self, uid: &str, owner: &Entry) -> Result<usize, Error> {
        let files = self.entries(&keys::files(uid)).await?;
        for batch in files.chunks(BATCH) {
            let deletes = batch.iter().map(|file| Op::delete(file.key.clone(), file.modified));
            self.try_commit(deletes.collect()).await?;
        }
        self.try_commit(vec![Op::delete(owner.key.clone(), owner.modified)]).await?;
        Ok(files.len())
    }

    /// Pins are read before files: whoever refers to a chunk after that touches its pin, and the
    /// chunk stays.
    async fn collect_chunks(&self) -> Result<usize, Error> {
        let pins = self.entries(keys::PINS).await?;
        let mut needed = HashSet::new();
        for entry in self.entries(keys::FILES).await? {
            needed.extend(record::read::<FileRecord>(&entry)?.chunks);
        }
        let mut collected = 0;
        for pin in pins {
            let digest = pin.key.strip_prefix(keys::PINS).unwrap_or_default();
            if needed.contains(digest) {
                continue;
            }
            let chunk = Op::Delete { key: keys::chunk(digest).into(), expect: Expect::Present };
            let pin = Op::delete(pin.key.clone(), pin.modified);
            collected += usize::from(self.try_commit(vec![pin, chunk]).await?);
        }
        Ok(collected)
    }

    /// False when something changed meanwhile: then it is needed, or gone already.
    async fn try_commit(&self, ops: Vec<Op>) -> Result<bool, Error> {
        match self.hub.store().commit(ops).await.map_err(from_store) {
            Ok(_) => Ok(true),
            Err(Error::Conflict { .. }) => Ok(false),
            Err(error) => Err(error),
        }
    }
}
