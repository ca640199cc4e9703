//! The cache alone, over the memory engine.

use std::{sync::Arc, time::Duration};

use tokio::time::timeout;

use super::{Event, EventBatch, Store, StoreOptions, Terms, Watcher};
use crate::{
    error::Error,
    memory,
    model::{Op, Revision},
};

async fn store(options: StoreOptions) -> Store {
    Store::start(memory(), options).await.expect("a store starts on an empty engine")
}

async fn small(history_revisions: usize) -> Store {
    store(StoreOptions { history_revisions, ..StoreOptions::default() }).await
}

async fn create(store: &Store, key: &str) -> Revision {
    store.commit(vec![Op::create(key, "v")]).await.expect("the key is new")
}

async fn next(watcher: &mut Watcher) -> Result<Arc<EventBatch>, Error> {
    timeout(Duration::from_secs(5), watcher.next()).await.expect("in time")
}

#[tokio::test]
async fn a_commit_is_read_at_once() {
    let store = store(StoreOptions::default()).await;
    for number in 0..100 {
        let key = format!("k/{number}");
        let revision = create(&store, &key).await;
        let snapshot = store.snapshot_now();
        assert!(revision <= snapshot.revision());
        assert_eq!(snapshot.get(&key).map(|entry| entry.modified), Some(revision));
    }
    assert_eq!(store.snapshot_now().len(), 100);
}

#[tokio::test]
async fn a_snapshot_does_not_move() {
    let store = store(StoreOptions::default()).await;
    let revision = create(&store, "a").await;
    let before = store.snapshot_now();
    store.commit(vec![Op::delete("a", revision), Op::create("b", "v")]).await.expect("in order");
    assert!(before.get("a").is_some() && before.get("b").is_none());
    let after = store.snapshot_now();
    assert!(after.get("a").is_none() && after.get("b").is_some());
    let rebuilt = store.snapshot_at(revision).await.expect("history reaches back");
    let keys: Vec<_> = rebuilt.range("").map(|entry| entry.key.to_string()).collect();
    assert_eq!((keys, rebuilt.revision()), (vec!["a".to_owned()], revision));
}

#[tokio::test]
async fn events_carry_what_was_there_before() {
    let store = store(StoreOptions::default()).await;
    let mut watcher = store.watch("", store.revision()).expect("now can be watched from");
    let r1 = create(&store, "a").await;
    let r2 = store.commit(vec![Op::update("a", "w", r1)]).await.expect("in order");
    let r3 = store.commit(vec![Op::delete("a", r2)]).await.expect("in order");
    let mut seen = Vec::new();
    for _ in 0..3 {
        let batch = next(&mut watcher).await.expect("the watcher is in time");
        seen.extend(batch.events.iter().map(|event| match event {
            Event::Put { entry, previous } => {
                (entry.modified, previous.as_ref().map(|previous| previous.modified))
            }
            Event::Delete { previous, revision } => (*revision, Some(previous.modified)),
        }));
    }
    assert_eq!(seen, [(r1, None), (r2, Some(r1)), (r3, Some(r2))]);
}

#[tokio::test]
async fn watchers_share_what_they_are_told() {
    let store = store(StoreOptions::default()).await;
    let now = store.revision();
    let watch = |prefix| store.watch(prefix, now).expect("now can be watched from");
    let (mut one, mut two, mut all) = (watch("a/"), watch("a/"), watch(""));
    store.commit(vec![Op::create("a/1", "v"), Op::create("b/1", "v")]).await.expect("in order");
    let one = next(&mut one).await.expect("in time");
    let two = next(&mut two).await.expect("in time");
    let all = next(&mut all).await.expect("in time");
    assert!(Arc::ptr_eq(&one, &two), "a group filters a commit once");
    assert_eq!((one.events.len(), all.events.len()), (1, 2));
    let entry = |event: &Event| match event {
        Event::Put { entry, .. } | Event::Delete { previous: entry, .. } => Arc::clone(entry),
    };
    let of_one = entry(&one.events[0]);
    assert!(all.events.iter().any(|event| Arc::ptr_eq(&entry(event), &of_one)), "kept once");
}

