//! The engine from inside: catching up from the log, compaction to the last row.

use std::sync::Arc;

use fjall::Readable;
use futures::StreamExt;

use super::{Embedded, EmbeddedOptions};
use crate::{
    engine::Engine,
    model::{Op, Revision},
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

/// How many rows each table has.
fn rows(engine: &Embedded) -> [usize; 3] {
    let tables = engine.shared.tables().expect("it is open");
    let snapshot = tables.db.snapshot();
    [&tables.heads, &tables.values, &tables.log]
        .map(|table| snapshot.len(table).expect("tables can be read"))
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
    let heads = rows(&engine)[0];
    engine.compact(last).await.expect("history can be compacted");
    assert_eq!(rows(&engine), [heads, heads, 0]);
    assert_eq!(engine.stats().compacted, 700);
}
