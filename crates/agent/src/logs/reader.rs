//! Reading a log, across its files.
//!
//! ```text
//!   one file  |--------------------|          full
//!   the next                       |------->  grows, until there is one after it
//! ```
//! The file that is being read stays open when it is removed, renamed or replaced, so it is always read to
//! its end. Only when more than one file was filled meanwhile is something missed, and that is said.
use super::folder::{self, EARLIER};
use super::position::{Position, Print};
use super::timed::{Mark, Times, millis};
use std::{
    fs::File,
    io::{self, Read, Seek, SeekFrom},
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
};

/// Which files a log has.
#[derive(Clone, Debug)]
pub(super) enum Files {
    /// Those that a supervisor writes into this folder.
    Folder(PathBuf),
    /// One that is replaced when it is full.
    One(PathBuf),
}

/// Where to begin.
#[derive(Clone, Copy, Debug)]
pub(super) enum Start {
    /// With everything that is kept.
    All,
    /// So many lines before the end.
    Lines(u64),
    After(Position),
}

/// A file that is open.
#[derive(Debug)]
struct Opened {
    file: File,
    inode: u64,
    /// The place of its first byte in the whole log, where its name says that.
    base: Option<u64>,
}

/// Where a reader stands.
#[derive(Debug)]
pub(super) struct Reader {
    files: Files,
    /// The file that is read and how far. Nothing as long as nothing was ever written.
    at: Option<(Opened, u64)>,
    /// When the text of that file was written.
    times: Times,
    /// What was to be read first is not there any more.
    gap: bool,
}

/// What a look at the log brought.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Piece {
    pub data: Vec<u8>,
    /// Something before it was overwritten unread.
    pub gap: bool,
    /// When it was written; the first is about the first byte.
    pub marks: Vec<Mark>,
}

impl Reader {
    pub(super) fn open(files: Files, start: Start) -> io::Result<Self> {
        let mut reader = Self { files, at: None, times: Times::default(), gap: false };
        let all = reader.files.all()?;
        match start {
            Start::All => reader.go(all, 0)?,
            Start::Lines(lines) => {
                let mut text = Vec::new();
                for opened in &all {
                    (&opened.file).read_to_end(&mut text)?;
                }
                reader.go(all, tail_start(&text, lines))?;
            }
            Start::After(position) => reader.go_after(all, position)?,
        }
        Ok(reader)
    }

    /// Goes so many bytes into all of these files.
    fn go(&mut self, all: Vec<Opened>, mut skip: u64) -> io::Result<()> {
        for opened in all {
            let len = opened.file.metadata()?.len();
            let here = skip < len;
            self.stand(opened, skip.min(len))?;
            if here {
                break;
            }
            skip -= len;
        }
        Ok(())
    }

    /// Goes to where a reader stopped, or to the beginning if that is not there any more.
    fn go_after(&mut self, all: Vec<Opened>, position: Position) -> io::Result<()> {
        let (mut found, mut others) = (None, Vec::new());
        for opened in all {
            match position.within(&opened.file, opened.base)? {
                Some(offset) => found = Some((opened, offset)),
                None => others.push(opened),
            }
        }
        match found {
            Some((opened, offset)) => self.stand(opened, offset),
            None => {
                self.gap = position != Position::Nothing;
                self.go(others, 0)
            }
        }
    }

    fn stand(&mut self, mut opened: Opened, offset: u64) -> io::Result<()> {
        opened.file.seek(SeekFrom::Start(offset))?;
        self.times = match (&self.files, opened.base) {
            (Files::Folder(folder), Some(base)) => Times::of(folder::times(folder, base)),
            (Files::Folder(_) | Files::One(_), _) => Times::default(),
        };
        self.at = Some((opened, offset));
        Ok(())
    }

    /// The next bytes, at most so many; none at the end of what there is now.
    pub(super) fn next(&mut self, max: usize) -> io::Result<Piece> {
        loop {
            let piece = self.read(max)?;
            if !piece.data.is_empty() {
                return Ok(piece);
            }
            let Some((next, missed)) = self.following()? else { return Ok(Piece::default()) };
            // What was written between the last read and the beginning of the next file.
            let rest = self.read(max)?;
            if !rest.data.is_empty() {
                return Ok(rest);
            }
            self.gap |= missed;
            self.stand(next, 0)?;
        }
    }

