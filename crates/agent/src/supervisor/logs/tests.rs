use super::*;
use crate::logs::times::Decoder;
use proptest::prelude::*;

const NOW: UnixMillis = UnixMillis(1_795_000_000_000);

fn limits(text: u64) -> Limits {
    Limits { text, ..Limits::default() }
}

/// The texts in their order, each with the place where it begins.
fn texts(folder: &Path) -> Vec<(u64, Vec<u8>)> {
    let bases = folder::bases(folder).unwrap().into_iter();
    bases.map(|base| (base, fs::read(folder::text(folder, base)).unwrap())).collect()
}

fn kept(folder: &Path) -> Vec<u8> {
    texts(folder).into_iter().flat_map(|(_, text)| text).collect()
}

fn times(folder: &Path, base: u64) -> Vec<(u64, u64)> {
    let mut records = Vec::new();
    let bytes = fs::read(folder::times(folder, base)).unwrap_or_default();
    Decoder::default().decode(&bytes, &mut records);
    records.into_iter().map(|record| (record.offset, record.time.0 - NOW.0)).collect()
}

fn later(millis: u64) -> UnixMillis {
    UnixMillis(NOW.0 + millis)
}

#[test]
fn a_log_whose_folder_was_deleted_goes_on_in_the_one_that_follows() {
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path().join("log");
    fs::create_dir(&folder).unwrap();
    let mut log = Log::open(&folder, limits(1 << 10), NOW).unwrap();
    log.write(b"before", NOW).unwrap();
    fs::remove_dir_all(&folder).unwrap();
    log.write(b"meanwhile", NOW).unwrap();
    fs::create_dir(&folder).unwrap();
    log.write(b"after", later(1)).unwrap();
    assert_eq!(kept(&folder), b"after");
}

#[test]
fn a_line_has_the_time_at_which_it_began() {
    let dir = tempfile::tempdir().unwrap();
    let base = folder::beginning(NOW);
    let mut log = Log::open(dir.path(), limits(1 << 10), NOW).unwrap();
    for (text, at) in [("one\n", 0), ("two\n", 0), ("th", 1), ("re", 2), ("e\n", 3)] {
        log.write(text.as_bytes(), later(at)).unwrap();
    }
    assert_eq!(times(dir.path(), base), [(0, 0), (8, 1)], "what begins no line has no time");
    log.write(b"four", later(4)).unwrap();
    log.write(b"\nfive\n", later(5)).unwrap();
    // A supervisor that was killed is followed by one that knows nothing of it.
    let mut log = Log::open(dir.path(), limits(1 << 10), NOW).unwrap();
    log.write(b"six\n", later(5)).unwrap();
    log.write(b"seven\n", later(3)).unwrap();
    let expect = [(0, 0), (8, 1), (14, 4), (18, 5), (24, 5), (28, 3)];
    assert_eq!(times(dir.path(), base), expect);
}

#[test]
fn short_lines_fill_a_file_with_their_times() {
    let dir = tempfile::tempdir().unwrap();
    let mut log = Log::open(dir.path(), Limits { text: 1000, times: 60 }, NOW).unwrap();
    for line in 0..100 {
        log.write(b"x\n", later(line * 1000)).unwrap();
    }
    let all = texts(dir.path());
    assert_eq!((all.len(), all[0].1.len()), (2, 36), "after a mark and 17 steps it is full");
    assert_eq!(all[1].0, all[0].0 + 36);
    for (base, _) in all {
        assert!(fs::metadata(folder::times(dir.path(), base)).unwrap().len() <= 60);
    }
}

#[test]
fn files_of_an_earlier_version_are_taken_over() {
    let dir = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str, at: UnixMillis| {
        let path = dir.path().join(name);
        fs::write(&path, text).unwrap();
        let file = File::options().append(true).open(&path).unwrap();
        file.set_modified(UNIX_EPOCH + std::time::Duration::from_millis(at.0)).unwrap();
    };
    write("previous", "one\ntwo\n", later(10));
    write("current", "thr", later(20));
    let mut log = Log::open(dir.path(), limits(1 << 10), later(100)).unwrap();
    log.write(b"ee\nfour\n", later(110)).unwrap();
    let base = folder::beginning(later(100));
    let expect = [(base, b"one\ntwo\n".to_vec()), (base + 8, b"three\nfour\n".to_vec())];
    assert_eq!(texts(dir.path()), expect);
    assert_eq!(times(dir.path(), base), [(0, 10)]);
    assert_eq!(times(dir.path(), base + 8), [(0, 20), (3, 110)]);
    // An agent of the earlier version was here once more.
    write("current", "five\n", later(200));
    drop(Log::open(dir.path(), limits(1 << 10), later(300)).unwrap());
    assert_eq!(kept(dir.path()), b"three\nfour\nfive\n");
}

/// Where the times cannot be written, the text is.
#[test]
fn a_text_without_times_is_kept() {
    let dir = tempfile::tempdir().unwrap();
    let base = folder::beginning(NOW);
    fs::create_dir(folder::times(dir.path(), base)).unwrap();
    let mut log = Log::open(dir.path(), limits(1 << 10), NOW).unwrap();
    log.write(b"one\n", NOW).unwrap();
    assert_eq!(kept(dir.path()), b"one\n");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn bounded_and_always_the_newest(
        writes in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..40), 0..20),
        max in 1_u64..32,
    ) {
        let dir = tempfile::tempdir().unwrap();
        let mut all = Vec::new();
        for (at, bytes) in writes.iter().enumerate() {
            // Opened each time, as by the supervisors of several runs.
            Log::open(dir.path(), limits(max), NOW).unwrap().write(bytes, later(at as u64)).unwrap();
            all.extend_from_slice(bytes);
        }
        let kept = kept(dir.path());
        prop_assert!(kept.len() as u64 <= 2 * max);
        prop_assert!(kept.len() as u64 >= max.min(all.len() as u64));
        prop_assert!(all.ends_with(&kept));
        // The name of each file says where it begins, counted from the first byte of all.
        let place = folder::beginning(NOW) + (all.len() - kept.len()) as u64;
        let texts = texts(dir.path());
        prop_assert_eq!(texts.first().map_or(place, |(base, _)| *base), place);
        for pair in texts.windows(2) {
            prop_assert_eq!(pair[0].0 + pair[0].1.len() as u64, pair[1].0);
        }
        let files = fs::read_dir(dir.path()).unwrap().count();
        prop_assert!(files <= 4, "two texts and their times");
    }
}
