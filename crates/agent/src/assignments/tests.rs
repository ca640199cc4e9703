use super::*;
use proptest::prelude::*;

fn id(text: &str) -> InstanceId {
    InstanceId::new(text).unwrap()
}

fn assignment(name: &str) -> Assignment {
    Assignment { id: name.into(), project: "p".into(), generation: 7, ..Assignment::default() }
}

fn store() -> (tempfile::TempDir, Assignments) {
    let dir = tempfile::tempdir().unwrap();
    let store = Assignments::open(dir.path()).unwrap();
    (dir, store)
}

#[test]
fn what_is_saved_is_loaded() {
    let (dir, store) = store();
    assert!(store.load().unwrap().is_empty());
    store.save(&id("a"), &assignment("a")).unwrap();
    store.save(&id("b"), &assignment("x")).unwrap();
    store.save(&id("b"), &assignment("b")).unwrap();
    let expect: BTreeMap<_, _> =
        ["a", "b"].map(|name| (id(name), Some(assignment(name)))).into_iter().collect();
    assert_eq!(store.load().unwrap(), expect);
    let again = Assignments::open(dir.path()).unwrap();
    assert_eq!(again.load().unwrap(), expect);
}

#[test]
fn what_is_discarded_is_gone() {
    let (dir, store) = store();
    store.save(&id("a"), &assignment("a")).unwrap();
    fs::create_dir_all(store.instances().join("a/work/deep")).unwrap();
    store.discard(&id("a")).unwrap();
    store.discard(&id("a")).unwrap();
    assert!(store.load().unwrap().is_empty());
    assert_eq!(fs::read_dir(dir.path().join("trash")).unwrap().count(), 0);
}

#[test]
fn an_interrupted_removal_is_finished_at_the_next_start() {
    let (dir, store) = store();
    store.save(&id("a"), &assignment("a")).unwrap();
    fs::rename(store.instances().join("a"), dir.path().join("trash/a")).unwrap();
    let again = Assignments::open(dir.path()).unwrap();
    assert!(again.load().unwrap().is_empty());
    assert_eq!(fs::read_dir(dir.path().join("trash")).unwrap().count(), 0);
}

#[track_caller]
fn check_corrupt(edit: impl FnOnce(&mut Vec<u8>), expect: Corrupt) {
    let mut bytes = encode(&assignment("a"));
    edit(&mut bytes);
    assert_eq!(decode(&bytes), Err(expect));
}

#[test]
fn what_is_broken_is_told_apart() {
    check_corrupt(Vec::clear, Corrupt::NotOurs);
    check_corrupt(|bytes| bytes.truncate(20), Corrupt::NotOurs);
    check_corrupt(|bytes| bytes[0] ^= 1, Corrupt::NotOurs);
    check_corrupt(|bytes| bytes[4] = 9, Corrupt::Version(9));
    check_corrupt(|bytes| bytes[10] ^= 1, Corrupt::Checksum);
    check_corrupt(|bytes| bytes.truncate(bytes.len() - 1), Corrupt::Checksum);
}

#[test]
fn a_broken_file_is_set_aside_and_the_others_are_loaded() {
    let (_dir, store) = store();
    store.save(&id("good"), &assignment("good")).unwrap();
    store.save(&id("bad"), &assignment("bad")).unwrap();
    fs::write(store.instances().join("bad/assignment"), "rubbish").unwrap();
    fs::create_dir_all(store.instances().join(".strange")).unwrap();
    // Not even a file.
    fs::create_dir_all(store.instances().join("odd/assignment")).unwrap();
    let good = Some(assignment("good"));
    let expect = BTreeMap::from([(id("bad"), None), (id("good"), good), (id("odd"), None)]);
    assert_eq!(store.load().unwrap(), expect);
    let aside = fs::read_to_string(store.instances().join("bad/assignment.corrupt")).unwrap();
    assert_eq!(aside, "rubbish");
}

proptest! {
    /// Whatever a disk does to a file, the answer is the original or an error.
    #[test]
    fn one_flipped_bit_is_noticed(position in 0_usize..60, bit in 0_u32..8) {
        let mut bytes = encode(&assignment("abcdef"));
        let position = position % bytes.len();
        bytes[position] ^= 1 << bit;
        prop_assert!(decode(&bytes).is_err());
    }

    #[test]
    fn rubbish_never_panics(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        prop_assert!(decode(&bytes).is_err());
    }
}
