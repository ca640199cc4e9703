//! Pieces of output on a terminal, or on their way into a file.
use orrery_client::stamps::Stamps;
use orrery_proto::fleet::v1::LogsResponse;
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::io::Write;

/// A line of one of several copies that is longer than this is broken, as over REST: it is not kept without bound.
const LINE_BYTES_MAX: usize = 64 << 10;

/// The output of one copy goes out as it comes; of several, in whole lines that say whose they are.
#[derive(Debug, Default)]
pub struct Lines {
    /// There are several copies, or there were.
    several: bool,
    unfinished: BTreeMap<String, Vec<u8>>,
    /// Whether the last line that went out has no end yet.
    open: bool,
    /// By copy, where lines go out with their times.
    stamps: Option<BTreeMap<String, Stamps>>,
}

impl Lines {
    /// Lines with or without their times.
    pub fn new(timestamps: bool) -> Self {
        Self { stamps: timestamps.then(BTreeMap::default), ..Self::default() }
    }

    pub fn write(&mut self, piece: &LogsResponse, out: &mut impl Write) -> std::io::Result<()> {
        let is_first_of_several = !self.several && 1 < piece.copies;
        self.several |= is_first_of_several;
        // What comes next is no part of the line that stands there.
        if is_first_of_several || piece.gap && (self.several || self.stamps.is_some()) {
            self.end_line(&piece.instance, out)?;
        }
        let data = match &mut self.stamps {
            Some(stamps) => {
                let stamps = stamps.entry(piece.instance.clone()).or_default();
                Cow::Owned(stamps.stamp(piece))
            }
            None => Cow::Borrowed(piece.data.as_slice()),
        };
        if !self.several {
            self.open = data.last().map_or(self.open, |last| *last != b'\n');
            out.write_all(&data)?;
            return out.flush();
        }
        let rest = self.unfinished.entry(piece.instance.clone()).or_default();
        rest.extend_from_slice(&data);
        while let Some(end) = rest.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = rest.drain(..=end).collect();
            write!(out, "{}: ", piece.instance)?;
            out.write_all(&line)?;
        }
        if LINE_BYTES_MAX < rest.len() {
            last_line(&piece.instance, &std::mem::take(rest), out)?;
        }
        out.flush()
    }

    fn end_line(&mut self, instance: &str, out: &mut impl Write) -> std::io::Result<()> {
        if std::mem::take(&mut self.open) {
            writeln!(out)?;
        }
        match self.unfinished.remove(instance) {
            Some(rest) => last_line(instance, &rest, out),
            None => Ok(()),
        }
    }

    /// Last lines without an end are output too.
    pub fn finish(self, out: &mut impl Write) -> std::io::Result<()> {
        for (instance, rest) in self.unfinished {
            last_line(&instance, &rest, out)?;
        }
        out.flush()
    }
}

fn last_line(instance: &str, rest: &[u8], out: &mut impl Write) -> std::io::Result<()> {
    if rest.is_empty() {
        return Ok(());
    }
    write!(out, "{instance}: ")?;
    out.write_all(rest)?;
    writeln!(out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use orrery_proto::fleet::v1::LogTime;
    use prost_types::Timestamp;

    fn piece(copies: u32, instance: &str, data: &str) -> LogsResponse {
        LogsResponse {
            instance: instance.into(),
            data: data.into(),
            copies,
            ..LogsResponse::default()
        }
    }

    #[track_caller]
    fn check(mut lines: Lines, pieces: &[LogsResponse], expect: &str) {
        let mut out = Vec::new();
        for piece in pieces {
            lines.write(piece, &mut out).expect("a vector takes everything");
        }
        lines.finish(&mut out).expect("a vector takes everything");
        assert_eq!(String::from_utf8_lossy(&out), expect);
    }

    #[test]
    fn lines_of_several_copies_are_whole_and_marked() {
        check(Lines::default(), &[piece(1, "a", "one\ntw"), piece(1, "a", "o")], "one\ntwo");
        let pieces = [("a", "one\ntw"), ("b", "x\n"), ("a", "o\n"), ("b", "y")];
        let pieces = pieces.map(|(instance, data)| piece(2, instance, data));
        check(Lines::default(), &pieces, "a: one\nb: x\na: two\nb: y\n");
    }

    #[test]
    fn a_copy_that_joins_ends_the_line_that_stands_there() {
        let pieces = [piece(1, "a", "one\ntw"), piece(2, "b", "x\n"), piece(1, "a", "o\n")];
        check(Lines::default(), &pieces, "one\ntw\nb: x\na: o\n");
    }

    #[test]
    fn a_line_without_an_end_is_not_kept_without_bound() {
        let long = "x".repeat(LINE_BYTES_MAX);
        let pieces = [piece(2, "a", &long), piece(2, "a", "y"), piece(2, "a", "z\n")];
        check(Lines::default(), &pieces, &format!("a: {long}y\na: z\n"));
    }

    #[test]
    fn what_follows_a_gap_is_another_line() {
        let gap = |piece: LogsResponse| LogsResponse { gap: true, ..piece };
        let pieces = [piece(2, "a", "on"), gap(piece(2, "a", "ee\n"))];
        check(Lines::default(), &pieces, "a: on\na: ee\n");
        let pieces = [piece(1, "a", "on"), gap(piece(1, "a", "ee\n"))];
        check(Lines::default(), &pieces, "onee\n");
    }

    #[test]
    fn times_stand_before_lines() {
        let time = LogTime { offset: 0, time: Some(Timestamp { seconds: 7, nanos: 1 }) };
        let timed = |piece: LogsResponse| LogsResponse { times: vec![time], ..piece };
        let stamp = "1970-01-01T00:00:07.000000001Z";
        let pieces = [timed(piece(1, "a", "one\ntw")), timed(piece(1, "a", "o\n"))];
        check(Lines::new(true), &pieces, &format!("{stamp} one\n{stamp} two\n"));
        let pieces = [timed(piece(2, "a", "one\ntw")), timed(piece(2, "a", "o\n"))];
        check(Lines::new(true), &pieces, &format!("a: {stamp} one\na: {stamp} two\n"));
        let gap = LogsResponse { gap: true, ..timed(piece(1, "a", "more\n")) };
        let pieces = [timed(piece(1, "a", "tw")), gap];
        check(Lines::new(true), &pieces, &format!("{stamp} tw\n{stamp} more\n"));
    }
}
