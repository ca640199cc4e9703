//! The engine from inside: catching up from the log, compaction to the last row.

mod adversity;
mod model;

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use fjall::Readable;
use futures::StreamExt;

use parking_lot::Mutex;

use super::{Embedded, EmbeddedOptions};
use crate::{
    engine::{Batch, Engine, Follower, Following, ListRequest, Watch},
    error::Error,
    model::{Op, Revision},
    store::{Store, StoreOptions},
};

async fn open(path: &std::path::Path) -> Arc<Embedded> {
    Embedded::open(path, EmbeddedOptions::default()).await.expect("the directory opens")
}

/// Watchers further behind than memory reaches read the log, and meet the live end without gap.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_watcher_far_behind_reads_the_log() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let engine = open(directory.path()).await;
    let commit = |number: u32| {
        let engine = Arc::clone(&engine);
        async move { engine.commit(vec![Op::create(format!("k/{number}"), "v")]).await }
    };
    let commits = futures::future::join_all((0..3000).map(commit)).await;
    let mut expected: Vec<_> = commits.into_iter().map(|done| done.expect("it is new")).collect();
    expected.sort_unstable();
    let watch = engine.watch("k/", Revision(1)).await.expect("nothing is compacted");
    let seen: Vec<_> = watch
        .map(|batch| batch.expect("the watch does not fail"))
        .filter(|batch| std::future::ready(!batch.is_bookmark()))
        .map(|batch| batch.revision)
        .take(expected.len())
        .collect()
        .await;
    assert_eq!(seen, expected);
    assert!(1000 < engine.stats().replayed, "the log was read");
}

/// Notes what it is given, and what of it is acknowledged.
#[derive(Default)]
struct Noting {
    given: Mutex<Vec<Revision>>,
    acknowledged: AtomicUsize,
}

impl Follower for Noting {
    fn take(&self, batches: Vec<Batch>) -> Result<(), Error> {
        self.given.lock().extend(batches.iter().map(|batch| batch.revision));
        Ok(())
    }

    fn acknowledged(&self) {
        self.acknowledged.store(self.given.lock().len(), Ordering::SeqCst);
    }
}

/// Wants nothing at all.
struct Refusing;

impl Follower for Refusing {
    fn take(&self, _batches: Vec<Batch>) -> Result<(), Error> {
        Err(Error::invalid("no more"))
    }

    fn acknowledged(&self) {}
}

#[track_caller]
fn on(following: Following) -> Watch {
    match following {
        Following::On(watch) => watch,
        Following::Behind => panic!("it is too far behind"),
        Following::Never => panic!("it cannot be followed"),
    }
}

/// Also where it begins while others commit: nothing is left out, nothing comes twice.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn followers_know_of_a_commit_before_it_is_acknowledged() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let engine = open(directory.path()).await;
    let follower = Arc::new(Noting::default());
    let commits = |writer: u32, watched: bool| {
        let (engine, follower) = (Arc::clone(&engine), Arc::clone(&follower));
        tokio::spawn(async move {
            for number in 0..100 {
                let op = Op::create(format!("k/{writer}/{number}"), "v");
                let revision = engine.commit(vec![op]).await.expect("it is new");
                let known = follower.given.lock().contains(&revision);
                assert!(known || !watched, "{revision} is not known");
            }
        })
    };
    let before: Vec<_> = (0..4).map(|writer| commits(writer, false)).collect();
    let after = engine.current("k/").await.expect("it answers");
    let watch = on(engine.follow("k/", after, follower.clone()));
    let since: Vec<_> = (4..8).map(|writer| commits(writer, true)).collect();
    for writer in before.into_iter().chain(since) {
        writer.await.expect("its commits were known");
    }
    let last = engine.current("k/").await.expect("it answers");
    let expected: Vec<_> = (after.0 + 1..=last.0).map(Revision).collect();
    assert_eq!(*follower.given.lock(), expected);
    // That comes after the answer, so it may be still on its way.
    while follower.acknowledged.load(Ordering::SeqCst) < expected.len() {
        tokio::task::yield_now().await;
    }
    drop(watch);
    engine.commit(vec![Op::create("k/last", "v")]).await.expect("it is new");
    let given = follower.given.lock().len();
    assert_eq!(given, expected.len(), "nobody follows any more");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn followers_are_told_why_it_ends() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let engine = open(directory.path()).await;
    let current = engine.current("").await.expect("it answers");
    let mut refused = on(engine.follow("", current, Arc::new(Refusing)));
    let mut closed = on(engine.follow("", current, Arc::new(Noting::default())));
    engine.commit(vec![Op::create("k", "v")]).await.expect("a follower's trouble is its own");
    assert_eq!(refused.next().await, Some(Err(Error::invalid("no more"))));
    assert_eq!(engine.shared.feed.followers(), 1, "the other goes on");
    let late = engine.follow("", current, Arc::new(Refusing));
    assert_eq!(on(late).next().await, Some(Err(Error::invalid("no more"))));
    engine.close().await;
    assert!(matches!(closed.next().await, Some(Err(Error::Unavailable { .. }))));
    assert!(matches!(engine.follow("", current, Arc::new(Refusing)), Following::Never));
}

