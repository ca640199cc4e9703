use super::*;
use std::fs;

struct Log {
    dir: tempfile::TempDir,
}

impl Log {
    fn new() -> Self {
        Self { dir: tempfile::tempdir().unwrap() }
    }

    fn write(&self, text: &str) {
        let path = self.dir.path().join(LOG_CURRENT);
        let mut file = fs::OpenOptions::new().append(true).create(true).open(path).unwrap();
        io::Write::write_all(&mut file, text.as_bytes()).unwrap();
    }

    /// The current file is full.
    fn rotate(&self) {
        let path = |name| self.dir.path().join(name);
        fs::rename(path(LOG_CURRENT), path(LOG_PREVIOUS)).unwrap();
        self.write("");
    }

    fn reader(&self, tail: Option<u64>) -> Reader {
        Reader::open(self.dir.path(), tail).unwrap()
    }
}

/// Everything there is now, with "~" where something was missed.
fn all(reader: &mut Reader) -> String {
    let mut text = String::new();
    loop {
        let piece = reader.next(3).unwrap();
        if piece.data.is_empty() {
            return text;
        }
        text.push_str(if piece.gap { "~" } else { "" });
        text.push_str(std::str::from_utf8(&piece.data).unwrap());
    }
}

#[track_caller]
fn check_tail(previous: &str, current: &str, lines: u64, expect: &str) {
    let log = Log::new();
    log.write(previous);
    log.rotate();
    log.write(current);
    assert_eq!(all(&mut log.reader(Some(lines))), expect);
}

#[test]
fn the_last_lines_are_found_in_both_files() {
    check_tail("a\nb\n", "c\nd\n", 1, "d\n");
    check_tail("a\nb\n", "c\nd\n", 2, "c\nd\n");
    check_tail("a\nb\n", "c\nd\n", 3, "b\nc\nd\n");
    check_tail("a\nb\n", "c\nd\n", 9, "a\nb\nc\nd\n");
    check_tail("a\nb\n", "c\nd", 1, "d");
    check_tail("a\nlo", "ng\n", 1, "long\n");
    check_tail("a\n", "b\n", 0, "");
    check_tail("", "", 5, "");
}

#[test]
fn what_is_written_later_follows_across_files() {
    let log = Log::new();
    let mut reader = log.reader(None);
    assert_eq!(all(&mut reader), "");
    log.write("one ");
    assert_eq!(all(&mut reader), "one ");
    log.write("two ");
    log.rotate();
    log.write("three ");
    assert_eq!(all(&mut reader), "two three ");
    log.rotate();
    assert_eq!(all(&mut reader), "");
    log.write("four");
    assert_eq!(all(&mut reader), "four");
}

#[test]
fn a_reader_that_is_too_slow_is_told() {
    let log = Log::new();
    log.write("one ");
    let mut reader = log.reader(None);
    assert_eq!(reader.next(2).unwrap().data, b"on");
    for text in ["two ", "three ", "four"] {
        log.rotate();
        log.write(text);
    }
    assert_eq!(all(&mut reader), "e ~three four", "two is gone, the rest is whole");
}
