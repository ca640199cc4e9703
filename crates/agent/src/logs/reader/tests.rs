use super::*;
use crate::model::UnixMillis;
use crate::supervisor::logs::{Limits, Log};
use proptest::prelude::*;
use std::fs;

/// Texts of the supervisor that are full after so many bytes.
struct Written {
    dir: tempfile::TempDir,
    log: Log,
    now: UnixMillis,
}

const LIMITS: Limits = Limits { text: 10, times: 1000 };

impl Written {
    fn new() -> Self {
        let (dir, now) = (tempfile::tempdir().unwrap(), UnixMillis(1000));
        let log = Log::open(dir.path(), LIMITS, now).unwrap();
        Self { dir, log, now }
    }

    /// Each a millisecond after the one before.
    fn write(&mut self, text: &str) {
        self.now.0 += 1;
        self.log.write(text.as_bytes(), self.now).unwrap();
    }

    fn reader(&self, start: Start) -> Reader {
        Reader::open(Files::Folder(self.dir.path().to_owned()), start).unwrap()
    }
}

/// Files as an earlier version writes them.
struct Earlier {
    dir: tempfile::TempDir,
}

impl Earlier {
    fn new() -> Self {
        Self { dir: tempfile::tempdir().unwrap() }
    }

    fn write(&self, text: &str) {
        let path = self.dir.path().join(EARLIER[1]);
        let mut file = fs::OpenOptions::new().append(true).create(true).open(path).unwrap();
        io::Write::write_all(&mut file, text.as_bytes()).unwrap();
    }

    /// The current file is full.
    fn rotate(&self) {
        let path = |name| self.dir.path().join(name);
        fs::rename(path(EARLIER[1]), path(EARLIER[0])).unwrap();
        self.write("");
    }

