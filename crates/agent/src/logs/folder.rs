//! The files of the log of a process.
//!
//! ```text
//!   log/01882000000000000000.text    |-------------|               what the program wrote
//!   log/01882000000001048576.text                  |----->         the rest of it
//!   log/*.times                                                    when, see `times`
//! ```
//! A file is called by the place of its first byte in the whole log, so the end of a file says what the
//! next one is called, and a place means the same byte for ever. Nothing is written to a file once there
//! is one after it. The oldest goes when a third one comes.
//!
//! A log begins at a place made from the time of day, which is further than any log comes by being
//! written to: should a log be lost and begun anew, no place of the first one is a place of the second.
use crate::model::UnixMillis;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// The folder of the log within the folder of an instance.
pub const LOG_FOLDER: &str = "log";

/// The files that earlier versions wrote, the older one first. Times are not known of them.
pub(crate) const EARLIER: [&str; 2] = ["previous", "current"];

/// Files of a log: the one being written and the one before.
const FILES_MAX: usize = 2;

/// How far apart the beginnings of two logs are for each millisecond between them. Nobody writes a
/// gigabyte in every second of years.
const BYTES_PER_MILLI: u64 = 1 << 20;

/// The place where a log begins that was begun at this time.
pub(crate) fn beginning(now: UnixMillis) -> u64 {
    now.0.saturating_mul(BYTES_PER_MILLI)
}

/// The text that begins at this place.
pub(crate) fn text(folder: &Path, base: u64) -> PathBuf {
    folder.join(format!("{base:020}.text"))
}

/// The times of that text.
pub(crate) fn times(folder: &Path, base: u64) -> PathBuf {
    folder.join(format!("{base:020}.times"))
}

/// Where the texts begin that are there, in order.
pub(crate) fn bases(folder: &Path) -> io::Result<Vec<u64>> {
    let mut bases: Vec<u64> = names(folder)?.iter().filter_map(|name| base(name, "text")).collect();
    bases.sort_unstable();
    Ok(bases)
}

/// Removes what is too old to be kept.
pub(crate) fn prune(folder: &Path) -> io::Result<()> {
    let bases = bases(folder)?;
    let Some(oldest) = bases.len().checked_sub(FILES_MAX).and_then(|at| bases.get(at)) else {
        return Ok(());
    };
    for name in names(folder)? {
        let found = base(&name, "text").or_else(|| base(&name, "times"));
        if found.is_some_and(|base| base < *oldest) {
            fs::remove_file(folder.join(name))?;
        }
    }
    Ok(())
}

fn base(name: &str, kind: &str) -> Option<u64> {
    let (base, of) = name.split_once('.')?;
    let exact = base.len() == 20 && base.bytes().all(|byte| byte.is_ascii_digit());
    base.parse().ok().filter(|_| exact && of == kind)
}

fn names(folder: &Path) -> io::Result<Vec<String>> {
    let entries = match fs::read_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries?,
    };
    let names = entries.map(|entry| Ok(entry?.file_name().into_string().unwrap_or_default()));
    names.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_our_files_are_files_of_the_log() {
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path();
        assert_eq!(bases(&folder.join("absent")).unwrap(), Vec::<u64>::new());
        for base in [7, 100, u64::MAX] {
            fs::write(text(folder, base), "").unwrap();
            fs::write(times(folder, base), "").unwrap();
        }
        for stranger in ["current", "12.text", "0000000000000000000x.text", "notes"] {
            fs::write(folder.join(stranger), "").unwrap();
        }
        assert_eq!(bases(folder).unwrap(), [7, 100, u64::MAX]);
        prune(folder).unwrap();
        assert_eq!(bases(folder).unwrap(), [100, u64::MAX]);
        assert!(!times(folder, 7).exists() && folder.join("notes").exists());
    }

    #[test]
    fn a_log_begins_after_all_that_an_earlier_one_can_have_had() {
        let (first, second) = (UnixMillis(1_795_000_000_000), UnixMillis(1_795_000_060_000));
        assert!(beginning(first) + 60 * 1_000_000_000 < beginning(second));
        assert!(beginning(second) < i64::MAX as u64);
    }
}
