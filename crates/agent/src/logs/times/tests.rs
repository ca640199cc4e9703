use super::*;
use proptest::prelude::*;

fn record(offset: u64, millis: u64) -> Record {
    Record { offset, time: UnixMillis(millis) }
}

fn encoded(records: &[Record]) -> Vec<u8> {
    let mut encoder = Encoder::default();
    records.iter().flat_map(|record| encoder.encode(*record)).collect()
}

fn decoded(bytes: &[u8]) -> Vec<Record> {
    let mut records = Vec::new();
    Decoder::default().decode(bytes, &mut records);
    records
}

/// Texts that grow, by clocks that mostly go forward.
fn logs() -> impl Strategy<Value = Vec<Record>> {
    let moves = (1_u64..5000, -50_i64..5000);
    (0_u64..1 << 42, proptest::collection::vec(moves, 0..600)).prop_map(|(begin, moves)| {
        let (mut offset, mut millis) = (0, begin);
        let record = |(more, later): (u64, i64)| {
            let now = record(offset, millis);
            offset += more;
            millis = millis.saturating_add_signed(later);
            now
        };
        moves.into_iter().map(record).collect()
    })
}

fn grow(records: &[Record]) -> bool {
    records.windows(2).all(|pair| pair[0].offset < pair[1].offset)
}

#[test]
fn a_line_costs_three_bytes() {
    let base = 1_795_000_000_000;
    let lines: Vec<Record> = (0..256).map(|line| record(line * 100, base + line * 1500)).collect();
    assert_eq!(encoded(&lines).len(), 9 + 255 * 3);
    assert_eq!(decoded(&encoded(&lines)), lines);
}

#[test]
fn what_is_said_later_of_the_same_bytes_counts() {
    let mut bytes = encoded(&[record(0, 5), record(10, 6), record(20, 7)]);
    bytes.extend(encoded(&[record(10, 99)]));
    assert_eq!(decoded(&bytes), [record(0, 5), record(10, 99)]);
    assert_eq!(decoded(&encoded(&[record(3, 9), record(4, 8)])), [record(3, 9), record(4, 8)]);
    assert_eq!(decoded(&[0; 100]), [], "as some file systems leave it after a power cut");
}

proptest! {
    #[test]
    fn it_does_not_matter_how_it_is_cut(records in logs(), cuts in proptest::collection::vec(any::<prop::sample::Index>(), 0..6)) {
        let bytes = encoded(&records);
        let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut.index(bytes.len() + 1)).collect();
        cuts.extend([0, bytes.len()]);
        cuts.sort_unstable();
        let (mut decoder, mut found) = (Decoder::default(), Vec::new());
        for cut in cuts.windows(2) {
            decoder.decode(&bytes[cut[0]..cut[1]], &mut found);
        }
        prop_assert_eq!(found, records);
    }

    /// A supervisor that was killed has written a part of a record; the next one goes on behind it.
    ///
    /// proves: AGT-15
    #[test]
    fn what_is_torn_costs_nothing_but_itself(before in logs(), after in logs(), cut in any::<prop::sample::Index>()) {
        let whole = encoded(&before);
        let cut = cut.index(whole.len() + 1);
        let begin = before.last().map_or(0, |last| last.offset + 1);
        let after: Vec<Record> = after.iter().map(|r| record(r.offset + begin, r.time.0)).collect();
        let kept = decoded(&whole[..cut]);
        prop_assert!(before.starts_with(&kept));
        let mut bytes = whole[..cut].to_vec();
        bytes.extend(encoded(&after));
        let expect: Vec<Record> = kept.into_iter().chain(after).collect();
        prop_assert_eq!(decoded(&bytes), expect);
    }

    #[test]
    fn a_damaged_byte_costs_what_stands_before_the_next_mark(records in logs(), at in any::<prop::sample::Index>(), byte in any::<u8>()) {
        prop_assume!(!records.is_empty());
        let mut bytes = encoded(&records);
        let at = at.index(bytes.len());
        bytes[at] = byte;
        let found = decoded(&bytes);
        prop_assert!(grow(&found));
        // All that was whole before it is there.
        let mut before = decoded(&bytes[..at]);
        before.pop();
        let common = found.iter().zip(&before).take_while(|(a, b)| a == b).count();
        let cut = found.get(common).map_or(u64::MAX, |next| next.offset);
        prop_assert!(before[common..].iter().all(|lost| cut <= lost.offset), "{found:?}");
    }

    #[test]
    fn whatever_stands_there_makes_records_in_order(bytes in proptest::collection::vec(prop_oneof![Just(0_u8), any::<u8>()], 0..400)) {
        prop_assert!(grow(&decoded(&bytes)));
    }
}
