//! The output of a program, kept within bounds, with the time of each line.
//!
//! The files are those of [`folder`]: the one being written and the one before. When the first is full a
//! new one is begun, so between one and two times the limit is kept, and always the newest.
use crate::logs::folder;
use crate::logs::times::{Encoder, Record};
use crate::model::UnixMillis;
use std::{
    fs::{self, File, OpenOptions},
    io::{self, Write},
    os::unix::fs::{MetadataExt, OpenOptionsExt},
    path::{Path, PathBuf},
    time::UNIX_EPOCH,
};

pub use crate::logs::folder::LOG_FOLDER;

/// A text that reaches this is put aside. A thousand instances then take two gigabytes at most, and
/// a megabyte of text is more than people scroll through.
pub const LOG_FILE_MAX_BYTES: u64 = 1 << 20;

/// The text is put aside as well when its times reach this: a line needs three or four bytes for its
/// time, so only lines of a dozen bytes, each at a time of its own, come to that.
const TIMES_MAX_BYTES: u64 = LOG_FILE_MAX_BYTES / 4;

/// What one text and its times may have.
#[derive(Clone, Copy)]
pub(crate) struct Limits {
    pub text: u64,
    pub times: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self { text: LOG_FILE_MAX_BYTES, times: TIMES_MAX_BYTES }
    }
}

/// Writes to the log of one instance. Runs of an instance follow each other in the same log.
pub(crate) struct Log {
    folder: PathBuf,
    limits: Limits,
    /// The place of the first byte of the text.
    base: u64,
    text: File,
    len: u64,
    /// Nothing where there is no room for them: a text is worth keeping without.
    times: Option<File>,
    times_len: u64,
    encoder: Encoder,
    at_line_start: bool,
}

impl Log {
    pub(crate) fn open(folder: &Path, limits: Limits, now: UnixMillis) -> io::Result<Self> {
        take_over(folder, now)?;
        let newest = folder::bases(folder)?.last().copied();
        Self::open_at(folder, limits, newest.unwrap_or(folder::beginning(now)))
    }

    fn open_at(folder: &Path, limits: Limits, base: u64) -> io::Result<Self> {
        let text = open(&folder::text(folder, base))?;
        let times = open(&folder::times(folder, base)).ok();
        let len = text.metadata()?.len();
        let times_len = times.as_ref().and_then(|times| times.metadata().ok());
        Ok(Self {
            folder: folder.to_owned(),
            limits,
            base,
            text,
            len,
            times,
            times_len: times_len.map_or(0, |found| found.len()),
            encoder: Encoder::default(),
            at_line_start: true,
        })
    }

    pub(crate) fn write(&mut self, mut bytes: &[u8], now: UnixMillis) -> io::Result<()> {
        self.look(now);
        while !bytes.is_empty() {
            if self.is_full() {
                self.rotate()?;
            }
            let room = self.limits.text.saturating_sub(self.len);
            let room = usize::try_from(room).unwrap_or(usize::MAX);
            let (part, later) = bytes.split_at(room.min(bytes.len()));
            self.note(part, now);
            self.text.write_all(part)?;
            self.len += part.len() as u64;
            self.at_line_start = part.ends_with(b"\n");
            bytes = later;
        }
        Ok(())
    }

    fn is_full(&self) -> bool {
        self.limits.text <= self.len || self.limits.times <= self.times_len
    }

    /// Notes the time before the text, so that no line is ever there without it; and only where a line
    /// begins, because nothing else has a time.
    fn note(&mut self, part: &[u8], now: UnixMillis) {
        let Some(times) = &mut self.times else { return };
        let before_last = part.len().saturating_sub(1);
        let begins = self.encoder.is_new()
            || !self.encoder.says(now)
                && (self.at_line_start || part[..before_last].contains(&b'\n'));
        if !begins {
            return;
        }
        let bytes = self.encoder.encode(Record { offset: self.len, time: now });
        match times.write_all(&bytes) {
            Ok(()) => self.times_len += bytes.len() as u64,
            // A part of it may be there. The next one stands alone.
            Err(_) => self.encoder = Encoder::default(),
        }
    }

    /// A log that somebody has deleted is begun anew where it belongs, as soon as its folder is there.
    fn look(&mut self, now: UnixMillis) {
        let Ok(found) = self.text.metadata() else { return };
        // Less than was written where there was no room for all of it.
        self.len = found.len();
        if found.nlink() == 0
            && let Ok(again) = Self::open(&self.folder, self.limits, now)
        {
            *self = again;
        }
    }

    fn rotate(&mut self) -> io::Result<()> {
        *self = Self::open_at(&self.folder, self.limits, self.base + self.len)?;
        folder::prune(&self.folder)
    }
}

/// Gives the files of an earlier version the names that they would have now. Their lines get the time
/// at which the file was written to last.
fn take_over(folder: &Path, now: UnixMillis) -> io::Result<()> {
    for earlier in folder::EARLIER {
        let path = folder.join(earlier);
        let found = match fs::metadata(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            found => found?,
        };
        let base = match folder::bases(folder)?.last() {
            // One that has nothing in it makes room.
            Some(newest) => newest + fs::metadata(folder::text(folder, *newest))?.len(),
            None => folder::beginning(now),
        };
        let since = found.modified()?.duration_since(UNIX_EPOCH).unwrap_or_default();
        let time = UnixMillis(u64::try_from(since.as_millis()).unwrap_or(u64::MAX));
        let times = Encoder::default().encode(Record { offset: 0, time });
        open(&folder::times(folder, base))?.write_all(&times)?;
        fs::rename(&path, folder::text(folder, base))?;
    }
    folder::prune(folder)
}

fn open(path: &Path) -> io::Result<File> {
    OpenOptions::new().append(true).create(true).mode(0o600).open(path)
}

#[cfg(test)]
mod tests;
