//! The pure parts.
use super::decide::{Owner, Verdict, decide};
use super::graph::{Graph, Link, Observed, Place};
use super::progress::{Progress, Waits, look_again};
use super::unread::Unread;
use bytes::Bytes;
use orrery_hub::{ObjectName, Propagation, Revision};
use proptest::collection::vec;
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use tokio::time::Instant;

fn place(index: usize) -> Place {
    Place { kind: "k".into(), name: ObjectName::new("p", format!("o{index}")) }
}

fn is_even(index: usize) -> bool {
    index.is_multiple_of(2)
}

fn uid(index: usize) -> String {
    format!("u{index}")
}

fn seen(index: usize, owners: &[usize], waits: bool, present: bool) -> Observed {
    let link = |owner: &usize| Link {
        uid: uid(*owner),
        place: Some(place(*owner)),
        blocks: is_even(*owner),
    };
    Observed { uid: uid(index), owners: owners.iter().map(link).collect(), waits, present }
}

fn places(indexes: &[usize]) -> BTreeSet<Place> {
    indexes.iter().map(|index| place(*index)).collect()
}

#[test]
fn an_object_goes_when_its_last_owner_does() {
    use Owner::{Gone, Solid, Waiting};
    #[track_caller]
    fn check(owners: &[Owner], owns_others: bool, expect: &Verdict) {
        let owners: Vec<_> = owners.iter().enumerate().map(|(i, owner)| (uid(i), *owner)).collect();
        assert_eq!(&decide(&owners, owns_others), expect);
    }
    check(&[], true, &Verdict::Keep);
    check(&[Solid, Solid], true, &Verdict::Keep);
    check(&[Gone, Solid, Waiting], true, &Verdict::Forget(vec![uid(0), uid(2)]));
    check(&[Gone], true, &Verdict::Delete(None));
    check(&[Gone, Waiting], false, &Verdict::Delete(None));
    check(&[Gone, Waiting], true, &Verdict::Delete(Some(Propagation::Foreground)));
}

#[test]
fn only_what_a_change_can_concern_is_looked_at() {
    let mut graph = Graph::default();
    assert_eq!(graph.observe(place(0), seen(0, &[], false, true)), places(&[]), "nobody's");
    assert_eq!(graph.observe(place(1), seen(1, &[0], false, true)), places(&[1]));
    assert_eq!(graph.observe(place(2), seen(2, &[0, 1], false, true)), places(&[2]));
    assert_eq!(graph.observe(place(2), seen(2, &[0, 1], false, true)), places(&[]), "as before");
    assert_eq!(graph.observe(place(0), seen(0, &[], false, true)), places(&[]), "not what it owns");
    assert_eq!(graph.observe(place(0), seen(0, &[], true, true)), places(&[0, 1, 2]), "it waits");
    assert_eq!(graph.observe(place(2), seen(2, &[1], false, true)), places(&[0, 2]), "it forgot");
    assert_eq!(graph.observe(place(1), seen(1, &[0], false, false)), places(&[0, 2]), "it is gone");
    assert_eq!(graph.observe(place(0), seen(0, &[], true, false)), places(&[]));
}

#[test]
fn another_object_in_the_same_place_is_another_owner() {
    let mut graph = Graph::default();
    graph.observe(place(1), seen(1, &[0], false, true));
    graph.observe(place(2), seen(2, &[1], false, true));
    let again = Observed { uid: "other".into(), ..seen(1, &[0], false, true) };
    assert_eq!(graph.observe(place(1), again), places(&[1, 2]));
}

#[test]
fn who_waits_in_turn_does_not_block() {
    #[track_caller]
    fn check(objects: &[(usize, &[usize], bool)], owner: usize, expect: bool) {
        let mut graph = Graph::default();
        for (index, owners, waits) in objects {
            graph.observe(place(*index), seen(*index, owners, *waits, true));
        }
        assert_eq!(graph.is_blocked(&place(owner), &uid(owner)), expect, "{objects:?}");
    }
    check(&[(0, &[2], true), (2, &[0], false)], 0, true);
    check(&[(0, &[2], true), (2, &[0], true)], 0, false);
    check(&[(0, &[0], true)], 0, false);
    check(&[(0, &[4], true), (2, &[0], true), (4, &[2], true)], 0, false);
    check(&[(0, &[4], true), (2, &[0], true), (4, &[2], false)], 0, true);
    check(&[(0, &[2], true), (2, &[0], true), (3, &[0], false)], 0, true);
    check(&[(0, &[], true), (2, &[0], true), (4, &[2], true)], 0, true);
}

#[test]
fn a_watch_that_has_not_begun_is_waited_for_however_long_that_takes() {
    #[track_caller]
    fn check(reached: [u64; 2], waited_seconds: u64, expect: bool) {
        let progress = Progress::new(["a", "b"].map(str::to_owned));
        for (feed, revision) in reached.into_iter().enumerate() {
            progress.reached(feed, Revision(revision));
        }
        let enough = progress.is_long_enough(Duration::from_secs(waited_seconds));
        assert_eq!(enough, expect, "{reached:?} {waited_seconds}");
    }
    check([6, 8], 10, false);
    check([6, 8], 11, true);
    check([0, 8], 11, false);
    check([0, 8], 1_000_000, false);
}

