//! When the pieces of a log were written.
use super::reader::Piece;
use super::times::{Decoder, Record};
use crate::model::UnixMillis;
use orrery_proto::fleet::v1::LogTime;
use std::fs::File;
use std::io::{self, Read};
use std::ops::Range;
use std::path::PathBuf;
use std::time::{SystemTime, UNIX_EPOCH};

const NANOS_PER_MILLI: i64 = 1_000_000;
const NANOS_PER_SECOND: i64 = 1_000_000_000;

/// From this byte of a piece on, this was the time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Mark {
    pub at: usize,
    /// Since 1970.
    pub nanos: i64,
}

impl Mark {
    pub(super) fn new(at: usize, time: UnixMillis) -> Self {
        let millis = i64::try_from(time.0).unwrap_or(i64::MAX);
        Self { at, nanos: millis.saturating_mul(NANOS_PER_MILLI) }
    }

    pub(super) fn on_the_wire(self) -> LogTime {
        let seconds = self.nanos.div_euclid(NANOS_PER_SECOND);
        let nanos = i32::try_from(self.nanos.rem_euclid(NANOS_PER_SECOND)).unwrap_or_default();
        let offset = u32::try_from(self.at).unwrap_or(u32::MAX);
        LogTime { offset, time: Some(prost_types::Timestamp { seconds, nanos }) }
    }
}

/// The times of one text, as far as they are known.
#[derive(Debug, Default)]
pub(super) struct Times {
    /// Where they are written; nothing of a text that has none.
    path: Option<PathBuf>,
    file: Option<File>,
    decoder: Decoder,
    /// The first is about what was read last.
    records: Vec<Record>,
}

impl Times {
    pub(super) fn of(path: PathBuf) -> Self {
        Self { path: Some(path), ..Self::default() }
    }

    /// The times of these bytes, which come after those that were asked for before. Bytes of which no
    /// time is known were there when the next ones came, and otherwise when the file was written to last.
    pub(super) fn marks(&mut self, bytes: Range<u64>, last: UnixMillis) -> io::Result<Vec<Mark>> {
        self.read()?;
        let past = self.records.partition_point(|record| record.offset <= bytes.start);
        self.records.drain(..past.saturating_sub(1));
        let first = self.records.first().map_or(last, |record| record.time);
        let later = self.records.iter();
        let later = later.filter(|record| bytes.start < record.offset && record.offset < bytes.end);
        let later = later.map(|record| {
            Mark::new(usize::try_from(record.offset - bytes.start).unwrap_or_default(), record.time)
        });
        Ok([Mark::new(0, first)].into_iter().chain(later).collect())
    }

    /// Takes in what was written since the last look.
    fn read(&mut self) -> io::Result<()> {
        if let (None, Some(path)) = (&self.file, &self.path) {
            match File::open(path) {
                Ok(file) => self.file = Some(file),
                Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
                Err(error) => return Err(error),
            }
        }
        let mut bytes = Vec::new();
        if let Some(file) = &mut self.file {
            file.read_to_end(&mut bytes)?;
        }
        self.decoder.decode(&bytes, &mut self.records);
        Ok(())
    }
}

pub(super) fn millis(time: SystemTime) -> UnixMillis {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    UnixMillis(u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
}

/// Lets lines through from the first one on that was written at some time or later.
#[derive(Debug)]
pub(super) struct Since {
    /// Nothing once it was found.
    from_nanos: Option<i64>,
    at_line_start: bool,
    gap: bool,
}

impl Since {
    pub(super) fn new(from_nanos: Option<i64>) -> Self {
        Self { from_nanos, at_line_start: true, gap: false }
    }

    /// What of a piece is let through.
    pub(super) fn pass(&mut self, mut piece: Piece) -> Piece {
        let Some(from) = self.from_nanos else { return piece };
        let begin = self.begin(&piece, from);
        piece.gap |= std::mem::take(&mut self.gap);
        let Some(begin) = begin else {
            self.at_line_start = piece.data.last().map_or(self.at_line_start, |b| *b == b'\n');
            self.gap = piece.gap;
            return Piece::default();
        };
        self.from_nanos = None;
        piece.data.drain(..begin);
        let here = piece.marks.partition_point(|mark| mark.at <= begin);
        piece.marks.drain(..here.saturating_sub(1));
        for mark in &mut piece.marks {
            mark.at = mark.at.saturating_sub(begin);
        }
        piece
    }

    /// Where the first line begins that was written late enough.
    fn begin(&self, piece: &Piece, from: i64) -> Option<usize> {
        let ends = piece.marks.iter().skip(1).map(|mark| mark.at).chain([piece.data.len()]);
        piece.marks.iter().zip(ends).find_map(|(mark, end)| {
            if mark.nanos < from {
                return None;
            }
            let starts = match mark.at.checked_sub(1) {
                None => self.at_line_start,
                Some(before) => piece.data.get(before) == Some(&b'\n'),
            };
            if starts && mark.at < end {
                return Some(mark.at);
            }
            let of_mark = piece.data.get(mark.at..end)?;
            let next = mark.at + of_mark.iter().position(|byte| *byte == b'\n')? + 1;
            (next < end).then_some(next)
        })
    }
}

#[cfg(test)]
mod tests;