#[tokio::test]
async fn what_has_happened_is_there_at_once() {
    let store = small(4).await;
    let watch = || store.watch("a/", store.revision()).expect("now can be watched from");
    let (mut watcher, mut slow) = (watch(), watch());
    assert_eq!(watcher.ready(9), Ok(Vec::new()), "nothing has");
    let one = create(&store, "a/1").await;
    create(&store, "b/1").await;
    let (two, three) = (create(&store, "a/2").await, create(&store, "a/3").await);
    let mut ready = |most| {
        let batches = watcher.ready(most).expect("it is in time");
        batches.iter().map(|batch| batch.revision).collect::<Vec<_>>()
    };
    assert_eq!((ready(2), ready(9), ready(9)), (vec![one, two], vec![three], vec![]));
    let four = create(&store, "a/4").await;
    assert_eq!(next(&mut watcher).await.map(|batch| batch.revision), Ok(four));
    create(&store, "a/5").await;
    let error = slow.ready(9).expect_err("its place in history is gone");
    assert!(matches!(error, Error::Compacted { .. }), "{error:?}");
}

#[tokio::test]
async fn a_watcher_too_slow_is_told_and_the_others_are_not_held_up() {
    let store = small(4).await;
    let now = store.revision();
    let mut slow = store.watch("", now).expect("now can be watched from");
    let mut quick = store.watch("", now).expect("now can be watched from");
    for number in 0..10 {
        let revision = create(&store, &format!("k/{number}")).await;
        assert_eq!(next(&mut quick).await.map(|batch| batch.revision), Ok(revision));
    }
    let error = next(&mut slow).await.expect_err("its place in history is gone");
    assert!(matches!(error, Error::Compacted { requested, .. } if requested == now), "{error:?}");
    let error = store.watch("", now).expect_err("its place in history is gone");
    assert!(matches!(error, Error::Compacted { .. }), "{error:?}");
    let error = store.snapshot_at(now).await.expect_err("its place in history is gone");
    assert!(matches!(error, Error::Compacted { .. }), "{error:?}");
}

/// A watcher whose prefix is quiet has missed nothing, however much happens elsewhere.
#[tokio::test]
async fn a_quiet_watcher_is_not_too_slow() {
    let store = small(4).await;
    let mut quiet = store.watch("quiet/", store.revision()).expect("now can be watched from");
    for number in 0..50 {
        create(&store, &format!("loud/{number}")).await;
    }
    assert_eq!(quiet.bookmark(), store.revision(), "its bookmark moves with the others");
    let revision = create(&store, "quiet/1").await;
    assert!(quiet.bookmark() < revision, "not past what it has not delivered");
    assert_eq!(next(&mut quiet).await.map(|batch| batch.revision), Ok(revision));
}

/// A large value pushes old history out, so that memory stays bounded by bytes too.
#[tokio::test]
async fn history_is_bounded_by_bytes() {
    let options = StoreOptions { history_bytes: 3000, ..StoreOptions::default() };
    let store = store(options).await;
    let start = store.revision();
    let first = create(&store, "small").await;
    let mut last = first;
    for number in 0..3 {
        let op = Op::create(format!("big/{number}"), vec![0; 1000]);
        last = store.commit(vec![op]).await.expect("in order");
    }
    assert!(matches!(store.watch("", start), Err(Error::Compacted { .. })));
    assert!(store.watch("", last).is_ok());
}

#[tokio::test]
async fn after_a_restart_history_is_still_there() {
    let engine = memory();
    let first = Store::start(Arc::clone(&engine), StoreOptions::default()).await.expect("starts");
    let before = create(&first, "a").await;
    let during = create(&first, "b").await;
    first.stop().await;
    let second = Store::start(engine, StoreOptions::default()).await.expect("starts again");
    let mut watcher = second.watch("", before).expect("history was loaded again");
    assert_eq!(next(&mut watcher).await.map(|batch| batch.revision), Ok(during));
}

#[tokio::test]
async fn only_its_prefix_is_cached() {
    let options = StoreOptions { prefix: "objects/".to_owned(), ..StoreOptions::default() };
    let store = store(options).await;
    let outside = store.commit(vec![Op::create("blobs/1", "v")]).await.expect("it is stored");
    create(&store, "objects/1").await;
    assert_eq!(store.snapshot().await.expect("it answers").len(), 1);
    assert!(matches!(store.get("blobs/1").await, Err(Error::Invalid { .. })));
    let entry = store.engine().get("blobs/1").await.expect("the engine answers");
    assert_eq!(entry.map(|entry| entry.modified), Some(outside));
}

