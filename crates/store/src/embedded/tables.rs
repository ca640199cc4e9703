//! The open tables of one directory, and the few rows that say where it stands.

use std::{
    fs::File,
    path::{Path, PathBuf},
    sync::atomic::{AtomicU64, Ordering},
};

use fjall::{
    Database, Keyspace, KeyspaceCreateOptions, Readable, Slice,
    config::{FilterPolicy, FilterPolicyEntry},
};
use parking_lot::{Mutex, MutexGuard};
use tokio_util::sync::{CancellationToken, DropGuard};

use super::{EmbeddedOptions, format, sum::Sum};
use crate::{
    error::Error,
    model::{Incarnation, Revision},
};

const COMPACTED: &str = "compacted";
const FOLDED: &str = "folded";
const INCARNATION: &str = "incarnation";

/// Fields are dropped in order: the database lets go of its files before the directory's lock is
/// released, and only then is the release announced.
pub(super) struct Tables {
    pub base: Keyspace,
    pub commits: Keyspace,
    pub standing: Keyspace,
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

/// What the base holds: everything up to a revision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Folded {
    pub revision: Revision,
    pub sum: Sum,
}

/// Where a directory stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Standing {
    pub compacted: Revision,
    pub folded: Folded,
    pub incarnation: Incarnation,
}

impl Tables {
    pub fn open(
        path: &Path,
        db: Database,
        options: &EmbeddedOptions,
        lock: File,
    ) -> Result<Self, Error> {
        let create = || KeyspaceCreateOptions::default().max_memtable_size(options.memtable_bytes);
        let table = |name: &str, create: &dyn Fn() -> KeyspaceCreateOptions| {
            db.keyspace(name, create).map_err(|error| failed("open the tables", &error))
        };
        // Commits are read in order and never looked for one by one.
        let unfiltered = || create().filter_policy(FilterPolicy::all(FilterPolicyEntry::None));
        let announce = CancellationToken::new();
        Ok(Self {
            base: table("base", &create)?,
            commits: table("commits", &unfiltered)?,
            standing: table("standing", &create)?,
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
    pub fn where_it_stands(&self) -> Result<Option<Standing>, Error> {
        let snapshot = self.db.snapshot();
        let Some(incarnation) = self.row(&snapshot, INCARNATION)? else { return Ok(None) };
        let incarnation = format::decode_standing(INCARNATION, &incarnation)?;
        Ok(Some(Standing {
            compacted: self.compacted_in(&snapshot)?,
            folded: self.folded_in(&snapshot)?,
            incarnation: Incarnation(uuid::Uuid::from_bytes(incarnation)),
        }))
    }

    /// The oldest revision a snapshot can be read at.
    pub fn compacted_in(&self, snapshot: &impl Readable) -> Result<Revision, Error> {
        let row = self.present(snapshot, COMPACTED)?;
        Ok(Revision(u64::from_be_bytes(format::decode_standing(COMPACTED, &row)?)))
    }

    /// How far the base of a snapshot goes.
    pub fn folded_in(&self, snapshot: &impl Readable) -> Result<Folded, Error> {
        let row = self.present(snapshot, FOLDED)?;
        let row: [u8; 24] = format::decode_standing(FOLDED, &row)?;
        let (mut revision, mut sum) = ([0; 8], [0; 16]);
        revision.copy_from_slice(&row[..8]);
        sum.copy_from_slice(&row[8..]);
        let revision = Revision(u64::from_be_bytes(revision));
        Ok(Folded { revision, sum: Sum::from_bytes(sum) })
    }

    pub fn batch(&self) -> fjall::OwnedWriteBatch {
        self.db.batch()
    }

    pub fn put_folded(&self, batch: &mut fjall::OwnedWriteBatch, folded: Folded) {
        let row = [folded.revision.0.to_be_bytes().as_slice(), &folded.sum.to_bytes()].concat();
        batch.insert(&self.standing, FOLDED, format::encode_standing(FOLDED, &row));
    }

    pub fn put_compacted(&self, batch: &mut fjall::OwnedWriteBatch, compacted: Revision) {
        let row = format::encode_standing(COMPACTED, &compacted.0.to_be_bytes());
        batch.insert(&self.standing, COMPACTED, row);
    }

    pub fn put_standing(&self, batch: &mut fjall::OwnedWriteBatch, standing: &Standing) {
        self.put_folded(batch, standing.folded);
        self.put_compacted(batch, standing.compacted);
        let row = format::encode_standing(INCARNATION, standing.incarnation.0.as_bytes());
        batch.insert(&self.standing, INCARNATION, row);
    }

    fn present(&self, snapshot: &impl Readable, name: &str) -> Result<Slice, Error> {
        let row = self.row(snapshot, name)?;
        row.ok_or_else(|| format::corrupt("standing", name.as_bytes(), "it is missing"))
    }

    fn row(&self, snapshot: &impl Readable, name: &str) -> Result<Option<Slice>, Error> {
        snapshot
            .get(&self.standing, name)
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
