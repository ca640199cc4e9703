//! Watches: every change, once, in order, whole commits, from any revision that is left.

use std::sync::Arc;

use super::{World, util::*};
use crate::{
    engine::{Batch, Change, Engine},
    error::Error,
    model::{Op, Revision},
};

pub async fn watches(world: &dyn World) {
    what_a_watch_says(world.fresh().await.as_ref()).await;
    only_its_prefix(world.fresh().await.as_ref()).await;
    from_the_future(world.fresh().await.as_ref()).await;
    list_then_watch(world.fresh().await).await;
    many_writers_one_order(world.fresh().await).await;
    a_slow_consumer(world.fresh().await.as_ref()).await;
    current_is_reached(world.fresh().await.as_ref()).await;
}

async fn what_a_watch_says(engine: &dyn Engine) {
    let r0 = create(engine, "a", "0").await;
    let mut live = engine.watch("", r0).await.expect("a watch opens");
    let r1 = commit(engine, vec![Op::update("a", "1", r0), Op::create("b", "1")]).await;
    let r2 = commit(engine, vec![Op::delete("b", r1), Op::create("c", "2")]).await;
    let put = |key: &str, value: &str| (key.to_owned(), Some(value.to_owned()));
    let expected = [
        (r1.0, vec![put("a", "1"), put("b", "1")]),
        (r2.0, vec![("b".to_owned(), None), put("c", "2")]),
    ];
    let seen: Vec<_> = until(&mut live, r2).await.iter().map(sorted).collect();
    assert_eq!(seen, expected, "live");
    let mut late = engine.watch("", r0).await.expect("a watch opens in the past");
    let seen = until(&mut late, r2).await;
    assert_eq!(seen.iter().map(sorted).collect::<Vec<_>>(), expected, "from history");
    let Change::Put(entry) = find(&seen[0], "a") else { panic!("a was put") };
    assert_eq!((entry.created, entry.modified), (r0, r1), "entries carry their revisions");
    let mut middle = engine.watch("", r1).await.expect("a watch opens in between");
    let seen: Vec<_> = until(&mut middle, r2).await.iter().map(sorted).collect();
    assert_eq!(seen, expected[1..], "resumed after the first");
}

/// etcd tells the changes of one commit in an order of its own.
fn sorted(batch: &Batch) -> (u64, Vec<(String, Option<String>)>) {
    let (revision, mut changes) = brief(batch);
    changes.sort();
    (revision, changes)
}

fn find<'a>(batch: &'a Batch, key: &str) -> &'a Change {
    let found = batch.changes.iter().find(|change| change.key().as_ref() == key);
    found.unwrap_or_else(|| panic!("{key} is in {batch:?}"))
}

async fn only_its_prefix(engine: &dyn Engine) {
    let r0 = create(engine, "x", "0").await;
    let mut watch = engine.watch("a/", r0).await.expect("a watch opens");
    let mut narrow = engine.watch("a/b/", r0).await.expect("a second watch opens");
    let both = vec![Op::create("a/1", "v"), Op::create("b/1", "v"), Op::create("a/b/1", "v")];
    let r1 = commit(engine, both).await;
    create(engine, "a", "outside").await;
    create(engine, "a0", "outside").await;
    let r2 = create(engine, "a/2", "v").await;
    let last = create(engine, "a/b/2", "v").await;
    let keys_of = |batch: &Batch| {
        let mut keys: Vec<_> = batch.changes.iter().map(|c| c.key().to_string()).collect();
        keys.sort();
        (batch.revision, keys)
    };
    let seen: Vec<_> = until(&mut watch, last).await.iter().map(keys_of).collect();
    let expected = [(r1, vec!["a/1", "a/b/1"]), (r2, vec!["a/2"]), (last, vec!["a/b/2"])];
    assert_eq!(seen, expected.map(|(r, keys)| (r, keys.into_iter().map(String::from).collect())));
    let seen: Vec<_> = until(&mut narrow, last).await.iter().map(keys_of).collect();
    let expected = [(r1, vec!["a/b/1".to_owned()]), (last, vec!["a/b/2".to_owned()])];
    assert_eq!(seen, expected);
}

async fn from_the_future(engine: &dyn Engine) {
    let r0 = create(engine, "a", "0").await;
    let outcome = engine.watch("", Revision(r0.0 + 1_000_000)).await.map(|_| ());
    assert!(matches!(outcome, Err(Error::FutureRevision { .. })), "{outcome:?}");
}

