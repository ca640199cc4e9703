//! The log of a container, as podman's conmon writes it: a time, a stream and a mark before each
//! piece of a line.
//!
//! ```text
//!   2026-11-15T12:44:01.195185853+00:00 stdout F a whole line, or its end
//!   2026-11-15T12:44:01.195185853+00:00 stderr P a part of a line
//! ```
use super::reader::Piece;
use super::timed::Mark;
use jiff::Timestamp;

/// Takes the marks away, and keeps the times. Keeps what is not yet a whole line of the file.
#[derive(Debug, Default)]
pub(super) struct Decoder {
    rest: Vec<u8>,
    /// Something before it was missed.
    gap: bool,
    /// What was handed out last did not end a line.
    within_line: bool,
    last_nanos: Option<i64>,
}

impl Decoder {
    /// What the container wrote, as far as these bytes of the file tell.
    pub(super) fn decode(&mut self, raw: Piece) -> Piece {
        // A time of the file, for lines that have none.
        let of_file = raw.marks.first().map_or(0, |mark| mark.nanos);
        self.gap |= raw.gap;
        self.rest.extend_from_slice(&raw.data);
        let whole = self.rest.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
        let lines: Vec<u8> = self.rest.drain(..whole).collect();
        let mut piece = Piece::default();
        for line in lines.split_inclusive(|byte| *byte == b'\n') {
            if !self.within_line || piece.marks.is_empty() {
                self.mark(&mut piece, line, of_file);
            }
            let text = text(line);
            piece.data.extend_from_slice(text);
            self.within_line = text.last().map_or(self.within_line, |byte| *byte != b'\n');
        }
        if !piece.data.is_empty() {
            piece.gap = std::mem::take(&mut self.gap);
        }
        piece
    }

    /// Bytes of the file that wait for the rest of their line.
    pub(super) fn waiting(&self) -> u64 {
        self.rest.len() as u64
    }

    fn mark(&mut self, piece: &mut Piece, line: &[u8], of_file: i64) {
        let nanos = time(line).or(self.last_nanos).unwrap_or(of_file);
        self.last_nanos = Some(nanos);
        if piece.marks.last().is_none_or(|last| last.nanos != nanos) {
            piece.marks.push(Mark { at: piece.data.len(), nanos });
        }
    }
}

/// When a line of the file was written, if it says so.
fn time(line: &[u8]) -> Option<i64> {
    let time = line.split(|byte| *byte == b' ').next()?;
    let time: Timestamp = std::str::from_utf8(time).ok()?.parse().ok()?;
    i64::try_from(time.as_nanosecond()).ok()
}

/// The text of one line of the file; a line that has no marks is taken as it is.
fn text(line: &[u8]) -> &[u8] {
    let mut parts = line.splitn(4, |byte| *byte == b' ');
    let (_time, stream, mark, text) = (parts.next(), parts.next(), parts.next(), parts.next());
    match (stream, mark, text) {
        (Some(b"stdout" | b"stderr"), Some(b"F"), Some(text)) => text,
        (Some(b"stdout" | b"stderr"), Some(b"P"), Some(text)) => {
            text.strip_suffix(b"\n").unwrap_or(text)
        }
        (_, _, _) => line,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const FILE: &str = "2026-11-15T12:44:01.1+00:00 stdout F one\n\
                        2026-11-15T12:44:01.2+00:00 stderr P two \n\
                        2026-11-15T12:44:01.3+00:00 stderr F and a half\n\
                        2026-11-15T12:44:01.3+00:00 stdout F \n\
                        no marks\n";

    fn decoded(decoder: &mut Decoder, bytes: &[u8]) -> Piece {
        let marks = vec![Mark { at: 0, nanos: 7 }];
        decoder.decode(Piece { data: bytes.to_vec(), gap: false, marks })
    }

    /// Each line with its time, as hundreds of milliseconds of that second.
    fn lines(pieces: &[Piece]) -> Vec<(i64, String)> {
        let second = "2026-11-15T12:44:01Z".parse::<Timestamp>().unwrap();
        let second = i64::try_from(second.as_nanosecond()).unwrap();
        let mut lines: Vec<(i64, String)> = Vec::new();
        for piece in pieces {
            let text = std::str::from_utf8(&piece.data).unwrap();
            let mut at = 0;
            for part in text.split_inclusive('\n') {
                let mark = piece.marks.iter().rfind(|mark| mark.at <= at).unwrap();
                let tenths = (mark.nanos - second) / 100_000_000;
                match lines.last_mut() {
                    Some((_, last)) if !last.ends_with('\n') => last.push_str(part),
                    Some(_) | None => lines.push((tenths, part.to_owned())),
                }
                at += part.len();
            }
        }
        lines
    }

    #[test]
    fn marks_are_taken_away_and_times_are_kept() {
        let piece = decoded(&mut Decoder::default(), FILE.as_bytes());
        let expect = [(1, "one\n"), (2, "two and a half\n"), (3, "\n"), (3, "no marks\n")];
        assert_eq!(lines(&[piece]), expect.map(|(tenths, text)| (tenths, text.to_owned())));
        let piece = decoded(&mut Decoder::default(), b"no marks at all\n");
        assert_eq!(
            piece.marks,
            [Mark { at: 0, nanos: 7 }],
            "it was there when the file was written"
        );
        let zone = decoded(&mut Decoder::default(), b"2026-11-15T14:44:01.5+02:00 stdout F x\n");
        assert_eq!(lines(&[zone]), [(5, "x\n".to_owned())]);
    }

    #[test]
    fn a_line_that_is_not_whole_is_not_handed_out() {
        let mut decoder = Decoder::default();
        let first = decoded(&mut decoder, b"2026-11-15T12:44:01.1+00:00 stdout F one\n2026-");
        assert_eq!((first.data.as_slice(), decoder.waiting()), (&b"one\n"[..], 5));
    }

    proptest! {
        #[test]
        fn it_does_not_matter_how_the_file_is_cut(cuts in proptest::collection::vec(0..FILE.len(), 0..6)) {
            let mut cuts = cuts;
            cuts.extend([0, FILE.len()]);
            cuts.sort_unstable();
            let mut decoder = Decoder::default();
            let pieces = cuts.windows(2).map(|cut| decoded(&mut decoder, &FILE.as_bytes()[cut[0]..cut[1]]));
            let pieces: Vec<Piece> = pieces.collect();
            let whole = decoded(&mut Decoder::default(), FILE.as_bytes());
            prop_assert_eq!(lines(&pieces), lines(&[whole]));
        }
    }
}