#[tokio::test]
async fn a_stopped_store_ends_its_watchers() {
    let store = store(StoreOptions::default()).await;
    let mut watcher = store.watch("", store.revision()).expect("now can be watched from");
    let waiting = tokio::spawn(async move { watcher.next().await.map(|batch| batch.revision) });
    store.stop().await;
    let outcome = timeout(Duration::from_secs(5), waiting).await.expect("in time");
    let error = outcome.expect("it does not panic").expect_err("nothing more will come");
    assert!(matches!(error, Error::Unavailable { .. }), "{error:?}");
}

/// When the engine has compacted what the cache did not see, every watcher lists again.
#[tokio::test]
async fn a_cache_left_behind_starts_anew() {
    let store = store(StoreOptions::default()).await;
    let r1 = create(&store, "a").await;
    let mut watcher = store.watch("", r1).expect("now can be watched from");
    let (entries, index) = (crate::entries::Entries::default(), None);
    let loaded = super::load::Loaded { entries, index, revision: Revision(100) };
    store.inner.shared.state.write().reset(loaded);
    let error = next(&mut watcher).await.expect_err("what happened between is unknown");
    assert!(matches!(error, Error::Compacted { oldest: Revision(100), .. }), "{error:?}");
}

/// An entry is found by the last letter of its value.
#[derive(Debug)]
struct LastLetter;

impl Terms for LastLetter {
    fn terms(&self, _key: &str, value: &[u8]) -> Vec<String> {
        value.last().map(|letter| char::from(*letter).to_string()).into_iter().collect()
    }
}

/// Much is read in parts and put together side by side; nothing of it is lost.
#[tokio::test]
async fn everything_is_there_after_a_start_with_much() {
    const MANY: usize = 10_250;
    let engine = memory();
    let numbers: Vec<usize> = (0..MANY).collect();
    for some in numbers.chunks(100) {
        let put = |number: &usize| Op::create(format!("k/{number:05}"), number.to_string());
        engine.commit(some.iter().map(put).collect()).await.expect("the keys are new");
    }
    let terms = Some(Arc::new(LastLetter) as Arc<dyn Terms>);
    let options = StoreOptions { terms, history_revisions: 3, ..StoreOptions::default() };
    let store = Store::start(engine, options).await.expect("a store");
    let snapshot = store.snapshot_now();
    let keys: Vec<&str> = snapshot.range("").map(|entry| &*entry.key).collect();
    let expected: Vec<String> = numbers.iter().map(|number| format!("k/{number:05}")).collect();
    assert_eq!(keys, expected);
    let found: Vec<&str> = snapshot.keys_with("7", "k/", "").expect("an index").collect();
    let expected: Vec<String> =
        numbers.iter().skip(7).step_by(10).map(|number| format!("k/{number:05}")).collect();
    assert_eq!(found, expected);
}

#[tokio::test]
async fn trimming_keeps_the_last_revisions() {
    let store = store(StoreOptions::default()).await;
    store.trim(5).await.expect("there is nothing to trim yet");
    let mut revisions = Vec::new();
    for number in 0..10 {
        revisions.push(create(&store, &format!("k/{number}")).await);
    }
    store.trim(5).await.expect("history can be trimmed");
    assert!(matches!(store.watch("", revisions[3]), Err(Error::Compacted { .. })));
    assert!(store.watch("", revisions[4]).is_ok(), "the last five are left");
    assert_eq!(store.snapshot_now().len(), 10, "values stay");
}

/// A list goes on from what was kept, however much has happened since.
#[tokio::test]
async fn a_state_that_is_kept_is_not_made_again() {
    let store = store(StoreOptions::default()).await;
    let first = create(&store, "a").await;
    store.keep(&store.snapshot_now());
    let second = create(&store, "b").await;
    for number in 0..100 {
        create(&store, &format!("k/{number}")).await;
    }
    let way = |revision| store.inner.shared.state.read().past(revision).map(|past| past.undo.len());
    assert_eq!((way(first), way(second)), (Ok(0), Ok(100)));
    let keys = |snapshot: &super::Snapshot| -> Vec<String> {
        snapshot.range("").map(|entry| entry.key.to_string()).collect()
    };
    assert_eq!(keys(&store.snapshot_at(first).await.expect("it is kept")), ["a"]);
    assert_eq!(keys(&store.snapshot_at(second).await.expect("it is remembered")), ["a", "b"]);
    assert_eq!(way(second), Ok(0), "it is kept from now on");
    store.compact(second).await.expect("forgotten");
    assert!(matches!(store.snapshot_at(first).await, Err(Error::Compacted { .. })));
    assert_eq!(way(second), Ok(0), "what may still be asked for stays");
}