/// A cache that begins with history that only the log has follows once it has read that.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cache_follows_when_it_has_caught_up() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let engine = open(directory.path()).await;
    for number in 0..20 {
        engine.commit(vec![Op::create(format!("k/{number}"), "v")]).await.expect("it is new");
    }
    engine.close().await;
    let engine = open(directory.path()).await;
    assert!(matches!(engine.follow("", Revision(5), Arc::new(Refusing)), Following::Behind));
    let store = Store::start(engine.clone(), StoreOptions::default()).await.expect("it starts");
    for number in 20..1000 {
        let revision = store.commit(vec![Op::create(format!("k/{number}"), "v")]).await;
        assert_eq!(store.revision(), revision.expect("it is new"));
    }
    assert_eq!(engine.shared.feed.followers(), 1);
    store.watch("k/", Revision(5)).expect("history goes back before the start");
    store.stop().await;
    assert_eq!(engine.shared.feed.followers(), 0);
}

/// How many rows each table has.
fn rows(engine: &Embedded) -> [usize; 2] {
    let tables = engine.shared.tables().expect("it is open");
    let snapshot = tables.db.snapshot();
    [&tables.base, &tables.commits].map(|table| snapshot.len(table).expect("tables can be read"))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn compaction_leaves_the_current_values_and_nothing_else() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let engine = open(directory.path()).await;
    let mut last = Revision::ZERO;
    for round in 0..700_u32 {
        let key = format!("k/{}", round % 10);
        let op = match engine.get(&key).await.expect("it answers") {
            None => Op::create(key, "v"),
            Some(old) if round % 7 == 0 => Op::delete(key, old.modified),
            Some(old) => Op::update(key, "w", old.modified),
        };
        last = engine.commit(vec![op]).await.expect("nobody else writes");
    }
    let listed = async || engine.list(ListRequest::default()).await.expect("it lists").entries;
    let before = listed().await;
    assert_eq!(rows(&engine), [0, 700], "nothing is in the base yet, and nobody came at once");
    engine.compact(last).await.expect("history can be compacted");
    assert_eq!(rows(&engine), [before.len(), 0]);
    assert_eq!(listed().await, before);
    assert_eq!(engine.stats().compacted, 700);
}

/// Commits that come alone, in crowds, and after crowds are all done once and in order.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn alone_and_in_crowds_each_commit_is_done_once() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let engine = open(directory.path()).await;
    let mut revisions = Vec::new();
    for round in 0..20_u32 {
        for number in 0..5 {
            let op = Op::create(format!("alone/{round}/{number}"), "v");
            revisions.push(engine.commit(vec![op]).await.expect("it is new"));
        }
        let crowd = (0..40).map(|number| {
            let engine = Arc::clone(&engine);
            let op = Op::create(format!("crowd/{round}/{number}"), "v");
            tokio::spawn(async move { engine.commit(vec![op]).await })
        });
        let mut crowd: Vec<_> = futures::future::join_all(crowd)
            .await
            .into_iter()
            .map(|done| done.expect("no panic").expect("it is new"))
            .collect();
        crowd.sort_unstable();
        revisions.extend(crowd);
    }
    assert!(revisions.is_sorted() && revisions.len() == 900);
    revisions.dedup();
    assert_eq!(revisions.len(), 900, "each has a revision of its own");
    engine.close().await;
    let again = open(directory.path()).await;
    assert_eq!(Some(&again.current("").await.expect("it is open")), revisions.last());
}

/// Closing waits for who commits, and lets go of the directory.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn closing_while_many_commit_loses_no_answer() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    for round in 0..10_u32 {
        let engine = open(directory.path()).await;
        let commit = |number: u32| {
            let engine = Arc::clone(&engine);
            tokio::spawn(async move {
                engine.commit(vec![Op::create(format!("k/{round}/{number}"), "v")]).await
            })
        };
        let commits: Vec<_> = (0..50).map(commit).collect();
        engine.close().await;
        let mut done = 0;
        for commit in commits {
            done += usize::from(commit.await.expect("no panic").is_ok());
        }
        let again = open(directory.path()).await;
        let request = ListRequest::prefix(format!("k/{round}/"));
        let listed = again.list(request).await.expect("it is open").entries.len();
        assert_eq!(listed, done, "what was answered is there, and nothing else");
        again.close().await;
    }
}
