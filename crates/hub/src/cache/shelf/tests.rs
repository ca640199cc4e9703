use super::*;
use proptest::prelude::*;

const EXPIRY: Duration = Duration::from_secs(10);

fn mk_shelf(entries_max: usize, bytes_max: usize) -> Shelf<&'static str, u64, ()> {
    Shelf::new(Bounds { entries_max, bytes_max, expiry: EXPIRY })
}

/// Begins a fill that others can join.
fn begin(shelf: &mut Shelf<&'static str, u64, ()>, key: &'static str, mark: u64) -> Ticket {
    let ticket = shelf.begin(key, Revision(mark), Instant::now());
    shelf.attach(&key, ticket, ());
    ticket
}

/// Fills a key at once.
fn put(shelf: &mut Shelf<&'static str, u64, ()>, key: &'static str, value: u64, bytes: usize) {
    let ticket = begin(shelf, key, 0);
    shelf.finish(&key, ticket, Some((value, bytes)));
}

fn found(shelf: &mut Shelf<&'static str, u64, ()>, keys: &[&'static str]) -> Vec<Option<u64>> {
    keys.iter().map(|key| shelf.find(key, Revision(0), Instant::now())).collect()
}

/// proves: HUB-14
#[test]
fn the_least_recently_used_goes_first() {
    let mut shelf = mk_shelf(2, 100);
    put(&mut shelf, "a", 1, 1);
    put(&mut shelf, "b", 2, 1);
    assert_eq!(found(&mut shelf, &["a"]), [Some(1)]);
    put(&mut shelf, "c", 3, 1);
    assert_eq!(found(&mut shelf, &["a", "b", "c"]), [Some(1), None, Some(3)]);
    assert_eq!((shelf.len(), shelf.evictions()), (2, 1));
}

/// proves: HUB-14
#[test]
fn bytes_are_bounded_too() {
    let mut shelf = mk_shelf(10, 100);
    put(&mut shelf, "a", 1, 60);
    put(&mut shelf, "b", 2, 30);
    put(&mut shelf, "c", 3, 20);
    assert_eq!(found(&mut shelf, &["a", "b", "c"]), [None, Some(2), Some(3)]);
    put(&mut shelf, "b", 4, 70);
    assert_eq!((shelf.bytes(), shelf.len()), (90, 2), "what is replaced does not count twice");
    put(&mut shelf, "large", 5, 101);
    assert_eq!(shelf.len(), 2, "one that is larger than everything pushes nothing out");
}

/// proves: HUB-14
#[tokio::test(start_paused = true)]
async fn an_answer_expires_from_when_it_was_asked_for() {
    let mut shelf = mk_shelf(10, 100);
    let ticket = begin(&mut shelf, "a", 0);
    tokio::time::advance(EXPIRY / 2).await;
    assert!(shelf.finish(&"a", ticket, Some((1, 1))));
    tokio::time::advance(EXPIRY / 2 - Duration::from_millis(1)).await;
    assert_eq!(found(&mut shelf, &["a"]), [Some(1)]);
    tokio::time::advance(Duration::from_millis(1)).await;
    assert_eq!(found(&mut shelf, &["a"]), [None]);
    assert_eq!((shelf.len(), shelf.bytes()), (0, 0));
}

#[test]
fn who_knows_of_a_later_write_asks_anew() {
    let (mut shelf, now) = (mk_shelf(10, 100), Instant::now());
    let ticket = begin(&mut shelf, "a", 4);
    assert!(shelf.under_way(&"a", Revision(4)).is_some());
    assert!(shelf.under_way(&"a", Revision(5)).is_none(), "it may have been asked before");
    assert!(shelf.finish(&"a", ticket, Some((1, 1))));
    assert_eq!(shelf.find(&"a", Revision(3), now), Some(1), "newer than needed is good");
    assert_eq!(shelf.find(&"a", Revision(5), now), None);
}

/// What can happen to one key, in any order.
#[derive(Clone, Debug)]
enum Step {
    /// Somebody asks: finds, joins, or begins a fill that reads the upstream now.
    Ask,
    /// The fill with this number, of those that are under way, brings its answer.
    Answer(usize),
    /// The upstream changes, and nobody knows yet.
    Change,
    /// The server hears of every change so far: it forgets the key, or everything.
    Hear(bool),
    /// A write through some server: the upstream changes, and the mark with it.
    Write,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        Just(Step::Ask),
        (0..4_usize).prop_map(Step::Answer),
        Just(Step::Change),
        any::<bool>().prop_map(Step::Hear),
        Just(Step::Write),
    ];
    proptest::collection::vec(step, 1..60)
}

proptest! {
    /// Nothing is ever found that is older than what the server has heard of, or than the last write through any
    /// server: however long a fill was under way.
    ///
    /// proves: HUB-14
    #[test]
    fn a_stale_fill_is_never_kept(steps in steps()) {
        let mut shelf = mk_shelf(10, 100);
        let (mut upstream, mut known, mut mark) = (1_u64, 0_u64, Revision(0));
        let mut fills: Vec<(Ticket, u64)> = Vec::new();
        for step in steps {
            match step {
                Step::Ask => {
                    if let Some(value) = shelf.find(&"a", mark, Instant::now()) {
                        prop_assert!(known <= value, "{value} is older than {known}");
                    } else if shelf.under_way(&"a", mark).is_none() {
                        let ticket = begin(&mut shelf, "a", mark.0);
                        fills.push((ticket, upstream));
                    }
                }
                Step::Answer(index) if index < fills.len() => {
                    let (ticket, value) = fills.remove(index);
                    shelf.finish(&"a", ticket, Some((value, 1)));
                }
                Step::Answer(_) => {}
                Step::Change => upstream += 1,
                Step::Hear(key) => {
                    known = upstream;
                    match key {
                        true => shelf.forget_key(&"a"),
                        false => shelf.forget(|_| true),
                    }
                }
                Step::Write => {
                    upstream += 1;
                    (known, mark) = (upstream, Revision(upstream));
                }
            }
        }
    }
}
