//! Where a reader stopped, in words that another connection, or another agent in the same folder, can go
//! on from.
use sha2::{Digest, Sha256};
use std::fs::File;
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::str::FromStr;
use std::time::UNIX_EPOCH;

/// Bytes of a file that tell it from others. The first line of a container's log has its time in it.
const PRINT_BYTES_MAX: u64 = 64;

/// A place between two bytes of a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Position {
    /// Nothing was ever written.
    Nothing,
    /// In the whole log of a process.
    Place(u64),
    /// In a file whose name says no place.
    In(Print),
}

/// A file, and how far into it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Print {
    inode: u64,
    /// When it was made, where the file system knows that; numbers of files are used again.
    born_nanos: u64,
    /// Made from its first bytes, as far as they are before the offset.
    head: u64,
    offset: u64,
}

impl Print {
    pub(super) fn of(file: &File, offset: u64) -> io::Result<Self> {
        let found = file.metadata()?;
        let born = found.created().ok().and_then(|born| born.duration_since(UNIX_EPOCH).ok());
        let born_nanos = born.and_then(|born| u64::try_from(born.as_nanos()).ok());
        let mut head = vec![0; usize::try_from(offset.min(PRINT_BYTES_MAX)).unwrap_or_default()];
        file.read_exact_at(&mut head, 0)?;
        let digest = Sha256::digest(&head);
        let head = digest.iter().take(8).fold(0, |sum, byte| (sum << 8) | u64::from(*byte));
        Ok(Self { inode: found.ino(), born_nanos: born_nanos.unwrap_or_default(), head, offset })
    }
}

impl Position {
    /// How far into this file it is, if it is in it.
    pub(super) fn within(self, file: &File, base: Option<u64>) -> io::Result<Option<u64>> {
        let len = file.metadata()?.len();
        match (self, base) {
            (Self::Place(place), Some(base)) => {
                Ok(place.checked_sub(base).filter(|offset| *offset <= len))
            }
            // One that was taken over has another name, and is the same file.
            (Self::In(print), _) if print.offset <= len => {
                Ok((Print::of(file, print.offset)? == print).then_some(print.offset))
            }
            (Self::Nothing | Self::Place(_) | Self::In(_), _) => Ok(None),
        }
    }
}

impl std::fmt::Display for Position {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Nothing => f.write_str("nothing"),
            Self::Place(place) => write!(f, "place-{place}"),
            Self::In(Print { inode, born_nanos, head, offset }) => {
                write!(f, "in-{inode}-{born_nanos}-{head:x}-{offset}")
            }
        }
    }
}

/// Nobody but an agent has said this.
#[derive(Debug, thiserror::Error)]
#[error("{0:?} is no position in a log; hand back the one that came with the output")]
pub(super) struct NoPosition(String);

impl FromStr for Position {
    type Err = NoPosition;

    fn from_str(text: &str) -> Result<Self, NoPosition> {
        read(text).ok_or_else(|| NoPosition(text.to_owned()))
    }
}

fn read(text: &str) -> Option<Position> {
    let words: Vec<&str> = text.split('-').collect();
    match words.as_slice() {
        ["nothing"] => Some(Position::Nothing),
        ["place", place] => place.parse().ok().map(Position::Place),
        ["in", inode, born_nanos, head, offset] => Some(Position::In(Print {
            inode: inode.parse().ok()?,
            born_nanos: born_nanos.parse().ok()?,
            head: u64::from_str_radix(head, 16).ok()?,
            offset: offset.parse().ok()?,
        })),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn what_is_said_is_understood() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file");
        fs::write(&path, "some text").unwrap();
        let print = Print::of(&File::open(&path).unwrap(), 5).unwrap();
        for position in [Position::Nothing, Position::Place(u64::MAX), Position::In(print)] {
            assert_eq!(position.to_string().parse::<Position>().unwrap(), position);
        }
        for wrong in ["", "place", "place-", "place--1", "in-1-2-3", "elsewhere", "nothing-1"] {
            let said = wrong.parse::<Position>().unwrap_err().to_string();
            assert!(said.contains("no position"), "{said}");
        }
    }

    #[test]
    fn a_file_is_known_again_when_it_has_grown_and_not_when_it_is_another() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file");
        let at = |text: &str, position: Position| {
            fs::write(&path, text).unwrap();
            position.within(&File::open(&path).unwrap(), None).unwrap()
        };
        fs::write(&path, "some text").unwrap();
        let position = Position::In(Print::of(&File::open(&path).unwrap(), 5).unwrap());
        assert_eq!(at("some text, and more", position), Some(5));
        assert_eq!(at("some", position), None, "it is shorter");
        assert_eq!(at("other text", position), None, "it begins otherwise");
    }
}
