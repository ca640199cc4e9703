//! Looking over fjall's journals before fjall does.
//!
//! A power cut can tear the last batch: parts of it are on the disk and others are not. fjall
//! drops a batch that breaks off, but takes one whose middle is missing for damage and refuses to
//! open. And it drops whatever follows a damaged entry, acknowledged or not, without a word. Both
//! are told apart here, because every batch of this engine is synced before the next is written:
//!
//! ```text
//!   batch batch batch                  whole
//!   batch batch torn.                  a power cut; nobody was told of it: cut it off
//!   batch DAMAGED batch                the disk lost what it had: name it, open nothing
//! ```

use std::{
    fs::{self, File},
    io,
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
};

use rustix::{
    fs::{SeekFrom, seek},
    io::Errno,
};
use xxhash_rust::xxh3::Xxh3;

use super::directory::io_error;
use crate::error::OpenError;

/// What fjall puts before a batch, before each of its items, and after it.
const START: u8 = 1;
const ITEM: u8 = 2;
const END: u8 = 3;
const CLEAR: u8 = 4;
const TRAILER: &[u8] = b"FJL\x03";

/// Checks every journal in `data`, and cuts a torn end off the newest.
pub(super) fn inspect(data: &Path) -> Result<(), OpenError> {
    let journals = journals(data).map_err(io_error("list", data))?;
    let Some((newest, sealed)) = journals.split_last() else { return Ok(()) };
    for journal in sealed {
        match judge(journal)? {
            Verdict::Whole => {}
            Verdict::Torn { at } | Verdict::Damaged { at } => return Err(damaged(journal, at)),
        }
    }
    match judge(newest)? {
        Verdict::Whole => Ok(()),
        Verdict::Torn { at } => cut(newest, at).map_err(io_error("cut the torn end off", newest)),
        Verdict::Damaged { at } => Err(damaged(newest, at)),
    }
}

/// The journal that is written now.
pub(super) fn newest(data: &Path) -> io::Result<Option<PathBuf>> {
    Ok(journals(data)?.pop())
}

/// Journals are as large as they may become, and nearly all are whole: only what is not is read at once.
fn judge(journal: &Path) -> Result<Verdict, OpenError> {
    let is_whole = || Pieces::new(File::open(journal)?).are_whole();
    if is_whole().map_err(io_error("read journal", journal))? {
        return Ok(Verdict::Whole);
    }
    Ok(scan(&fs::read(journal).map_err(io_error("read journal", journal))?))
}

/// How much of a journal is read at once, unless a batch is longer.
const PIECE: usize = 256 << 10;

/// A journal from its beginning to its end, in pieces.
struct Pieces {
    file: File,
    /// What was read and not looked at yet, which ends at `end` in the file.
    held: Vec<u8>,
    end: u64,
}

impl Pieces {
    fn new(file: File) -> Self {
        Self { file, held: Vec::new(), end: 0 }
    }

    /// Whether it is batches and zeros behind them.
    fn are_whole(mut self) -> io::Result<bool> {
        let mut seen = 0;
        loop {
            match batch(&self.held[seen..]) {
                Some(length) => seen += length,
                None if matches!(self.held.get(seen), None | Some(&START)) => {
                    self.held.drain(..seen);
                    seen = 0;
                    if !self.read()? {
                        break;
                    }
                }
                None => break,
            }
        }
        Ok(without_zeros(&self.held[seen..]).is_empty() && self.ends_in_zeros()?)
    }

    /// Reads as much again as is held, or a piece; `false` at the end.
    fn read(&mut self) -> io::Result<bool> {
        let held = self.held.len();
        self.held.resize(held + held.max(PIECE), 0);
        let count = self.file.read_at(&mut self.held[held..], self.end)?;
        self.held.truncate(held + count);
        self.end += count as u64;
        Ok(0 < count)
    }

    /// Whether the rest is zeros. Most of it is a hole, which need not be read.
    fn ends_in_zeros(&mut self) -> io::Result<bool> {
        loop {
            match seek(&self.file, SeekFrom::Data(self.end)) {
                Err(Errno::NXIO) => return Ok(true),
                found => self.end = self.end.max(found?),
            }
            self.held.clear();
            if !self.read()? {
                return Ok(true);
            }
            if !without_zeros(&self.held).is_empty() {
                return Ok(false);
            }
        }
    }
}

