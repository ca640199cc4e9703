//! Opening a directory: is it free, is it ours, do we know its format.
//!
//! ```text
//!   <path>/LOCK     held by the process that has it open, with that process's id inside
//!   <path>/FORMAT   the version of the layout, refused when newer than this program
//!   <path>/HEAD     the last commit that was acknowledged, as a check
//!   <path>/data/    fjall's files
//! ```

use std::{
    fs::{self, File, TryLockError},
    io::{self, Read, Seek, Write},
    os::unix::fs::DirBuilderExt as _,
    path::Path,
};

use fjall::{CompressionType, Database, PersistMode};

use super::{
    EmbeddedOptions,
    contents::Contents,
    format::FORMAT,
    journal, migrate,
    sum::Sum,
    tables::{Folded, Standing, Tables, failed},
    watermark::Watermark,
};
use crate::{
    error::{Error, OpenError},
    model::{Incarnation, Revision},
};

const LOCK_FILE: &str = "LOCK";
const FORMAT_FILE: &str = "FORMAT";
pub(super) const DATA: &str = "data";
const FORMAT_WORD: &str = "orrery-store";

/// A new store begins here. Zero would read as "any revision" in the REST dialect.
const FIRST: Revision = Revision(1);

/// A directory that is open.
pub(super) struct Opened {
    pub tables: Tables,
    pub standing: Standing,
    pub contents: Contents,
    pub watermark: Watermark,
}

pub(super) fn open(path: &Path, options: &EmbeddedOptions) -> Result<Opened, OpenError> {
    create(path)?;
    let lock = lock(path)?;
    let found_format = check_format(path)?;
    journal::inspect(&path.join(DATA))?;
    let tables = open_tables(path, options, lock)?;
    if found_format < FORMAT {
        migrate::from_first(&tables).map_err(|error| named(path, error))?;
        write_format(path).map_err(io_error("write the format of", path))?;
    }
    migrate::forget_first(&tables).map_err(|error| named(path, error))?;
    let standing = match tables.where_it_stands().map_err(|error| named(path, error))? {
        Some(standing) => standing,
        None if Watermark::exists(path) => {
            let detail = "all that was written is gone".to_owned();
            return Err(OpenError::Corrupt { path: path.to_owned(), detail });
        }
        None => found(path, &tables)?,
    };
    tables.set_compacted(standing.compacted);
    let contents = Contents::read(&tables, standing.folded).map_err(|error| named(path, error))?;
    if contents.head < standing.compacted {
        return Err(ends_early(path, standing.compacted, contents.head));
    }
    let watermark = check_watermark(path, standing.incarnation, contents.head)?;
    Ok(Opened { tables, standing, contents, watermark })
}

/// Makes the directory, if it is not there, for its owner only: most of what is kept is not sealed.
pub(super) fn create(path: &Path) -> Result<(), OpenError> {
    let failed = io_error("create directory", path);
    if path.is_dir() {
        return Ok(());
    }
    let above = path.parent().map_or(Ok(()), fs::create_dir_all);
    above.and_then(|()| fs::DirBuilder::new().mode(0o700).create(path)).map_err(failed)
}

pub(super) fn open_tables(
    path: &Path,
    options: &EmbeddedOptions,
    lock: File,
) -> Result<Tables, OpenError> {
    let db = Database::builder(path.join(DATA))
        .cache_size(options.block_cache_bytes)
        .max_journaling_size(options.journal_bytes)
        .worker_threads(1)
        // Groups of commits are larger than what fjall compresses, and a sync costs the same for half of the bytes.
        .journal_compression(CompressionType::None)
        .open()
        .map_err(|error| named(path, failed("open its files", &error)))?;
    let tables = Tables::open(path, db, options, lock).map_err(|error| named(path, error))?;
    sync_tree(path).map_err(io_error("sync", path))?;
    Ok(tables)
}

/// How much is written to find out what is wrong with a disk: about what the background writes.
const PROBE_BYTES: usize = 1 << 20;

/// Why writing to this directory fails, by trying it.
pub(super) fn probe(path: &Path) -> String {
    let file = path.join("PROBE");
    let write = || {
        let mut probe = File::create(&file)?;
        probe.write_all(&vec![0; PROBE_BYTES])?;
        probe.sync_all()
    };
    let tried = write();
    let removed = fs::remove_file(&file);
    match tried.and(removed) {
        Ok(()) => "a write in the background failed, though the disk takes writes now".to_owned(),
        Err(error) => format!("a write in the background failed: {error}"),
    }
}

/// Makes the names of new files and directories durable, down from here: what is synced later is
/// of use only if it can be found.
fn sync_tree(path: &Path) -> io::Result<()> {
    for entry in fs::read_dir(path)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            sync_tree(&entry.path())?;
        }
    }
    sync_directory(path)
}

