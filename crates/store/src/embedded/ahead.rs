//! Room in the journal that is on the disk before it is needed.
//!
//! fjall begins a journal as a file that is one large hole. A sync of what was written into a hole tells the disk
//! two things, one after the other: the bytes, and where they are now. Where zeros are on the disk already, it is
//! the bytes alone:
//!
//! ```text
//!   batch batch batch|000000000000000000|............   next: into the zeros
//!                    ^ written last     ^ the first hole, where more zeros go before it is reached
//! ```
//! Zeros are written only into holes, and only while nobody else writes: no byte changes its value.
//! Whatever goes wrong here costs time and nothing else.
use std::{
    fs::File,
    io,
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
};

use rustix::{
    fs::{SeekFrom, seek},
    io::Errno,
};

use super::journal;

/// How much is filled at a time: some thousand commits.
const STRIDE: u64 = 1 << 20;
/// With less than this before the first hole, more is filled.
const ROOM: u64 = STRIDE / 2;
const PAGE: usize = 4 << 10;
const PART: usize = 64 << 10;
static ZEROS: [u8; PART] = [0; PART];

/// What commits take in a journal beyond their keys and values: each by itself, and a group of them together.
const COMMIT_BYTES: u64 = 64;
const GROUP_BYTES: u64 = 256;

#[derive(Debug)]
pub(super) struct Ahead {
    data: PathBuf,
    /// The journal that was filled last.
    journal: Option<(PathBuf, File)>,
    /// What may be written before the next look.
    left: u64,
}

impl Ahead {
    /// For the journals in fjall's folder.
    pub fn new(data: &Path) -> Self {
        Self { data: data.to_owned(), journal: None, left: 0 }
    }

    /// Whether there is no room for so many commits with so many bytes of keys and values.
    pub fn is_short(&mut self, commits: usize, bytes: usize) -> bool {
        let taken = (commits as u64).saturating_mul(COMMIT_BYTES) + GROUP_BYTES;
        let taken = taken.saturating_add(bytes as u64);
        let left = self.left.checked_sub(taken);
        self.left = left.unwrap_or(ROOM);
        left.is_none()
    }

    /// Makes room. Nobody may write meanwhile.
    pub fn fill(&mut self) {
        if let Err(error) = self.try_fill() {
            tracing::debug!(%error, "cannot write ahead in the journal");
        }
    }

    /// Fills the first hole of the newest journal; one that has none grows as it is written.
    fn try_fill(&mut self) -> io::Result<()> {
        let newest = journal::newest(&self.data)?;
        if newest.as_ref() != self.journal.as_ref().map(|(path, _)| path) {
            self.journal = match newest {
                Some(path) => {
                    let file = File::options().read(true).write(true).open(&path)?;
                    Some((path, file))
                }
                None => None,
            };
        }
        let Some((_, file)) = &self.journal else { return Ok(()) };
        let hole = seek(file, SeekFrom::Hole(0))?;
        if has_room(file, hole)? {
            return Ok(());
        }
        let end = hole.saturating_add(STRIDE).min(end_of_hole(file, hole)?);
        for at in (hole..end).step_by(PART) {
            let part = usize::try_from(end - at).unwrap_or(PART).min(PART);
            file.write_all_at(&ZEROS[..part], at)?;
        }
        Ok(())
    }
}

/// Where something else begins. There are file systems that make holes out of zeros that were written.
fn end_of_hole(file: &File, hole: u64) -> io::Result<u64> {
    match seek(file, SeekFrom::Data(hole)) {
        Err(Errno::NXIO) => Ok(file.metadata()?.len()),
        found => Ok(found?),
    }
}