fn damaged(journal: &Path, at: usize) -> OpenError {
    let detail = format!("what was written at byte {at} is not what is there now");
    OpenError::Corrupt { path: journal.to_owned(), detail }
}

fn cut(journal: &Path, at: usize) -> io::Result<()> {
    tracing::warn!(journal = %journal.display(), at, "the end of the journal was torn, cutting it");
    let file = File::options().write(true).open(journal)?;
    file.set_len(u64::try_from(at).map_err(io::Error::other)?)?;
    file.sync_all()
}

/// The journals, oldest first.
fn journals(data: &Path) -> io::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    let files = match fs::read_dir(data) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        files => files?,
    };
    for file in files {
        let path = file?.path();
        let number = path.file_stem().and_then(|stem| stem.to_str()?.parse::<u64>().ok());
        if let Some(number) = number
            && path.extension().is_some_and(|extension| extension == "jnl")
        {
            found.push((number, path));
        }
    }
    found.sort_unstable();
    Ok(found.into_iter().map(|(_, path)| path).collect())
}

#[derive(Debug, PartialEq, Eq)]
enum Verdict {
    Whole,
    Torn { at: usize },
    Damaged { at: usize },
}

/// Journals are made of batches, and of zeros behind them because they are made in advance.
fn scan(journal: &[u8]) -> Verdict {
    let mut at = 0;
    while let Some(length) = batch(&journal[at..]) {
        at += length;
    }
    let rest = without_zeros(&journal[at..]);
    if rest.is_empty() {
        return Verdict::Whole;
    }
    let follows = |later: &usize| rest[*later] == START && batch(&rest[*later..]).is_some();
    match (1..rest.len()).find(follows) {
        Some(_) => Verdict::Damaged { at },
        None => Verdict::Torn { at },
    }
}

/// The bytes without the zeros behind them, of which there may be many megabytes.
fn without_zeros(bytes: &[u8]) -> &[u8] {
    const ZEROS: [u8; 4096] = [0; 4096];
    let zeros = bytes.rchunks(ZEROS.len()).take_while(|chunk| **chunk == ZEROS[..chunk.len()]);
    let zeros: usize = zeros.map(<[u8]>::len).sum();
    let bytes = &bytes[..bytes.len() - zeros];
    let end = bytes.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
    &bytes[..end]
}

/// The length of the valid batch that these bytes begin with.
fn batch(bytes: &[u8]) -> Option<usize> {
    let mut rest = Bytes(bytes);
    if rest.u8()? != START {
        return None;
    }
    let items = rest.u32()?;
    rest.take(8)?;
    let body = rest.0;
    for _ in 0..items {
        item(&mut rest)?;
    }
    let body = &body[..body.len() - rest.0.len()];
    if rest.u8()? != END {
        return None;
    }
    let sum = u64::from_le_bytes(rest.take(8)?.try_into().ok()?);
    let mut hash = Xxh3::new();
    hash.update(body);
    (rest.take(TRAILER.len())? == TRAILER && hash.digest() == sum)
        .then_some(bytes.len() - rest.0.len())
}

fn item(rest: &mut Bytes<'_>) -> Option<()> {
    match rest.u8()? {
        ITEM => {
            // The kind of value, its compression and the table, which the checksum covers.
            rest.take(1 + 1 + 8)?;
            let key = usize::from(u16::from_le_bytes(rest.take(2)?.try_into().ok()?));
            rest.take(4)?;
            let value = usize::try_from(rest.u32()?).ok()?;
            rest.take(key)?;
            rest.take(value)?;
        }
        CLEAR => {
            rest.take(8)?;
        }
        _ => return None,
    }
    Some(())
}

struct Bytes<'a>(&'a [u8]);

impl<'a> Bytes<'a> {
    fn take(&mut self, length: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(taken)
    }

    fn u8(&mut self) -> Option<u8> {
        self.take(1).map(|taken| taken[0])
    }

    fn u32(&mut self) -> Option<u32> {
        Some(u32::from_le_bytes(self.take(4)?.try_into().ok()?))
    }
}

#[cfg(test)]
mod tests {
    use fjall::{Database, KeyspaceCreateOptions, PersistMode};

    use super::*;