/// Writes the first rows of a new store.
fn found(path: &Path, tables: &Tables) -> Result<Standing, OpenError> {
    let folded = Folded { revision: FIRST, sum: Sum::default() };
    let standing = Standing { compacted: FIRST, folded, incarnation: Incarnation::fresh() };
    let mut batch = tables.batch().durability(Some(PersistMode::SyncAll));
    tables.put_standing(&mut batch, &standing);
    let written = batch.commit().map_err(|error| failed("write the first rows", &error));
    written.map_err(|error| named(path, error))?;
    Ok(standing)
}

/// Refuses files that end before the last commit that is known to have been durable.
fn check_watermark(
    path: &Path,
    incarnation: Incarnation,
    head: Revision,
) -> Result<Watermark, OpenError> {
    let opened = Watermark::open(path, incarnation);
    let (watermark, noted) =
        opened.map_err(io_error("open the note of the last commit in", path))?;
    match noted {
        Some(noted) if head < noted => Err(ends_early(path, noted, head)),
        Some(_) | None => {
            let established = watermark.establish(path, head);
            established.map_err(io_error("note the last commit in", path))?;
            Ok(watermark)
        }
    }
}

/// Commits up to a revision were there, and are not any more.
fn ends_early(path: &Path, noted: Revision, head: Revision) -> OpenError {
    let detail = format!("commits up to {noted} were durable, now they end at {head}");
    OpenError::Corrupt { path: path.to_owned(), detail }
}

pub(super) fn lock(path: &Path) -> Result<File, OpenError> {
    let file_path = path.join(LOCK_FILE);
    let open = File::options().read(true).write(true).create(true).truncate(false).open(&file_path);
    let mut file = open.map_err(io_error("open lock file", &file_path))?;
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => {
            let mut pid = String::new();
            let pid = file.read_to_string(&mut pid).ok().and_then(|_| pid.trim().parse().ok());
            return Err(OpenError::Locked { path: path.to_owned(), pid });
        }
        Err(TryLockError::Error(error)) => {
            return Err(io_error("lock", &file_path)(error));
        }
    }
    let write_pid = |file: &mut File| {
        file.set_len(0)?;
        file.rewind()?;
        writeln!(file, "{}", std::process::id())
    };
    write_pid(&mut file).map_err(io_error("write lock file", &file_path))?;
    Ok(file)
}

/// Accepts our own format and those before it, and says which it is; writes ours into an empty directory and refuses
/// everything else.
fn check_format(path: &Path) -> Result<u32, OpenError> {
    let file = path.join(FORMAT_FILE);
    match fs::read_to_string(&file) {
        Ok(text) => judge_format(path, &text),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            if path.join(DATA).exists() || has_strangers(path)? {
                let reason = format!("it is not empty and has no file {FORMAT_FILE}");
                return Err(OpenError::NotAStore { path: path.to_owned(), reason });
            }
            write_format(path).map_err(io_error("write", &file))?;
            Ok(FORMAT)
        }
        Err(error) if error.kind() == io::ErrorKind::InvalidData => judge_format(path, ""),
        Err(error) => Err(io_error("read", &file)(error)),
    }
}

fn judge_format(path: &Path, text: &str) -> Result<u32, OpenError> {
    let version = text.trim_end().strip_prefix(FORMAT_WORD).and_then(|v| v.trim().parse().ok());
    match version {
        Some(found) if FORMAT < found => {
            Err(OpenError::NewerFormat { path: path.to_owned(), found, supported: FORMAT })
        }
        Some(found) => Ok(found),
        None => {
            let reason = format!("its file {FORMAT_FILE} reads {text:?}");
            Err(OpenError::NotAStore { path: path.to_owned(), reason })
        }
    }
}

pub(super) fn has_strangers(path: &Path) -> Result<bool, OpenError> {
    let mut files = fs::read_dir(path).map_err(io_error("read directory", path))?;
    Ok(files.any(|file| file.is_ok_and(|file| file.file_name() != LOCK_FILE)))
}

/// Appears whole or not at all, and before any data that needs it.
pub(super) fn write_format(path: &Path) -> io::Result<()> {
    let temporary = path.join("FORMAT.new");
    let mut file = File::create(&temporary)?;
    writeln!(file, "{FORMAT_WORD} {FORMAT}")?;
    file.sync_all()?;
    fs::rename(&temporary, path.join(FORMAT_FILE))?;
    sync_directory(path)?;
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => sync_directory(parent),
        Some(_) | None => Ok(()),
    }
}

pub(crate) fn sync_directory(path: &Path) -> io::Result<()> {
    File::open(path)?.sync_all()
}

fn named(path: &Path, error: Error) -> OpenError {
    if let Error::Corrupt { what, detail } = error {
        return OpenError::Corrupt { path: path.to_owned(), detail: format!("{what}: {detail}") };
    }
    OpenError::Store(error)
}

pub(super) fn io_error<'a>(
    step: &'static str,
    path: &'a Path,
) -> impl FnOnce(io::Error) -> OpenError + 'a {
    move |source| OpenError::Io { step, path: path.to_owned(), source }
}
