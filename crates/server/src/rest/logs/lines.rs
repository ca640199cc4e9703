//! Pieces of output as text.
use axum::body::Bytes;
use orrery_client::stamps::Stamps;
use orrery_proto::fleet::v1::LogsResponse;
use std::borrow::Cow;
use std::collections::BTreeMap;

/// A line of one of several copies that is longer than this is broken, so that nobody is waited for without bound.
const LINE_BYTES_MAX: usize = 64 << 10;

/// The output of one copy goes out as it comes; of several, in whole lines that say whose they are.
#[derive(Debug, Default)]
pub struct Lines {
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

    /// What a piece adds.
    pub fn write(&mut self, piece: &LogsResponse) -> Bytes {
        let mut out = Vec::new();
        if piece.gap {
            if let Some(rest) = self.unfinished.remove(&piece.instance).filter(|r| !r.is_empty()) {
                line(&mut out, &piece.instance, &rest);
            }
            self.say(&mut out, &note(&piece.instance, "some output is lost: it came too fast"));
        }
        let data = match &mut self.stamps {
            Some(stamps) => {
                let stamps = stamps.entry(piece.instance.clone()).or_default();
                Cow::Owned(stamps.stamp(piece))
            }
            None => Cow::Borrowed(piece.data.as_slice()),
        };
        if piece.copies <= 1 {
            out.extend_from_slice(&data);
        } else {
            self.whole_lines(&piece.instance, &data, &mut out);
        }
        if let Some(last) = out.last() {
            self.open = *last != b'\n';
        }
        if !piece.problem.is_empty() {
            self.say(&mut out, &note(&piece.instance, &piece.problem));
        }
        out.into()
    }

    fn whole_lines(&mut self, instance: &str, data: &[u8], out: &mut Vec<u8>) {
        let rest = self.unfinished.entry(instance.to_owned()).or_default();
        let mut begin = 0;
        rest.extend_from_slice(data);
        loop {
            let end = rest[begin..].iter().position(|byte| *byte == b'\n');
            let end = match end {
                Some(end) if end <= LINE_BYTES_MAX => begin + end,
                None if rest.len() - begin <= LINE_BYTES_MAX => break,
                Some(_) | None => begin + LINE_BYTES_MAX,
            };
            line(out, instance, &rest[begin..end]);
            begin = if rest.get(end) == Some(&b'\n') { end + 1 } else { end };
        }
        rest.drain(..begin);
    }

    /// Lines without an end, when no more is to come.
    pub fn finish(&mut self) -> Bytes {
        let mut out = Vec::new();
        for (instance, rest) in std::mem::take(&mut self.unfinished) {
            if !rest.is_empty() {
                line(&mut out, &instance, &rest);
            }
        }
        out.into()
    }

    /// The same when it is cut off, and why.
    pub fn over(&mut self, why: &str) -> Bytes {
        let mut out = self.finish().to_vec();
        self.say(&mut out, &note("", why));
        out.into()
    }

    /// Says something on a line of its own.
    fn say(&mut self, out: &mut Vec<u8>, words: &[u8]) {
        if std::mem::take(&mut self.open) {
            out.push(b'\n');
        }
        out.extend_from_slice(words);
    }
}

fn line(out: &mut Vec<u8>, instance: &str, text: &[u8]) {
    out.extend_from_slice(instance.as_bytes());
    out.extend_from_slice(b": ");
    out.extend_from_slice(text);
    out.push(b'\n');
}

/// A line of the server's own, about a copy or about all.
pub fn note(instance: &str, words: &str) -> Bytes {
    let about = if instance.is_empty() { String::new() } else { format!("{instance}: ") };
    Bytes::from(format!("[orrery] {about}{words}\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn piece(copies: u32, instance: &str, data: &str) -> LogsResponse {
        LogsResponse {
            instance: instance.into(),
            data: data.into(),
            copies,
            ..LogsResponse::default()
        }
    }

    #[track_caller]
    fn check(pieces: &[LogsResponse], expect: &str) {
        let mut lines = Lines::default();
        let mut out: Vec<u8> = pieces.iter().flat_map(|piece| lines.write(piece)).collect();
        out.extend_from_slice(&lines.finish());
        assert_eq!(String::from_utf8_lossy(&out), expect);
    }

    #[test]
    fn lines_of_several_copies_are_whole_and_marked() {
        check(&[piece(1, "a", "one\ntw"), piece(1, "a", "o")], "one\ntwo");
        let several = [("a", "one\ntw"), ("b", "x\n\n"), ("a", "o\n"), ("b", "y")]
            .map(|(i, d)| piece(2, i, d));
        check(&several, "a: one\nb: x\nb: \na: two\nb: y\n");
    }

    #[test]
    fn what_the_server_says_stands_on_lines_of_its_own() {
        let gap = LogsResponse { gap: true, ..piece(1, "a", "more") };
        let end = LogsResponse { problem: "gone".into(), ..piece(1, "a", "") };
        check(
            &[piece(1, "a", "one\ntw"), gap, end],
            "one\ntw\n[orrery] a: some output is lost: it came too fast\nmore\n[orrery] a: gone\n",
        );
        let mut lines = Lines::default();
        lines.write(&piece(2, "a", "half"));
        assert_eq!(lines.over("no more"), "a: half\n[orrery] no more\n");
    }

    #[test]
    fn a_gap_ends_the_line_before_it() {
        let gap = LogsResponse { gap: true, ..piece(2, "a", "more\n") };
        let lost = "[orrery] a: some output is lost: it came too fast\n";
        check(&[piece(2, "a", "tw"), gap], &format!("a: tw\n{lost}a: more\n"));
    }

    #[test]
    fn times_stand_behind_the_name_of_the_copy() {
        let mut piece = piece(2, "a", "one\ntwo\n");
        let mut time = orrery_proto::fleet::v1::LogTime::default();
        time.time.get_or_insert_default().seconds = 7;
        piece.times.push(time);
        let stamp = "1970-01-01T00:00:07.000000000Z";
        let expect = format!("a: {stamp} one\na: {stamp} two\n");
        assert_eq!(Lines::new(true).write(&piece), expect);
        piece.copies = 1;
        assert_eq!(Lines::new(true).write(&piece), format!("{stamp} one\n{stamp} two\n"));
    }

    #[test]
    fn a_line_without_an_end_is_not_waited_for() {
        let long = "x".repeat(LINE_BYTES_MAX + 1);
        let first = &long[..LINE_BYTES_MAX];
        check(&[piece(2, "a", &long), piece(2, "a", "y\n")], &format!("a: {first}\na: xy\n"));
        check(&[piece(2, "a", first), piece(2, "a", "\n")], &format!("a: {first}\n"));
    }
}