/// A list and a watch from its revision miss nothing and repeat nothing, whatever is written
/// meanwhile: replaying the watch over the list gives the state at the end.
async fn list_then_watch(engine: Arc<dyn Engine>) {
    create(engine.as_ref(), "w/start", "0").await;
    let writer = tokio::spawn(churn(shared(&engine), "w/".to_owned(), 200));
    for _ in 0..5 {
        let (entries, revision) = list(engine.as_ref(), "w/").await;
        let mut watch = engine.watch("w/", revision).await.expect("a watch opens");
        let end = create(engine.as_ref(), &format!("w/end{revision}"), "0").await;
        let mut state: std::collections::BTreeMap<_, _> =
            entries.into_iter().map(|entry| (Arc::clone(&entry.key), entry)).collect();
        for batch in until(&mut watch, end).await {
            assert!(revision < batch.revision, "nothing of the list is repeated");
            for change in batch.changes {
                replay(&mut state, change);
            }
        }
        let at = crate::ListRequest { at: Some(end), ..crate::ListRequest::prefix("w/") };
        let listing = engine.list(at).await.expect("it is not compacted");
        assert_eq!(state.into_values().collect::<Vec<_>>(), listing.entries, "nothing is missed");
    }
    writer.await.expect("the writer does not fail");
}

fn replay(state: &mut std::collections::BTreeMap<Arc<str>, crate::Entry>, change: Change) {
    match change {
        Change::Put(entry) => {
            let old = state.insert(Arc::clone(&entry.key), entry.clone());
            let created = old.map_or(entry.modified, |old| old.created);
            assert_eq!(entry.created, created, "{} is in its life", entry.key);
        }
        Change::Delete { key, .. } => {
            state.remove(&key).unwrap_or_else(|| panic!("{key} was there before it was deleted"));
        }
    }
}

/// Creates, updates and deletes a few keys again and again; answers what it committed.
async fn churn(engine: Arc<dyn Engine>, prefix: String, rounds: usize) -> Vec<Revision> {
    let mut revisions = Vec::new();
    for round in 0..rounds {
        let key = format!("{prefix}{}", round % 7);
        let op = match get(engine.as_ref(), &key).await {
            None => Op::create(key, round.to_string()),
            Some(old) if round % 5 == 0 => Op::delete(key, old.modified),
            Some(old) => Op::update(key, round.to_string(), old.modified),
        };
        revisions.push(commit(engine.as_ref(), vec![op]).await);
    }
    revisions
}

async fn many_writers_one_order(engine: Arc<dyn Engine>) {
    let start = create(engine.as_ref(), "start", "0").await;
    let mut watch = engine.watch("", start).await.expect("a watch opens");
    let writers: Vec<_> = (0..4)
        .map(|writer| tokio::spawn(churn(shared(&engine), format!("{writer}/"), 60)))
        .collect();
    let mut committed = Vec::new();
    for writer in writers {
        committed.extend(writer.await.expect("the writer does not fail"));
    }
    committed.sort_unstable();
    assert!(committed.is_sorted_by(|a, b| a < b), "each commit has a revision of its own");
    let last = committed[committed.len() - 1];
    let live: Vec<_> = until(&mut watch, last).await;
    let seen: Vec<_> = live.iter().map(|batch| batch.revision).collect();
    assert_eq!(seen, committed, "every commit once, in order");
    let mut again = engine.watch("", start).await.expect("a watch opens in the past");
    let replayed = until(&mut again, last).await;
    let brief_all = |batches: &[Batch]| batches.iter().map(brief).collect::<Vec<_>>();
    assert_eq!(brief_all(&replayed), brief_all(&live), "history is the same twice");
}

/// A consumer that does not read for a long time gets everything, or is told to list again.
async fn a_slow_consumer(engine: &dyn Engine) {
    let start = create(engine, "start", "0").await;
    let mut watch = engine.watch("", start).await.expect("a watch opens");
    let value = vec![b'x'; 8 << 10];
    let mut committed = Vec::new();
    for number in 0..150 {
        let op = Op::create(format!("slow/{number}"), value.clone());
        committed.push(commit(engine, vec![op]).await);
    }
    let mut seen = Vec::new();
    while seen.last() != committed.last() {
        match next(&mut watch).await {
            Ok(batch) => seen.push(batch.revision),
            Err(Error::Compacted { .. }) => return,
            Err(error) => panic!("a slow consumer got {error}"),
        }
    }
    assert_eq!(seen, committed);
}

/// `current` covers every commit that was acknowledged, and a watch gets there without help.
async fn current_is_reached(engine: &dyn Engine) {
    let first = create(engine, "c/1", "0").await;
    let gone = commit(engine, vec![Op::delete("c/1", first)]).await;
    create(engine, "d/1", "0").await;
    let current = engine.current("c/").await.expect("the engine knows where it is");
    assert!(gone <= current, "a deletion counts");
    let mut watch = engine.watch("c/", first).await.expect("a watch opens");
    let seen: Vec<_> = until(&mut watch, current).await.iter().map(|b| b.revision).collect();
    assert_eq!(seen, [gone]);
}