    fn read(&mut self, max: usize) -> io::Result<Piece> {
        let Some((opened, offset)) = &mut self.at else { return Ok(Piece::default()) };
        let mut data = Vec::new();
        (&opened.file).take(u64::try_from(max).unwrap_or(u64::MAX)).read_to_end(&mut data)?;
        if data.is_empty() {
            return Ok(Piece::default());
        }
        let begin = *offset;
        *offset += data.len() as u64;
        // After the text: its times were there before it.
        let last = millis(opened.file.metadata()?.modified()?);
        let marks = self.times.marks(begin..*offset, last)?;
        Ok(Piece { data, gap: std::mem::take(&mut self.gap), marks })
    }

    /// Where the last piece ended, less so many bytes.
    pub(super) fn position(&self, less: u64) -> io::Result<Position> {
        let Some((opened, offset)) = &self.at else { return Ok(Position::Nothing) };
        let offset = offset.saturating_sub(less);
        Ok(match opened.base {
            Some(base) => Position::Place(base + offset),
            None => Position::In(Print::of(&opened.file, offset)?),
        })
    }

    /// The file after the one that is read, if there is one, and whether files between were missed.
    fn following(&mut self) -> io::Result<Option<(Opened, bool)>> {
        let Some((at, offset)) = &mut self.at else {
            return Ok(self.files.all()?.into_iter().next().map(|first| (first, false)));
        };
        if let (Files::Folder(folder), Some(base)) = (&self.files, at.base) {
            let place = base + *offset;
            let next = folder::text(folder, place);
            if *offset != 0
                && let Some(next) = open(&next, Some(place))?
            {
                return Ok(Some((next, false)));
            }
            if at.file.metadata()?.nlink() != 0 {
                return Ok(None);
            }
            let mut later = self.files.all()?.into_iter().filter(|other| Some(place) < other.base);
            return Ok(later.next().map(|next| (next, true)));
        }
        if self.files.is_newest(at.inode)? {
            return Ok(None);
        }
        let mut all = self.files.all()?;
        match all.iter().position(|other| other.inode == at.inode) {
            // It has a name that says its place now: a supervisor of this version has taken it over.
            Some(here) if all[here].base.is_some() => {
                let (renamed, offset) = (all.swap_remove(here), *offset);
                self.stand(renamed, offset)?;
                self.following()
            }
            Some(here) => Ok(all.drain(here + 1..).next().map(|next| (next, false))),
            None => Ok(oldest_after(all).map(|next| (next, true))),
        }
    }
}

/// Those without a place come after those with one, unless the latter have taken them over.
fn oldest_after(all: Vec<Opened>) -> Option<Opened> {
    let (placed, earlier): (Vec<_>, Vec<_>) = all.into_iter().partition(|o| o.base.is_some());
    earlier.into_iter().chain(placed).next()
}

impl Files {
    /// Whether this is still the file that is written to, of those whose names say no place.
    fn is_newest(&self, inode: u64) -> io::Result<bool> {
        let newest = match self {
            Self::Folder(folder) => open(&folder.join(EARLIER[1]), None)?,
            Self::One(path) => open(path, None)?,
        };
        Ok(newest.is_some_and(|newest| newest.inode == inode))
    }

    /// All of them in order, as they were at one moment.
    fn all(&self) -> io::Result<Vec<Opened>> {
        loop {
            let before = self.look()?;
            let inodes = |all: &[Opened]| all.iter().map(|o| (o.base, o.inode)).collect::<Vec<_>>();
            if inodes(&self.look()?) == inodes(&before) {
                return Ok(before);
            }
        }
    }

    fn look(&self) -> io::Result<Vec<Opened>> {
        let folder = match self {
            Self::One(path) => return Ok(open(path, None)?.into_iter().collect()),
            Self::Folder(folder) => folder,
        };
        let placed = folder::bases(folder)?.into_iter();
        let placed = placed.map(|base| open(&folder::text(folder, base), Some(base)));
        let earlier = EARLIER.iter().map(|name| open(&folder.join(name), None));
        placed.chain(earlier).filter_map(Result::transpose).collect()
    }
}

fn open(path: &Path, base: Option<u64>) -> io::Result<Option<Opened>> {
    match File::open(path) {
        Ok(file) => {
            let inode = file.metadata()?.ino();
            Ok(Some(Opened { file, inode, base }))
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Where the last lines begin. A last line without an end counts.
fn tail_start(text: &[u8], lines: u64) -> u64 {
    if lines == 0 {
        return text.len() as u64;
    }
    // Looking back from the end, the start follows the line break before the wanted lines.
    let mut breaks = lines.saturating_add(u64::from(text.ends_with(b"\n")));
    for (at, byte) in text.iter().enumerate().rev() {
        if *byte == b'\n' {
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
