//! Filling a new directory from a backup. The file that says what the directory is comes last, so
//! one that was left half filled is never taken for a store.

use std::path::{Path, PathBuf};

use fjall::{OwnedWriteBatch, PersistMode};

use super::{
    EmbeddedOptions, directory, format,
    sum::Sum,
    tables::{Folded, Standing, Tables, failed},
};
use crate::{
    error::OpenError,
    model::{Entry, Incarnation, Revision},
};

/// How much is written at once.
const BATCH_BYTES: usize = 4 << 20;

/// A directory on its way to become a store.
pub(crate) struct Restoring {
    path: PathBuf,
    tables: Tables,
    batch: OwnedWriteBatch,
    bytes: usize,
    sum: Sum,
}

impl Restoring {
    pub fn begin(path: &Path, options: &EmbeddedOptions) -> Result<Self, OpenError> {
        directory::create(path)?;
        let lock = directory::lock(path)?;
        if directory::has_strangers(path)? {
            let reason = "a backup is restored into a new or empty directory".to_owned();
            return Err(OpenError::NotEmpty { path: path.to_owned(), reason });
        }
        let tables = directory::open_tables(path, options, lock)?;
        let batch = tables.batch();
        Ok(Self { path: path.to_owned(), tables, batch, bytes: 0, sum: Sum::default() })
    }

    pub fn add(&mut self, entry: &Entry) -> Result<(), OpenError> {
        self.sum.add(&entry.key, entry.modified);
        let row = format::encode_base(&entry.key, entry.head(), &entry.value);
        self.bytes += entry.key.len() + row.len();
        self.batch.insert(&self.tables.base, entry.key.as_bytes(), row);
        if BATCH_BYTES < self.bytes { self.write() } else { Ok(()) }
    }

    /// Ends at `head`: all history before it is gone, and a new life begins.
    pub fn finish(mut self, head: Revision) -> Result<(), OpenError> {
        let folded = Folded { revision: head, sum: self.sum };
        let standing = Standing { compacted: head, folded, incarnation: Incarnation::fresh() };
        self.tables.put_standing(&mut self.batch, &standing);
        self.write()?;
        directory::write_format(&self.path).map_err(directory::io_error("finish", &self.path))
    }

    fn write(&mut self) -> Result<(), OpenError> {
        self.bytes = 0;
        let batch = std::mem::replace(&mut self.batch, self.tables.batch());
        let written = batch.durability(Some(PersistMode::SyncAll)).commit();
        Ok(written.map_err(|error| failed("write what was restored", &error))?)
    }
}
