//! The output of a program, kept within bounds.
//!
//! Two files: the one being written and the one before. When the first is full it becomes the second,
//! so between one and two times the limit is kept, and always the newest.
use std::{
    fs::{self, File, OpenOptions},
    io::{self, Write},
    os::unix::fs::{MetadataExt, OpenOptionsExt},
    path::{Path, PathBuf},
};

/// The folder of the log within the folder of an instance.
pub const LOG_FOLDER: &str = "log";

/// The file being written.
pub const LOG_CURRENT: &str = "current";

/// The full file before it.
pub const LOG_PREVIOUS: &str = "previous";

/// A file that reaches this is put aside. A thousand instances then take two gigabytes at most, and
/// a megabyte of text is more than people scroll through.
pub const LOG_FILE_MAX_BYTES: u64 = 1 << 20;

/// Writes to the log of one instance. Runs of an instance follow each other in the same log.
pub(super) struct Log {
    folder: PathBuf,
    file: File,
    len: u64,
    max: u64,
}

impl Log {
    pub(super) fn open(folder: &Path, max: u64) -> io::Result<Self> {
        let file = open(&folder.join(LOG_CURRENT))?;
        let len = file.metadata()?.len();
        Ok(Self { folder: folder.to_owned(), file, len, max })
    }

    pub(super) fn write(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        self.find_again();
        while !bytes.is_empty() {
            if self.len >= self.max {
                self.rotate()?;
            }
            let room = usize::try_from(self.max - self.len).unwrap_or(usize::MAX);
            let (now, later) = bytes.split_at(room.min(bytes.len()));
            self.file.write_all(now)?;
            self.len += now.len() as u64;
            bytes = later;
        }
        Ok(())
    }

    /// A log that somebody has deleted is begun anew where it belongs, as soon as its folder is there.
    fn find_again(&mut self) {
        if !self.file.metadata().is_ok_and(|found| found.nlink() == 0) {
            return;
        }
        if let Ok(again) = Self::open(&self.folder, self.max) {
            *self = again;
        }
    }

    fn rotate(&mut self) -> io::Result<()> {
        let current = self.folder.join(LOG_CURRENT);
        fs::rename(&current, self.folder.join(LOG_PREVIOUS))?;
        self.file = open(&current)?;
        self.len = 0;
        Ok(())
    }
}

fn open(path: &Path) -> io::Result<File> {
    OpenOptions::new().append(true).create(true).mode(0o600).open(path)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn contents(folder: &Path) -> (Vec<u8>, Vec<u8>) {
        let read = |name: &str| fs::read(folder.join(name)).unwrap_or_default();
        (read(LOG_PREVIOUS), read(LOG_CURRENT))
    }

    #[test]
    fn a_log_whose_folder_was_deleted_goes_on_in_the_one_that_follows() {
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path().join("log");
        fs::create_dir(&folder).unwrap();
        let mut log = Log::open(&folder, 1 << 10).unwrap();
        log.write(b"before").unwrap();
        fs::remove_dir_all(&folder).unwrap();
        log.write(b"meanwhile").unwrap();
        fs::create_dir(&folder).unwrap();
        log.write(b"after").unwrap();
        assert_eq!(contents(&folder), (Vec::new(), b"after".to_vec()));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn bounded_and_always_the_newest(
            writes in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..40), 0..20),
            max in 1_u64..32,
        ) {
            let dir = tempfile::tempdir().unwrap();
            let mut all = Vec::new();
            for bytes in &writes {
                // Opened each time, as by the supervisors of several runs.
                Log::open(dir.path(), max).unwrap().write(bytes).unwrap();
                all.extend_from_slice(bytes);
            }
            let (previous, current) = contents(dir.path());
            let kept = [previous.as_slice(), &current].concat();
            prop_assert!(kept.len() as u64 <= 2 * max);
            prop_assert!(kept.len() as u64 >= max.min(all.len() as u64));
            prop_assert!(all.ends_with(&kept));
        }
    }
}
