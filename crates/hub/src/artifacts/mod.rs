//! Artifacts: files that belong to an object, named by relative path.
//!
//! ```text
//!   artifacts/owners/<uid>         which object it is: kind, project, name
//!   artifacts/files/<uid>/<path>   size, digest, the digests of its chunks
//!   artifacts/chunks/<digest>      at most 512 KiB of bytes, shared by all that have the same
//!   artifacts/pins/<digest>        touched by whoever refers to the chunk
//! ```
//! They stand outside of the keys of objects and are read from the engine, so no watch and no cache
//! carries them. A file is written chunks first, then in one commit with a touch of every pin; the
//! collector deletes a chunk only at the pin's revision that it saw before it looked for references.
//! Therefore a file never refers to a chunk that is gone, and neither side waits for the other.
mod changes;
mod collect;
mod keys;
mod path;
mod record;
mod transfer;

use crate::accessor::Accessor;
use crate::error::Error;
use crate::hub::Hub;
use crate::options::ObjectName;
use crate::refusal::from_store;
use bytes::Bytes;
use orrery_api::{Kind, Object};
use orrery_store::{Engine, Entry, ListRequest};
use record::FileRecord;
use std::sync::Arc;

pub use changes::Changes;
pub use collect::Collected;
pub use path::{ArtifactPath, PATH_BYTES_MAX, PathError};

/// Bytes of one chunk. Two fit in the largest value of the store; a commit with one stays well
/// below what etcd takes.
pub const CHUNK_BYTES: usize = 512 << 10;

/// Chunks of one file: all their pins are touched in the commit that writes the file, and a commit
/// takes a hundred operations.
pub const CHUNKS_MAX: usize = 96;

/// Bytes of one file: 48 MiB. Larger things belong in a registry, which objects refer to.
pub const FILE_BYTES_MAX: usize = CHUNKS_MAX * CHUNK_BYTES;

/// Files of one object: each new one counts those that are there.
pub const FILES_MAX: usize = 250;

/// One file of an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Artifact {
    pub path: ArtifactPath,
    pub size_bytes: u64,
    /// SHA-256 of the content, in hexadecimal.
    pub digest: String,
}

/// The artifacts of a hub. Cheap to clone.
#[derive(Clone)]
pub struct Artifacts {
    hub: Hub,
}

impl Artifacts {
    pub fn new(hub: Hub) -> Self {
        Self { hub }
    }

    /// The files of an object, in the order of their paths.
    pub async fn list(&self, kind: &Kind, name: &ObjectName) -> Result<Vec<Artifact>, Error> {
        let object = self.object(kind, name).await?;
        let entries = self.entries(&keys::files(object.uid())).await?;
        entries.iter().map(|entry| record::artifact(&record::read(entry)?)).collect()
    }

    /// One file with its content.
    pub async fn get(
        &self,
        kind: &Kind,
        name: &ObjectName,
        path: &ArtifactPath,
    ) -> Result<(Artifact, Bytes), Error> {
        let object = self.object(kind, name).await?;
        let key = keys::file(object.uid(), path);
        let entry = self.engine().get(&key).await.map_err(from_store)?;
        let entry = entry.ok_or_else(|| self.missing(&object, path))?;
        let record: FileRecord = record::read(&entry)?;
        let content = self.download(&record).await?;
        Ok((record::artifact(&record)?, content))
    }

    /// Writes a file; one of that path that is there already is replaced.
    pub async fn set(
        &self,
        kind: &Kind,
        name: &ObjectName,
        path: &ArtifactPath,
        content: Bytes,
    ) -> Result<Artifact, Error> {
        if FILE_BYTES_MAX < content.len() {
            let size = content.len();
            let text = format!("{path} has {size} bytes, a file may have {FILE_BYTES_MAX}");
            return Err(Error::TooLarge(text));
        }
        let object = self.object(kind, name).await?;
        self.upload(&object, path, content).await
    }

    /// Takes a file away.
    pub async fn remove(
        &self,
        kind: &Kind,
        name: &ObjectName,
        path: &ArtifactPath,
    ) -> Result<(), Error> {
        let object = self.object(kind, name).await?;
        let key = keys::file(object.uid(), path);
        let entry = self.engine().get(&key).await.map_err(from_store)?;
        let entry = entry.ok_or_else(|| self.missing(&object, path))?;
        let delete = orrery_store::Op::delete(key, entry.modified);
        self.hub.store().commit(vec![delete]).await.map(|_| ()).map_err(from_store)
    }

    fn engine(&self) -> &Arc<dyn Engine> {
        self.hub.store().engine()
    }

    async fn object(&self, kind: &Kind, name: &ObjectName) -> Result<Object, Error> {
        let accessor: &Arc<dyn Accessor> = self.hub.accessor(kind)?;
        accessor.get(name.clone().into()).await
    }

    fn missing(&self, object: &Object, path: &ArtifactPath) -> Error {
        Error::NotFound {
            kind: format!("artifact of {} \"{}\"", object.kind().qualified_plural(), object.name()),
            project: object.project().to_owned(),
            name: path.to_string(),
        }
    }

    /// All entries under a prefix, read in parts that are true at one revision.
    async fn entries(&self, prefix: &str) -> Result<Vec<Entry>, Error> {
        let mut request = ListRequest { limit: PAGE, ..ListRequest::prefix(prefix) };
        let mut found: Vec<Entry> = Vec::new();
        loop {
            let page = self.engine().list(request.clone()).await.map_err(from_store)?;
            request.at = Some(page.revision);
            request.after = page.entries.last().map(|entry| entry.key.clone());
            found.extend(page.entries);
            if !page.more {
                return Ok(found);
            }
        }
    }
}

/// Entries that are read at once; the largest of them has 96 digests.
const PAGE: usize = 1000;

fn encode(message: &impl prost::Message) -> Bytes {
    message.encode_to_vec().into()
}
