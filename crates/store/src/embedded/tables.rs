//! The open tables of one directory, and the few rows that say where it stands.

use std::{
    fs::File,
    path::{Path, PathBuf},
    sync::atomic::{AtomicU64, Ordering},
};

use fjall::{Database, Keyspace, KeyspaceCreateOptions, Readable, Slice};
use parking_lot::{Mutex, MutexGuard};
use tokio_util::sync::{CancellationToken, DropGuard};

use super::{EmbeddedOptions, format, sum::Sum};
use crate::{
    error::Error,
    model::{Head, Incarnation, Revision},
};

const HEAD: &str = "head";
const COMPACTED: &str = "compacted";
const INCARNATION: &str = "incarnation";
const SUM: &str = "sum";

/// Fields are dropped in order: the database lets go of its files before the directory's lock is
/// released, and only then is the release announced.
pub(super) struct Tables {
    pub heads: Keyspace,
    pub values: Keyspace,
    pub log: Keyspace,
    pub meta: Keyspace,
    pub db: Database,
    path: PathBuf,
    /// A copy of the row `compacted`, so that opening a watch does not read the disk.
    compacted: AtomicU64,
    writing: Mutex<()>,
    _lock: File,
    announce: (CancellationToken, DropGuard),
}

impl std::fmt::Debug for Tables {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tables").field("compacted", &self.compacted()).finish_non_exhaustive()
    }
}

/// Where a directory stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Standing {
    pub head: Revision,
    pub compacted: Revision,
    pub incarnation: Incarnation,
    pub sum: Sum,
}

impl Tables {
    pub fn open(
        path: &Path,
        db: Database,
        options: &EmbeddedOptions,
        lock: File,
    ) -> Result<Self, Error> {
        let table = |name: &str| {
            let create =
                || KeyspaceCreateOptions::default().max_memtable_size(options.memtable_bytes);
            db.keyspace(name, create).map_err(|error| failed("open the tables", &error))
        };
        let announce = CancellationToken::new();
        Ok(Self {
            heads: table("heads")?,
            values: table("values")?,
            log: table("log")?,
            meta: table("meta")?,
            path: path.to_owned(),
            compacted: AtomicU64::new(0),
            writing: Mutex::default(),
            _lock: lock,
            announce: (announce.clone(), announce.drop_guard()),
            db,
        })
    }

    /// The directory of the store.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Held by those who write to the journal beside the committer; and by the committer while nobody may.
    pub fn writing(&self) -> MutexGuard<'_, ()> {
        self.writing.lock()
    }

    /// Cancelled once the directory can be opened again.
    pub fn released(&self) -> CancellationToken {
        self.announce.0.clone()
    }

    pub fn compacted(&self) -> Revision {
        Revision(self.compacted.load(Ordering::Acquire))
    }

    pub fn set_compacted(&self, revision: Revision) {
        self.compacted.store(revision.0, Ordering::Release);
    }

    /// Reads where the directory stands; `None` if nothing was ever written to it.
    pub fn standing(&self) -> Result<Option<Standing>, Error> {
        let snapshot = self.db.snapshot();
        let incarnation = self.meta_row(&snapshot, INCARNATION)?;
        let (Some(head), Some(incarnation)) = (self.meta_row(&snapshot, HEAD)?, incarnation) else {
            return Ok(None);
        };
        let incarnation = format::decode_meta(INCARNATION, &incarnation)?;
        let sum = self.present(&snapshot, SUM)?;
        Ok(Some(Standing {
            head: Revision(u64::from_be_bytes(format::decode_meta(HEAD, &head)?)),
            compacted: self.compacted_in(&snapshot)?,
            incarnation: Incarnation(uuid::Uuid::from_bytes(incarnation)),
            sum: Sum::from_bytes(format::decode_meta(SUM, &sum)?),
        }))
    }

    /// The newest revision a snapshot holds.
    pub fn head_in(&self, snapshot: &impl Readable) -> Result<Revision, Error> {
        self.revision_row(snapshot, HEAD)
    }

    /// The oldest revision a snapshot can be read at.
    pub fn compacted_in(&self, snapshot: &impl Readable) -> Result<Revision, Error> {
        self.revision_row(snapshot, COMPACTED)
    }

    /// The current head of a key.
    pub fn head_of(&self, key: &str) -> Result<Option<Head>, Error> {
        let row = self.heads.get(key).map_err(|error| failed("read a head", &error))?;
        row.map(|row| format::decode_head(key, &row)).transpose()
    }

    pub fn batch(&self) -> fjall::OwnedWriteBatch {
        self.db.batch()
    }

    /// Where the store stands after a group of commits.
    pub fn put_position(&self, batch: &mut fjall::OwnedWriteBatch, head: Revision, sum: Sum) {
        batch.insert(&self.meta, SUM, format::encode_meta(SUM, &sum.to_bytes()));
        batch.insert(&self.meta, HEAD, format::encode_meta(HEAD, &head.0.to_be_bytes()));
    }

    pub fn put_compacted(&self, batch: &mut fjall::OwnedWriteBatch, compacted: Revision) {
        let row = format::encode_meta(COMPACTED, &compacted.0.to_be_bytes());
        batch.insert(&self.meta, COMPACTED, row);
    }

    pub fn put_standing(&self, batch: &mut fjall::OwnedWriteBatch, standing: &Standing) {
        self.put_position(batch, standing.head, standing.sum);
        self.put_compacted(batch, standing.compacted);
        self.put_incarnation(batch, standing.incarnation);
    }

    fn put_incarnation(&self, batch: &mut fjall::OwnedWriteBatch, incarnation: Incarnation) {
        let row = format::encode_meta(INCARNATION, incarnation.0.as_bytes());
        batch.insert(&self.meta, INCARNATION, row);
    }

    fn revision_row(&self, snapshot: &impl Readable, name: &str) -> Result<Revision, Error> {
        let row = self.present(snapshot, name)?;
        Ok(Revision(u64::from_be_bytes(format::decode_meta(name, &row)?)))
    }

    fn present(&self, snapshot: &impl Readable, name: &str) -> Result<Slice, Error> {
        let row = self.meta_row(snapshot, name)?;
        row.ok_or_else(|| format::corrupt("meta", name.as_bytes(), "it is missing"))
    }

    fn meta_row(&self, snapshot: &impl Readable, name: &str) -> Result<Option<Slice>, Error> {
        snapshot
            .get(&self.meta, name)
            .map_err(|error| failed("read where the store stands", &error))
    }
}

/// Names what failed. Damage that fjall finds by its own checksums is told apart from a disk that
/// does not answer.
pub(super) fn failed(step: &str, error: &fjall::Error) -> Error {
    use fjall::{Error as E, LsmError as L};
    let damaged = matches!(
        error,
        E::Storage(L::ChecksumMismatch { .. } | L::InvalidTag(_) | L::InvalidHeader(_))
            | E::InvalidTag(_)
            | E::InvalidTrailer
            | E::JournalRecovery(_)
            | E::Decompress(_)
            | E::Unrecoverable
    );
    if damaged {
        return Error::Corrupt { what: "a store file".to_owned(), detail: format!("{error:?}") };
    }
    Error::unavailable(describe(step, error))
}

/// What failed and why, in words where there are any.
pub(super) fn describe(step: &str, error: &fjall::Error) -> String {
    use fjall::{Error as E, LsmError as L};
    if let E::Io(error) | E::Storage(L::Io(error)) = error {
        return format!("cannot {step}: {error}");
    }
    format!("cannot {step}: {error:?}")
}
