//! Reading the log of an instance, across its files.
//!
//! ```text
//!   previous  |--------------------|          the file before, whole
//!   current                        |------->  grows; becomes previous when it is full
//! ```
//! The file that is being read stays open when it is renamed or replaced, so it is always read to
//! its end. Only when more than one file was filled meanwhile is something missed, and that is said.
use crate::supervisor::{LOG_CURRENT, LOG_PREVIOUS};
use std::{
    fs::File,
    io::{self, Read, Seek, SeekFrom},
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
};

/// Where a reader stands.
#[derive(Debug)]
pub(super) struct Reader {
    current: PathBuf,
    previous: PathBuf,
    /// The file that is read, and its inode. Nothing as long as nothing was ever written.
    at: Option<(File, u64)>,
}

/// What a look at the log brought.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Piece {
    pub data: Vec<u8>,
    /// Something before it was overwritten unread.
    pub gap: bool,
}

impl Reader {
    /// Begins so many lines before the end, or with everything that is kept.
    pub(super) fn open(folder: &Path, tail_lines: Option<u64>) -> io::Result<Self> {
        Self::open_files(folder.join(LOG_CURRENT), folder.join(LOG_PREVIOUS), tail_lines)
    }

    /// The same for a log of one file, which is replaced when it is full.
    pub(super) fn open_one(folder: &Path, name: &str, tail_lines: Option<u64>) -> io::Result<Self> {
        let previous = folder.join(name).with_added_extension("previous");
        Self::open_files(folder.join(name), previous, tail_lines)
    }

    fn open_files(
        current: PathBuf,
        previous: PathBuf,
        tail_lines: Option<u64>,
    ) -> io::Result<Self> {
        let mut reader = Self { current, previous, at: None };
        let (previous, current) = reader.both()?;
        let mut skip = match tail_lines {
            Some(lines) => tail_start(&contents(&previous)?, &contents(&current)?, lines),
            None => 0,
        };
        for (mut file, inode) in previous.into_iter().chain(current) {
            let len = file.metadata()?.len();
            file.seek(SeekFrom::Start(skip.min(len)))?;
            let here = skip < len;
            skip = skip.saturating_sub(len);
            reader.at = Some((file, inode));
            if here {
                break;
            }
        }
        Ok(reader)
    }

    /// The next bytes, at most so many; none at the end of what there is now.
    pub(super) fn next(&mut self, max: usize) -> io::Result<Piece> {
        let mut gap = false;
        loop {
            let data = self.read(max)?;
            if !data.is_empty() {
                return Ok(Piece { data, gap });
            }
            let Some((next, missed)) = self.following()? else { return Ok(Piece::default()) };
            // What was written between the last read and the renaming.
            let rest = self.read(max)?;
            if !rest.is_empty() {
                return Ok(Piece { data: rest, gap });
            }
            gap |= missed;
            self.at = Some(next);
        }
    }

    fn read(&mut self, max: usize) -> io::Result<Vec<u8>> {
        let mut data = Vec::new();
        if let Some((file, _)) = &mut self.at {
            file.take(u64::try_from(max).unwrap_or(u64::MAX)).read_to_end(&mut data)?;
        }
        Ok(data)
    }

    /// The file after the one that is read, if there is one, and whether files between were missed.
    fn following(&self) -> io::Result<Option<((File, u64), bool)>> {
        let (previous, current) = self.both()?;
        let Some((_, at)) = &self.at else {
            return Ok(previous.or(current).map(|file| (file, false)));
        };
        if current.as_ref().is_none_or(|(_, inode)| inode == at) {
            return Ok(None);
        }
        match previous {
            Some((_, inode)) if inode == *at => Ok(current.map(|file| (file, false))),
            Some(previous) => Ok(Some((previous, true))),
            None => Ok(current.map(|file| (file, true))),
        }
    }

    /// Both files as they were at one moment: the current one is still current after the other was
    /// opened.
    fn both(&self) -> io::Result<(Opened, Opened)> {
        loop {
            let current = open(&self.current)?;
            let previous = open(&self.previous)?;
            let inode = |opened: &Opened| opened.as_ref().map(|(_, inode)| *inode);
            let still = open(&self.current)?;
            if inode(&still) == inode(&current) {
                return Ok((previous, current));
            }
        }
    }
}

type Opened = Option<(File, u64)>;

fn open(path: &Path) -> io::Result<Opened> {
    match File::open(path) {
        Ok(file) => {
            let inode = file.metadata()?.ino();
            Ok(Some((file, inode)))
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// All of a file, without moving its reader: it is at its beginning, and goes back there.
fn contents(opened: &Opened) -> io::Result<Vec<u8>> {
    let mut data = Vec::new();
    if let Some((file, _)) = opened {
        let mut file: &File = file;
        file.read_to_end(&mut data)?;
        file.seek(SeekFrom::Start(0))?;
    }
    Ok(data)
}

/// Where the last lines begin, counted over both files. A last line without an end counts.
fn tail_start(previous: &[u8], current: &[u8], lines: u64) -> u64 {
    let total = previous.len() + current.len();
    let byte = |at: usize| previous.get(at).or_else(|| current.get(at - previous.len()));
    let ended = total.checked_sub(1).and_then(byte) == Some(&b'\n');
    // Looking back from the end, the start follows the line break before the wanted lines.
    let mut breaks = lines + u64::from(ended);
    if lines == 0 {
        return total as u64;
    }
    for at in (0..total).rev() {
        if byte(at) == Some(&b'\n') {
            breaks -= 1;
            if breaks == 0 {
                return at as u64 + 1;
            }
        }
    }
    0
}

#[cfg(test)]
mod tests;
