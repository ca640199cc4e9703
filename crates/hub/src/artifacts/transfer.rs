//! Content, in and out.
use super::record::{self, FileRecord, OwnerRecord};
use super::{Artifact, ArtifactPath, Artifacts, CHUNK_BYTES, FILES_MAX, encode, keys};
use crate::error::Error;
use crate::refusal::from_store;
use bytes::{Bytes, BytesMut};
use orrery_api::Object;
use orrery_store::{Expect, ListRequest, Op};
use std::collections::BTreeMap;

/// How often a write is tried again because the collector or another writer was faster.
const ATTEMPTS_MAX: usize = 16;

impl Artifacts {
    pub(super) async fn upload(
        &self,
        object: &Object,
        path: &ArtifactPath,
        content: Bytes,
    ) -> Result<Artifact, Error> {
        let mut chunks: BTreeMap<String, Bytes> = BTreeMap::new();
        let mut order = Vec::new();
        for start in (0..content.len()).step_by(CHUNK_BYTES) {
            let chunk = content.slice(start..content.len().min(start + CHUNK_BYTES));
            let digest = record::digest(&chunk);
            order.push(digest.clone());
            chunks.insert(digest, chunk);
        }
        let record = FileRecord {
            path: path.to_string(),
            size_bytes: content.len() as u64,
            digest: record::digest(&content),
            chunks: order,
        };
        let mut attempt = 0;
        loop {
            attempt += 1;
            self.store_chunks(&chunks).await?;
            match self.store_record(object, path, &record, &chunks).await {
                Err(Error::Conflict { .. }) if attempt < ATTEMPTS_MAX => {
                    tracing::debug!(%path, attempt, "a chunk or the file changed, writing again");
                }
                Err(error) => return Err(error),
                Ok(()) => return record::artifact(&record),
            }
        }
    }

    /// Content that is there already is not written again.
    async fn store_chunks(&self, chunks: &BTreeMap<String, Bytes>) -> Result<(), Error> {
        for (digest, chunk) in chunks {
            let (pin, key) = (keys::pin(digest), keys::chunk(digest));
            if self.engine().get(&pin).await.map_err(from_store)?.is_some() {
                continue;
            }
            let ops = vec![Op::create(key, chunk.clone()), Op::create(pin, Bytes::new())];
            match self.hub.store().commit(ops).await.map_err(from_store) {
                Ok(_) | Err(Error::Conflict { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// The file, together with a touch of everything that must be there for it.
    async fn store_record(
        &self,
        object: &Object,
        path: &ArtifactPath,
        record: &FileRecord,
        chunks: &BTreeMap<String, Bytes>,
    ) -> Result<(), Error> {
        let owner = OwnerRecord {
            kind: object.kind().full_name().to_owned(),
            project: object.project().to_owned(),
            name: object.name().to_owned(),
        };
        let file = keys::file(object.uid(), path);
        let file_expect = self.expect(&file).await?;
        if file_expect == Expect::Absent {
            self.check_room(object).await?;
        }
        let owner_key = keys::owner(object.uid());
        let owner_expect = self.expect(&owner_key).await?;
        let mut ops = vec![
            Op::put(file, encode(record), file_expect),
            Op::put(owner_key, encode(&owner), owner_expect),
        ];
        let pins = chunks.keys().map(|digest| keys::pin(digest));
        ops.extend(pins.map(|pin| Op::put(pin, Bytes::new(), Expect::Present)));
        self.hub.store().commit(ops).await.map(|_| ()).map_err(from_store)
    }

    async fn expect(&self, key: &str) -> Result<Expect, Error> {
        let entry = self.engine().get(key).await.map_err(from_store)?;
        Ok(entry.map_or(Expect::Absent, |entry| Expect::At(entry.modified)))
    }

    async fn check_room(&self, object: &Object) -> Result<(), Error> {
        let prefix = keys::files(object.uid());
        let request = ListRequest { limit: FILES_MAX, ..ListRequest::prefix(prefix) };
        let files = self.engine().list(request).await.map_err(from_store)?;
        if files.entries.len() < FILES_MAX {
            return Ok(());
        }
        let text =
            format!("\"{}\" has {FILES_MAX} files already, which is the most", object.name());
        Err(Error::TooLarge(text))
    }

    /// The content of a file, checked against its digest.
    pub(super) async fn download(&self, record: &FileRecord) -> Result<Bytes, Error> {
        let mut content = BytesMut::new();
        for digest in &record.chunks {
            let chunk = self.engine().get(&keys::chunk(digest)).await.map_err(from_store)?;
            let Some(chunk) = chunk else {
                // The file was replaced while it was read, and its old content collected.
                let message = "its content changed while it was read; read it again".to_owned();
                let (kind, name) = ("artifacts".to_owned(), record.path.clone());
                return Err(Error::Conflict { kind, name, message });
            };
            content.extend_from_slice(&chunk.value);
        }
        let content = content.freeze();
        if record::digest(&content) != record.digest {
            return Err(Error::Internal(format!(
                "the stored content of {} is damaged",
                record.path
            )));
        }
        Ok(content)
    }
}
