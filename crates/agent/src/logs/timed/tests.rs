use super::*;
use crate::logs::times::Encoder;
use std::fs::OpenOptions;
use std::io::Write;

fn marks(marks: &[(usize, i64)]) -> Vec<Mark> {
    marks.iter().map(|(at, nanos)| Mark { at: *at, nanos: *nanos }).collect()
}

fn piece(text: &str, times: &[(usize, i64)]) -> Piece {
    Piece { data: text.into(), gap: false, marks: marks(times) }
}

#[track_caller]
fn check(from: i64, pieces: &[Piece], expect: &[Piece]) {
    let mut since = Since::new(Some(from));
    let passed = pieces.iter().map(|piece| since.pass(piece.clone()));
    let passed: Vec<Piece> = passed.filter(|piece| !piece.data.is_empty()).collect();
    assert_eq!(passed, expect);
}

#[test]
fn lines_begin_with_the_first_that_is_late_enough() {
    let all = piece("one\ntwo\nthree\n", &[(0, 10), (4, 20), (8, 30)]);
    let all = std::slice::from_ref(&all);
    check(5, all, &[piece("one\ntwo\nthree\n", &[(0, 10), (4, 20), (8, 30)])]);
    check(20, all, &[piece("two\nthree\n", &[(0, 20), (4, 30)])]);
    check(21, all, &[piece("three\n", &[(0, 30)])]);
    check(31, all, &[]);
    // A clock that was set back hides nothing.
    let back = piece("one\ntwo\nthree\n", &[(0, 10), (4, 30), (8, 20)]);
    check(25, &[back], &[piece("two\nthree\n", &[(0, 30), (4, 20)])]);
}

#[test]
fn a_line_has_the_time_of_its_beginning() {
    // The end of a line came with the next one.
    let late = piece("one\ntwo\n", &[(0, 10), (2, 20)]);
    check(15, &[late], &[piece("two\n", &[(0, 20)])]);
    let pieces = [piece("on", &[(0, 10)]), piece("e\ntwo", &[(0, 20)]), piece("\n", &[(0, 30)])];
    check(15, &pieces, &[piece("two", &[(0, 20)]), piece("\n", &[(0, 30)])]);
    check(25, &pieces, &[]);
}

#[test]
fn what_was_missed_is_told_with_what_comes_next() {
    let missed = Piece { gap: true, ..piece("one\n", &[(0, 10)]) };
    let next = piece("two\n", &[(0, 20)]);
    check(15, &[missed, next.clone()], &[Piece { gap: true, ..next }]);
}

#[test]
fn times_are_found_as_the_text_grows() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("times");
    let (mut times, last) = (Times::of(path.clone()), UnixMillis(99));
    let marks_in = |times: &mut Times, bytes: Range<u64>| -> Vec<(usize, i64)> {
        let marks = times.marks(bytes, last).unwrap().into_iter();
        marks.map(|mark| (mark.at, mark.nanos / NANOS_PER_MILLI)).collect()
    };
    assert_eq!(marks_in(&mut times, 0..5), [(0, 99)], "there are none");
    let mut file = OpenOptions::new().append(true).create(true).open(&path).unwrap();
    let mut encoder = Encoder::default();
    let mut write = |offset, millis| {
        let bytes = encoder.encode(Record { offset, time: UnixMillis(millis) });
        file.write_all(&bytes).unwrap();
    };
    write(10, 50);
    assert_eq!(marks_in(&mut times, 5..12), [(0, 50), (5, 50)], "it was there when the next came");
    write(20, 60);
    write(30, 70);
    assert_eq!(marks_in(&mut times, 12..25), [(0, 50), (8, 60)]);
    assert_eq!(marks_in(&mut times, 25..30), [(0, 60)]);
    assert_eq!(marks_in(&mut times, 30..31), [(0, 70)]);
    assert_eq!(times.records.len(), 1, "what is past is forgotten");
}

#[test]
fn times_go_on_the_wire() {
    let wire = Mark { at: 3, nanos: 1_500_000_007 }.on_the_wire();
    let time = wire.time.unwrap();
    assert_eq!((wire.offset, time.seconds, time.nanos), (3, 1, 500_000_007));
}