/// Whether what was written last lies far enough before the hole: what is there reads as zeros.
fn has_room(file: &File, hole: u64) -> io::Result<bool> {
    let Some(at) = hole.checked_sub(ROOM) else { return Ok(false) };
    let mut found = [0; PAGE];
    file.read_exact_at(&mut found, at)?;
    Ok(found == ZEROS[..PAGE])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(ahead: &mut Ahead, bytes: usize) {
        if ahead.is_short(1, bytes) {
            ahead.fill();
        }
    }

    fn hole(file: &File) -> u64 {
        seek(file, SeekFrom::Hole(0)).expect("holes can be looked for")
    }

    /// As fjall makes one: of a size, and empty.
    fn mk_journal(folder: &Path, name: &str) -> File {
        let file = File::create_new(folder.join(name)).expect("a journal");
        file.set_len(8 * STRIDE).expect("its size");
        file
    }

    #[test]
    fn only_holes_are_filled_a_stride_at_a_time() {
        let folder = tempfile::tempdir().expect("a folder");
        let journal = mk_journal(folder.path(), "0.jnl");
        let written = vec![3; 10_000];
        journal.write_all_at(&written, 0).expect("written");
        let mut ahead = Ahead::new(folder.path());
        write(&mut ahead, 100);
        let filled = hole(&journal);
        assert!((STRIDE..STRIDE + (64 << 10)).contains(&filled), "{filled}");
        for _ in 0..100 {
            write(&mut ahead, 100);
        }
        assert_eq!(hole(&journal), filled, "there is room enough");
        // More than was said: it is found beyond what was filled, and stays.
        let much = vec![7; 3 * STRIDE as usize];
        journal.write_all_at(&much, written.len() as u64).expect("written");
        write(&mut ahead, STRIDE as usize);
        let mut found = vec![0; written.len() + much.len()];
        File::open(folder.path().join("0.jnl")).unwrap().read_exact_at(&mut found, 0).unwrap();
        assert!(found == [written, much].concat(), "nothing that was written is touched");
        assert!(4 * STRIDE <= hole(&journal));
        assert_eq!(journal.metadata().unwrap().len(), 8 * STRIDE, "it is as large as before");
    }

    /// What commits take is a guess: where it was too high, there is room still.
    #[test]
    fn room_that_is_left_is_not_made_again() {
        let folder = tempfile::tempdir().expect("a folder");
        let journal = mk_journal(folder.path(), "0.jnl");
        let mut ahead = Ahead::new(folder.path());
        for end in 1..20 {
            journal.write_all_at(&vec![3; end * 1_000], 0).expect("written");
            write(&mut ahead, STRIDE as usize);
        }
        let filled = hole(&journal);
        assert!((STRIDE..STRIDE + (64 << 10)).contains(&filled), "{filled}");
        journal.write_all_at(&vec![3; STRIDE as usize], 0).expect("written");
        write(&mut ahead, STRIDE as usize);
        assert!(filled + STRIDE <= hole(&journal));
    }

    /// A hole that is followed by something, as where a file system makes holes out of zeros.
    #[test]
    fn what_is_not_zero_is_never_written_over() {
        let folder = tempfile::tempdir().expect("a folder");
        let journal = mk_journal(folder.path(), "0.jnl");
        journal.write_all_at(b"batch", STRIDE / 2).expect("written");
        write(&mut Ahead::new(folder.path()), 100);
        let mut found = [0; 5];
        let read = File::open(folder.path().join("0.jnl")).unwrap();
        read.read_exact_at(&mut found, STRIDE / 2).unwrap();
        assert_eq!(&found, b"batch");
    }

    #[test]
    fn the_newest_journal_is_the_one_that_is_filled() {
        let folder = tempfile::tempdir().expect("a folder");
        let mut ahead = Ahead::new(folder.path());
        write(&mut ahead, STRIDE as usize);
        let older = mk_journal(folder.path(), "9.jnl");
        write(&mut ahead, STRIDE as usize);
        assert_eq!(hole(&older), STRIDE);
        let newer = mk_journal(folder.path(), "10.jnl");
        write(&mut ahead, STRIDE as usize);
        assert_eq!((hole(&older), hole(&newer)), (STRIDE, STRIDE));
        // One that grows as it is written has no hole.
        let whole = folder.path().join("11.jnl");
        std::fs::write(&whole, b"batches").expect("written");
        write(&mut ahead, STRIDE as usize);
        assert_eq!(std::fs::read(&whole).unwrap(), b"batches");
    }
}
