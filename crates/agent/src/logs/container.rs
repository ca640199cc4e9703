//! The log of a container, as podman's conmon writes it: a time, a stream and a mark before each
//! piece of a line.
//!
//! ```text
//!   2026-11-15T12:44:01.195185853+00:00 stdout F a whole line, or its end
//!   2026-11-15T12:44:01.195185853+00:00 stderr P a part of a line
//! ```

/// Takes the marks away. Keeps what is not yet a whole line of the file.
#[derive(Debug, Default)]
pub(super) struct Decoder {
    rest: Vec<u8>,
}

impl Decoder {
    /// What the container wrote, as far as these bytes tell.
    pub(super) fn decode(&mut self, bytes: &[u8]) -> Vec<u8> {
        self.rest.extend_from_slice(bytes);
        let whole = self.rest.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
        let lines: Vec<u8> = self.rest.drain(..whole).collect();
        lines.split_inclusive(|byte| *byte == b'\n').flat_map(text).copied().collect()
    }
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

    #[test]
    fn marks_are_taken_away() {
        let text = Decoder::default().decode(FILE.as_bytes());
        assert_eq!(String::from_utf8(text).unwrap(), "one\ntwo and a half\n\nno marks\n");
    }

    proptest! {
        #[test]
        fn it_does_not_matter_how_the_file_is_cut(cuts in proptest::collection::vec(0..FILE.len(), 0..6)) {
            let mut cuts = cuts;
            cuts.extend([0, FILE.len()]);
            cuts.sort_unstable();
            let mut decoder = Decoder::default();
            let pieces = cuts.windows(2).map(|cut| decoder.decode(&FILE.as_bytes()[cut[0]..cut[1]]));
            let text: Vec<u8> = pieces.collect::<Vec<_>>().concat();
            prop_assert_eq!(text, Decoder::default().decode(FILE.as_bytes()));
        }
    }
}
