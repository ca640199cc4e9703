//! Backup of any engine while it runs, and restore into a new directory of the embedded one.
//!
//! ```text
//!   "orrery-backup 1\n" incarnation:16 revision:8
//!   { 1 created:8 modified:8 key length:4 value length:4 key value }*
//!   2 count:8 checksum:8                       over everything before it
//! ```
//!
//! A backup is all entries at one revision; leases are left out, because their holders will be
//! gone. It appears under its name only when it is complete and synced. A restore checks all of it
//! before it writes anything, begins a new incarnation, and jumps revisions so far forward that
//! none that the lost history handed out is ever handed out again: who remembers one lists anew.

mod file;

use std::{io, path::Path, sync::Arc};

use tokio::sync::mpsc;

use self::file::{Reader, Writer};
use crate::{
    embedded::{EmbeddedOptions, Restoring},
    engine::{Engine, ListRequest},
    error::{Error, OpenError},
    lease::LEASES,
    model::{Entry, Incarnation, Revision},
};

/// Entries read at once, and how many such pages wait for the disk.
const PAGE: usize = 500;
const PAGES_WAITING: usize = 4;

/// How often a backup starts over because its revision was compacted under it.
const ATTEMPTS_MAX: usize = 5;

/// How far a restore jumps: more commits than a store makes in a year at full speed.
const JUMP: u64 = 1 << 40;

/// What a backup holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Backup {
    pub incarnation: Incarnation,
    /// The moment it shows.
    pub revision: Revision,
    pub entries: u64,
}

/// Writes all entries of an engine as they are at one revision to a new file.
pub async fn backup(engine: &dyn Engine, path: &Path) -> Result<Backup, OpenError> {
    let mut attempt = 1;
    loop {
        match attempt_backup(engine, path).await {
            Err(OpenError::Store(Error::Compacted { .. })) if attempt < ATTEMPTS_MAX => {
                attempt += 1;
            }
            outcome => return outcome,
        }
    }
}

async fn attempt_backup(engine: &dyn Engine, path: &Path) -> Result<Backup, OpenError> {
    let revision = engine.current("").await?;
    let header = (engine.incarnation(), revision);
    let (pages, mut waiting) = mpsc::channel::<Vec<Entry>>(PAGES_WAITING);
    let target = path.to_owned();
    let writing = tokio::task::spawn_blocking(move || {
        let mut writer = Writer::create(&target, header.0, header.1)?;
        while let Some(page) = waiting.blocking_recv() {
            writer.entries(&page)?;
        }
        Ok::<_, io::Error>(writer)
    });
    // An error of the list leaves the file without its name, and dropping the writer removes it.
    let listed = send_pages(engine, revision, pages).await;
    let written = writing.await.map_err(io::Error::other).and_then(|written| written);
    listed?;
    let failed = |source| OpenError::Io { step: "write backup", path: path.to_owned(), source };
    let writer = written.map_err(failed)?;
    let finishing = tokio::task::spawn_blocking(move || writer.finish());
    let entries =
        finishing.await.map_err(io::Error::other).and_then(|done| done).map_err(failed)?;
    Ok(Backup { incarnation: header.0, revision, entries })
}

async fn send_pages(
    engine: &dyn Engine,
    revision: Revision,
    pages: mpsc::Sender<Vec<Entry>>,
) -> Result<(), Error> {
    let mut request = ListRequest { at: Some(revision), limit: PAGE, ..ListRequest::default() };
    loop {
        let page = engine.list(request.clone()).await?;
        request.after = page.entries.last().map(|entry| Arc::clone(&entry.key));
        let kept = page.entries.into_iter().filter(|entry| !entry.key.starts_with(LEASES));
        if pages.send(kept.collect()).await.is_err() || !page.more {
            // A writer that is gone has failed and says so itself.
            return Ok(());
        }
    }
}

/// Reads a backup from beginning to end and says what it holds, or where it is damaged.
pub async fn inspect_backup(path: &Path) -> Result<Backup, OpenError> {
    let path = path.to_owned();
    blocking(move || inspect(&path)).await
}

/// Makes a store out of a backup, in a directory that is new or empty.
pub async fn restore(
    path: &Path,
    directory: &Path,
    options: EmbeddedOptions,
) -> Result<Backup, OpenError> {
    let (path, directory) = (path.to_owned(), directory.to_owned());
    blocking(move || restore_into(&path, &directory, &options)).await
}

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, OpenError> + Send + 'static,
) -> Result<T, OpenError> {
    let done = tokio::task::spawn_blocking(work).await;
    done.map_err(|error| Error::unavailable(format!("it did not finish: {error}")))?
}

fn inspect(path: &Path) -> Result<Backup, OpenError> {
    let mut reader = open(path)?;
    while reader.next().map_err(|error| damaged(path, error))?.is_some() {}
    Ok(reader.summary())
}

fn restore_into(
    path: &Path,
    directory: &Path,
    options: &EmbeddedOptions,
) -> Result<Backup, OpenError> {
    let summary = inspect(path)?;
    let mut restoring = Restoring::begin(directory, options)?;
    let mut reader = open(path)?;
    while let Some(entry) = reader.next().map_err(|error| damaged(path, error))? {
        restoring.add(&entry)?;
    }
    restoring.finish(Revision(summary.revision.0 + JUMP))?;
    Ok(summary)
}

fn open(path: &Path) -> Result<Reader, OpenError> {
    Reader::open(path).map_err(|error| damaged(path, error))
}

fn damaged(path: &Path, error: io::Error) -> OpenError {
    let path = path.to_owned();
    if error.kind() == io::ErrorKind::InvalidData {
        return OpenError::Corrupt { path, detail: error.to_string() };
    }
    if error.kind() == io::ErrorKind::UnexpectedEof {
        return OpenError::Corrupt { path, detail: "the backup ends too early".to_owned() };
    }
    OpenError::Io { step: "read backup", path, source: error }
}
