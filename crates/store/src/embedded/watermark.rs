//! A note of the last commit that was acknowledged, beside fjall's own files.
//!
//! It is written after the commits it speaks of were synced, and not synced itself: whatever is
//! read from it later, commits up to there were durable once. If the files then end earlier, they
//! have lost something, and that is said rather than served.

use std::{fs::File, io, os::unix::fs::FileExt, path::Path};

use super::{directory::sync_directory, format};
use crate::model::{Incarnation, Revision};

pub(super) const FILE: &str = "HEAD";

#[derive(Debug)]
pub(super) struct Watermark {
    file: File,
    incarnation: Incarnation,
}

impl Watermark {
    /// Opens the note; answers the revision it holds, if it is of this incarnation and readable.
    pub fn open(path: &Path, incarnation: Incarnation) -> io::Result<(Self, Option<Revision>)> {
        let options = File::options().read(true).write(true).create(true).truncate(false).clone();
        let file = options.open(path.join(FILE))?;
        let mut row = [0; 8 + 8];
        let noted = match file.read_exact_at(&mut row, 0) {
            Ok(()) => format::decode_standing::<8>(&incarnation.to_string(), &row).ok(),
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => None,
            Err(error) => return Err(error),
        };
        let noted = noted.map(|bytes| Revision(u64::from_be_bytes(bytes)));
        Ok((Self { file, incarnation }, noted))
    }

    /// Whether there is a note in a directory, which means that there was a store once.
    pub fn exists(path: &Path) -> bool {
        path.join(FILE).exists()
    }

    /// Makes the note itself durable; from then on the directory is known to hold a store.
    pub fn establish(&self, path: &Path, head: Revision) -> io::Result<()> {
        self.note(head)?;
        self.file.sync_all()?;
        sync_directory(path)
    }

    /// Makes what was noted last durable, at the end.
    pub fn settle(&self) -> io::Result<()> {
        self.file.sync_data()
    }

    /// Notes that commits up to `head` are durable.
    pub fn note(&self, head: Revision) -> io::Result<()> {
        let row = format::encode_standing(&self.incarnation.to_string(), &head.0.to_be_bytes());
        self.file.write_all_at(&row, 0)
    }
}