    fn reader(&self, start: Start) -> Reader {
        Reader::open(Files::Folder(self.dir.path().to_owned()), start).unwrap()
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

fn position(reader: &Reader) -> Position {
    reader.position(0).unwrap().to_string().parse().unwrap()
}

#[track_caller]
fn check_tail(previous: &str, current: &str, lines: u64, expect: &str) {
    let log = Earlier::new();
    log.write(previous);
    log.rotate();
    log.write(current);
    assert_eq!(all(&mut log.reader(Start::Lines(lines))), expect);
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
    check_tail("a\n", "b\n", u64::MAX, "a\nb\n");
    check_tail("", "", 5, "");
    let mut log = Written::new();
    log.write("one\ntwo\nthree\nfour\n");
    assert_eq!(all(&mut log.reader(Start::Lines(2))), "three\nfour\n");
}

#[test]
fn what_is_written_later_follows_across_files() {
    let log = Earlier::new();
    let mut reader = log.reader(Start::All);
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
    // The next supervisor is of this version.
    let now = UnixMillis(1000);
    let mut newer = Log::open(log.dir.path(), LIMITS, now).unwrap();
    newer.write(b" five and more", now).unwrap();
    assert_eq!(all(&mut reader), " five and more");
}

#[test]
fn a_reader_that_is_too_slow_is_told() {
    let log = Earlier::new();
    log.write("one ");
    let mut reader = log.reader(Start::All);
    assert_eq!(reader.next(2).unwrap().data, b"on");
    for text in ["two ", "three ", "four"] {
        log.rotate();
        log.write(text);
    }
    assert_eq!(all(&mut reader), "e ~three four", "two is gone, the rest is whole");

    let mut log = Written::new();
    log.write("one ");
    let mut reader = log.reader(Start::All);
    assert_eq!(reader.next(2).unwrap().data, b"on");
    log.write("two three four five six seven");
    assert_eq!(all(&mut reader), "e two th~ive six seven", "its file is read to its end");
}

#[test]
fn pieces_say_when_they_were_written() {
    let mut log = Written::new();
    log.write("one\n");
    log.write("two\nthree\nfour\n");
    let mut reader = log.reader(Start::All);
    let mut marks = Vec::new();
    let mut at = 0;
    while let piece = reader.next(7).unwrap()
        && !piece.data.is_empty()
    {
        marks.extend(piece.marks.iter().map(|mark| (at + mark.at, mark.nanos / 1_000_000)));
        at += piece.data.len();
    }
    assert_eq!(marks, [(0, 1001), (4, 1002), (7, 1002), (10, 1002), (17, 1002)]);
    // Of a file without times: when it was written to last.
    let log = Earlier::new();
    log.write("one\n");
    let piece = log.reader(Start::All).next(9).unwrap();
    let found = fs::metadata(log.dir.path().join(EARLIER[1])).unwrap().modified().unwrap();
    assert_eq!(piece.marks, [Mark::new(0, millis(found))]);
}

#[test]
fn a_reader_that_comes_back_goes_on_where_it_stopped() {
    let mut log = Written::new();
    assert_eq!(
        position(&Reader::open(Files::Folder("/absent".into()), Start::All).unwrap()),
        Position::Nothing
    );
    let mut reader = log.reader(Start::All);
    let before = position(&reader);
    log.write("one two ");
    assert_eq!(reader.next(5).unwrap().data, b"one t");
    let within = position(&reader);
    log.write("three four");
    assert_eq!(all(&mut log.reader(Start::After(before))), "one two three four");
    assert_eq!(all(&mut log.reader(Start::After(within))), "wo three four");
    let mut again = log.reader(Start::After(within));
    all(&mut again);
    let end = position(&again);
    log.write(" five");
    assert_eq!(all(&mut log.reader(Start::After(end))), " five");
    log.write(" and quite a lot more");
    assert_eq!(all(&mut log.reader(Start::After(within))), "~ite a lot more");
    // A position that this log never had.
    assert_eq!(all(&mut log.reader(Start::After(Position::Place(u64::MAX)))), "~ite a lot more");
    assert_eq!(all(&mut log.reader(Start::After(Position::Nothing))), "ite a lot more");
}

#[test]
fn a_reader_comes_back_to_files_of_an_earlier_version() {
    let log = Earlier::new();
    log.write("one two");
    let mut reader = log.reader(Start::All);
    assert_eq!(reader.next(3).unwrap().data, b"one");
    let within = position(&reader);
    assert_eq!(all(&mut log.reader(Start::After(within))), " two");
    log.rotate();
    log.write(" three");
    assert_eq!(all(&mut log.reader(Start::After(within))), " two three");
    let now = UnixMillis(1000);
    let mut newer = Log::open(log.dir.path(), LIMITS, now).unwrap();
    newer.write(b" 4", now).unwrap();
    assert_eq!(all(&mut log.reader(Start::After(within))), " two three 4");
    newer.write(b" and more", now).unwrap();
    assert_eq!(all(&mut log.reader(Start::After(within))), "~ three 4 and more");
}

/// As conmon does it with the log of a container.
#[test]
fn a_file_that_was_replaced_is_another_one() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("container");
    fs::write(&path, "one two").unwrap();
    let open = |start| Reader::open(Files::One(path.clone()), start).unwrap();
    let mut reader = open(Start::All);
    assert_eq!(reader.next(3).unwrap().data, b"one");
    let within = position(&reader);
    assert_eq!(all(&mut open(Start::After(within))), " two");
    let newer = dir.path().join("newer");
    fs::write(&newer, "three").unwrap();
    fs::rename(&newer, &path).unwrap();
    assert_eq!(all(&mut reader), " two~three");
    assert_eq!(all(&mut open(Start::After(within))), "~three");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    /// Whoever comes back again and again reads what one reader reads that stays, if it is quick enough;
    /// supervisors come and go meanwhile.
    ///
    /// proves: AGT-15
    #[test]
    fn coming_back_loses_and_repeats_nothing(
        steps in proptest::collection::vec(("[a-z\n]{0,9}", 1_usize..12, any::<bool>()), 1..20)
    ) {
        let mut log = Written::new();
        let mut reader = log.reader(Start::All);
        let (mut written, mut read) = (String::new(), String::new());
        for (text, most, restart) in steps {
            if restart {
                log.log = Log::open(log.dir.path(), LIMITS, log.now).unwrap();
            }
            log.write(&text);
            written.push_str(&text);
            // Never more than a file behind.
            while read.len() + 9 < written.len() || most % 2 == 0 {
                let piece = reader.next(most).unwrap();
                prop_assert!(!piece.gap);
                if piece.data.is_empty() {
                    break;
                }
                prop_assert_eq!(piece.marks.first().map(|mark| mark.at), Some(0));
                read.push_str(std::str::from_utf8(&piece.data).unwrap());
            }
            reader = log.reader(Start::After(position(&reader)));
        }
        read.push_str(&all(&mut reader));
        prop_assert_eq!(read, written);
    }

    /// Whatever became of the files of times, the text is read as it is.
    #[test]
    fn damaged_times_cost_no_text(bytes in proptest::collection::vec(any::<u8>(), 0..80), cut in 0_u64..30) {
        let mut log = Written::new();
        for text in ["one\n", "two\n", "three\n"] {
            log.write(text);
        }
        for (at, base) in folder::bases(log.dir.path()).unwrap().into_iter().enumerate() {
            let path = folder::times(log.dir.path(), base);
            if at == 0 {
                fs::write(path, &bytes).unwrap();
            } else {
                fs::File::options().write(true).open(path).unwrap().set_len(cut).unwrap();
            }
        }
        prop_assert_eq!(all(&mut log.reader(Start::All)), "one\ntwo\nthree\n");
        prop_assert_eq!(all(&mut log.reader(Start::Lines(2))), "two\nthree\n");
    }
}