    /// A journal that fjall itself wrote, without the zeros, and the ends of its batches.
    fn journal() -> (Vec<u8>, Vec<usize>) {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let db = Database::builder(directory.path()).open().expect("a database opens");
        let table = db.keyspace("t", KeyspaceCreateOptions::default).expect("a table opens");
        for number in 0..5_u8 {
            let mut write = db.batch().durability(Some(PersistMode::SyncAll));
            write.insert(&table, [number], vec![number; 6000]);
            write.remove(&table, [number, 1]);
            write.commit().expect("it is written");
        }
        let journals = journals(directory.path()).expect("it can be listed");
        let bytes = fs::read(&journals[0]).expect("it can be read");
        let mut ends = vec![0];
        while let Some(length) = batch(&bytes[ends[ends.len() - 1]..]) {
            ends.push(ends[ends.len() - 1] + length);
        }
        let end = ends[ends.len() - 1];
        (bytes[..end].to_vec(), ends)
    }

    #[test]
    fn what_fjall_wrote_is_whole() {
        let (mut bytes, ends) = journal();
        assert_eq!(ends.len(), 6, "five batches");
        assert_eq!(scan(&bytes), Verdict::Whole);
        bytes.extend([0; 5000]);
        assert_eq!(scan(&bytes), Verdict::Whole);
    }

    #[test]
    fn the_last_batch_may_be_torn_anywhere() {
        let (bytes, ends) = journal();
        let at = ends[4];
        for missing in (at + 1)..bytes.len() {
            let mut torn = bytes.clone();
            torn.truncate(missing);
            assert_eq!(scan(&torn), Verdict::Torn { at }, "ends at {missing}");
            // The beginning is lost and the end has arrived.
            let mut torn = bytes.clone();
            torn[at..missing].fill(0);
            let verdict = scan(&torn);
            let expected =
                if missing == bytes.len() { Verdict::Whole } else { Verdict::Torn { at } };
            assert_eq!(verdict, expected, "begins at {missing}");
        }
    }

    /// What is read in pieces is whole if and only if what is read at once is.
    #[test]
    fn pieces_are_judged_as_the_whole() {
        let (bytes, ends) = journal();
        let directory = tempfile::tempdir().expect("a temporary directory");
        let path = directory.path().join("0.jnl");
        let check = |bytes: &[u8], length: u64| {
            fs::write(&path, bytes).expect("it can be written");
            let file = File::options().write(true).open(&path).expect("it can be opened");
            file.set_len(length).expect("it can be made longer");
            let found = judge(&path).expect("it can be read");
            assert_eq!(found, scan(&fs::read(&path).expect("it can be read")), "{}", bytes.len());
            found
        };
        let (all, long) = (bytes.len() as u64, 3 * PIECE as u64);
        assert_eq!(check(&bytes, all), Verdict::Whole);
        assert_eq!(check(&bytes, long), Verdict::Whole, "with a hole behind");
        assert_eq!(check(&[], long), Verdict::Whole, "nothing but a hole");
        assert_eq!(check(&bytes[..ends[4] + 100], long), Verdict::Torn { at: ends[4] });
        let mut changed = bytes.clone();
        changed[ends[2] + 50] ^= 0x55;
        assert_eq!(check(&changed, long), Verdict::Damaged { at: ends[2] });
        let far = [&bytes[..], &vec![0; PIECE], &[7], &vec![0; PIECE]].concat();
        assert_eq!(check(&far, far.len() as u64), Verdict::Torn { at: bytes.len() });
        // Longer than a piece, again and again.
        let many: Vec<u8> = bytes.repeat(2 * PIECE / bytes.len() + 3);
        assert_eq!(check(&many, many.len() as u64 + long), Verdict::Whole);
        assert!(matches!(check(&many[..many.len() - 5], long * 9), Verdict::Torn { .. }));
    }

    #[test]
    fn a_changed_byte_before_the_end_is_damage() {
        let (bytes, ends) = journal();
        let checked = ends[0]..ends[4];
        for at in checked.step_by(37) {
            let mut changed = bytes.clone();
            changed[at] ^= 0x55;
            let verdict = scan(&changed);
            let begin = ends.iter().rev().find(|end| **end <= at).copied().unwrap_or_default();
            // The number of a batch is not part of its checksum; fjall reads it as it is.
            let number = begin + 5..begin + 13;
            let expected =
                if number.contains(&at) { Verdict::Whole } else { Verdict::Damaged { at: begin } };
            assert_eq!(verdict, expected, "at {at}");
        }
    }
}