#[test]
fn a_deletion_waits_from_when_it_is_first_looked_at() {
    let (waits, begun) = (Waits::default(), Instant::now());
    let second = Duration::from_secs(1);
    assert_eq!(waits.waited(&place(0), "first", begun), Duration::ZERO);
    assert_eq!(waits.waited(&place(0), "first", begun + second), second);
    assert_eq!(waits.waited(&place(1), "other", begun + second), Duration::ZERO);
    assert_eq!(waits.waited(&place(0), "second", begun + 2 * second), Duration::ZERO, "another");
    assert_eq!(waits.waited(&place(0), "second", begun + 3 * second), second);
    waits.end(&place(0));
    assert_eq!(waits.waited(&place(0), "second", begun + 4 * second), Duration::ZERO);
}

#[test]
fn people_are_told_once_of_each_wait() {
    let (waits, now) = (Waits::default(), Instant::now());
    assert!(!waits.is_untold(&place(0)), "it does not wait");
    waits.waited(&place(0), "first", now);
    waits.waited(&place(1), "other", now);
    let told = [0, 0, 1].map(|index| waits.is_untold(&place(index)));
    assert_eq!(told, [true, false, true]);
    waits.waited(&place(0), "second", now);
    assert!(waits.is_untold(&place(0)), "another");
}

#[test]
fn what_waits_longer_is_looked_at_less_often() {
    #[track_caller]
    fn check(waited_ms: u64, expect_ms: u64) {
        assert_eq!(look_again(Duration::from_millis(waited_ms)), Duration::from_millis(expect_ms));
    }
    check(0, 50);
    check(500, 50);
    check(10_000, 1_000);
    check(1_000_000, 5_000);
}

#[test]
fn watches_that_are_behind_are_named() {
    let progress = Progress::new(["a", "b", "c"].map(str::to_owned));
    progress.reached(0, Revision(7));
    progress.reached(2, Revision(8));
    assert_eq!(progress.behind(Revision(8)), ["a", "b"]);
    assert_eq!(progress.behind(Revision(1)), ["b"]);
}

#[test]
fn what_cannot_be_read_may_belong_to_those_it_names() {
    let (unread, bytes) = (Unread::default(), Bytes::from_static(b"..u1..u2"));
    assert!(unread.add("k", "a", &bytes), "it is news");
    assert!(!unread.add("k", "a", &bytes), "it was known");
    let naming = |uid: &str| unread.naming(uid);
    let some = Some("k a".to_owned());
    assert_eq!(
        [naming("u1"), naming("u2"), naming("u3"), naming("")],
        [some.clone(), some, None, None]
    );
    unread.begin("other");
    unread.begun("other");
    unread.begin("k");
    assert!(naming("u1").is_some(), "its watch has not told everything");
    unread.add("k", "b", &bytes);
    unread.begun("k");
    assert_eq!(naming("u1"), Some("k b".to_owned()), "the other one was not met again");
    unread.remove("k", "b");
    assert!(unread.is_empty());
}

type Change = (usize, Vec<usize>, bool, bool);

proptest! {
    /// The index is what a scan would find, and whoever lost something is looked at.
    #[test]
    fn the_index_is_right_whatever_happens(
        changes in vec((0..6usize, vec(0..6usize, 0..3), any::<bool>(), any::<bool>()), 0..40),
    ) {
        let mut graph = Graph::default();
        let mut world: BTreeMap<usize, Observed> = BTreeMap::new();
        let owned = |world: &BTreeMap<usize, Observed>, owner: usize| -> BTreeSet<Place> {
            let names = |o: &Observed| o.owners.iter().any(|link| link.uid == uid(owner));
            world.iter().filter(|(_, o)| names(o)).map(|(index, _)| place(*index)).collect()
        };
        for (index, owners, waits, present) in changes as Vec<Change> {
            let owners: Vec<usize> = BTreeSet::from_iter(owners).into_iter().collect();
            let observed = seen(index, &owners, waits, present);
            let touched = graph.observe(place(index), observed.clone());
            if !present {
                let mut waiting = owned(&world, index);
                waiting.remove(&place(index));
                prop_assert!(waiting.is_subset(&touched));
            }
            match present {
                true => drop(world.insert(index, observed)),
                false => drop(world.remove(&index)),
            }
            for owner in 0..6 {
                let expected = owned(&world, owner);
                prop_assert_eq!(graph.owned_by(&uid(owner)), expected.clone());
                let blocked = graph.is_blocked(&place(owner), &uid(owner));
                let could_be = is_even(owner) && !expected.is_empty();
                let nobody_waits = world.values().all(|object| !object.waits);
                prop_assert!(blocked == could_be || (could_be && !nobody_waits));
            }
        }
    }
}
