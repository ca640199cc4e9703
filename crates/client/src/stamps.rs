//! The times before lines of output, as people and programs read them.
use jiff::Timestamp;
use orrery_proto::fleet::v1::{LogTime, LogsResponse};

/// Puts its time before each line of the output of one copy.
#[derive(Debug)]
pub struct Stamps {
    at_line_start: bool,
}

impl Default for Stamps {
    fn default() -> Self {
        Self { at_line_start: true }
    }
}

impl Stamps {
    /// The data of a piece, each line after its time and a space. What follows a gap is taken for a line
    /// of its own, and what has no time stays without.
    pub fn stamp(&mut self, piece: &LogsResponse) -> Vec<u8> {
        let data = piece.data.as_slice();
        self.at_line_start |= piece.gap;
        let mut out = Vec::with_capacity(data.len());
        let begins = piece.times.iter().map(offset).map(|offset| offset.min(data.len()));
        let ends = begins.clone().skip(1).chain([data.len()]);
        let untimed = begins.clone().next().unwrap_or(data.len());
        self.lines(&data[..untimed], "", &mut out);
        for ((time, begin), end) in piece.times.iter().zip(begins).zip(ends) {
            let stamp = text(time).map(|text| text + " ").unwrap_or_default();
            self.lines(data.get(begin..end).unwrap_or_default(), &stamp, &mut out);
        }
        out
    }

    fn lines(&mut self, data: &[u8], stamp: &str, out: &mut Vec<u8>) {
        for line in data.split_inclusive(|byte| *byte == b'\n') {
            if self.at_line_start {
                out.extend_from_slice(stamp.as_bytes());
            }
            out.extend_from_slice(line);
            self.at_line_start = line.ends_with(b"\n");
        }
    }
}

fn offset(time: &LogTime) -> usize {
    usize::try_from(time.offset).unwrap_or(usize::MAX)
}

/// RFC 3339 in UTC, always with nanoseconds, so that all are of one length.
fn text(time: &LogTime) -> Option<String> {
    let time = time.time.as_ref()?;
    let time = Timestamp::new(time.seconds, time.nanos).ok()?;
    Some(format!("{time:.9}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn piece(text: &str, times: &[(u32, &str)]) -> LogsResponse {
        let time = |(offset, text): &(u32, &str)| {
            let time: Timestamp = text.parse().unwrap();
            let (seconds, nanos) = (time.as_second(), time.subsec_nanosecond());
            let mut time = LogTime { offset: *offset, ..LogTime::default() };
            let at = time.time.get_or_insert_default();
            (at.seconds, at.nanos) = (seconds, nanos);
            time
        };
        let times = times.iter().map(time).collect();
        LogsResponse { data: text.into(), times, ..LogsResponse::default() }
    }

    #[track_caller]
    fn check(pieces: &[LogsResponse], expect: &str) {
        let mut stamps = Stamps::default();
        let out: Vec<u8> = pieces.iter().flat_map(|piece| stamps.stamp(piece)).collect();
        assert_eq!(String::from_utf8(out).unwrap(), expect);
    }

    const ONE: &str = "2026-11-19T12:00:01.5Z";
    const TWO: &str = "2026-11-19T12:00:02Z";

    #[test]
    fn each_line_is_stamped_once() {
        let first = "2026-11-19T12:00:01.500000000Z";
        let second = "2026-11-19T12:00:02.000000000Z";
        let pieces = [piece("a\nb", &[(0, ONE)]), piece("b\nc\n", &[(0, TWO)])];
        check(&pieces, &format!("{first} a\n{first} bb\n{second} c\n"));
        check(
            &[piece("a\n\nb\n", &[(0, ONE), (2, TWO)])],
            &format!("{first} a\n{second} \n{second} b\n"),
        );
        // A time that begins within a line counts for the next.
        check(&[piece("aa\nb\n", &[(0, ONE), (1, TWO)])], &format!("{first} aa\n{second} b\n"));
        let gap = LogsResponse { gap: true, ..piece("c\n", &[(0, TWO)]) };
        check(&[piece("a", &[(0, ONE)]), gap], &format!("{first} a{second} c\n"));
        check(&[piece("", &[]), piece("a\n", &[])], "a\n");
        // Whoever says nonsense gets text.
        check(&[piece("a\n", &[(9, ONE), (3, TWO)])], "a\n");
    }
}
