//! Rows that go while the store is open, compactions that overlap, and reads at the wrong moment.

use std::{path::Path, sync::Arc};

use futures::StreamExt;
use parking_lot::Mutex;

use super::{
    super::{EmbeddedOptions, Shared, compaction, format, reader, tables::Tables},
    Embedded, on, open,
};
use crate::{
    engine::{Batch, Engine, Follower, ListRequest},
    error::Error,
    model::{Entry, Op, Revision},
};

/// A store with `k/0`, `k/1` and so on, each of a commit of its own.
async fn filled(path: &Path, commits: u64) -> (Arc<Embedded>, Arc<Tables>) {
    let engine = open(path).await;
    for number in 0..commits {
        let op = Op::create(format!("k/{number}"), "v");
        engine.commit(vec![op]).await.expect("it is new");
    }
    let tables = engine.shared.tables().expect("it is open");
    (engine, tables)
}

#[track_caller]
fn is_named<T: std::fmt::Debug>(found: Result<T, Error>, row: &str) {
    let error = found.expect_err("a row is gone").to_string();
    assert!(error.contains(row), "{error}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_value_that_is_gone_is_named() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let (engine, tables) = filled(directory.path(), 3).await;
    tables.commits.remove(format::revision_key(Revision(4))).expect("it is removed");
    is_named(engine.get("k/2").await, "table commits");
    engine.compact(Revision(3)).await.expect("what is left of it can go");
    tables.base.remove("k/0").expect("it is removed");
    is_named(engine.get("k/0").await, "row k/0 of table base");
    assert!(engine.get("k/1").await.is_ok_and(|found| found.is_some()));
}

/// Else nobody could say later what it was.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn commits_that_are_gone_are_not_folded_over() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let (engine, tables) = filled(directory.path(), 5).await;
    tables.commits.remove(format::revision_key(Revision(3))).expect("it is removed");
    let row = format::revision_key(Revision(3)).escape_ascii().to_string();
    is_named(engine.compact(Revision(6)).await, &row);
    assert_eq!(tables.base.len().expect("it can be read"), 0);
}

/// The contract: a call that is cancelled leaves the engine whole. What it had begun goes on beside the next one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_fold_that_comes_late_changes_nothing() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let (engine, tables) = filled(directory.path(), 1).await;
    engine.compact(Revision(1)).await.expect("it is there already");
    let mut batch = tables.batch();
    tables.put_compacted(&mut batch, Revision(2));
    batch.commit().expect("the bound is moved");
    let late = compaction::prepare(&tables).expect("it reads").expect("there is a commit");
    for at in 2..5 {
        let op = Op::update("k/0", at.to_string(), Revision(at));
        engine.commit(vec![op]).await.expect("nobody else writes");
    }
    engine.compact(Revision(5)).await.expect("history can be compacted");
    late.write(&tables).expect("it is no error");
    assert_eq!(engine.get("k/0").await.map(value), Ok(Some("4".into())));
    drop(tables);
    engine.close().await;
    assert_eq!(open(directory.path()).await.get("k/0").await.map(value), Ok(Some("4".into())));
}

fn value(entry: Option<Entry>) -> Option<bytes::Bytes> {
    entry.map(|entry| entry.value)
}

/// The present is read before the tables are, and history may go up to a later one in between.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_present_is_never_compacted() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let (engine, tables) = filled(directory.path(), 5).await;
    engine.compact(Revision(6)).await.expect("history can be compacted");
    let listed = reader::list(&tables, &Mutex::default(), &ListRequest::default(), Revision(3));
    let listed = listed.expect("what is there now can be listed");
    assert_eq!((listed.revision, listed.entries.len()), (Revision(6), 5));
}

/// Looks where keys stand while a commit is published.
struct Looking(Arc<Shared>);

impl Follower for Looking {
    fn take(&self, batches: Vec<Batch>) -> Result<(), Error> {
        let Some(heads) = self.0.heads.try_read() else { return Ok(()) };
        let known = heads.values().map(|head| head.modified).max();
        let published = self.0.feed.head();
        if known.is_some_and(|known| published < known) {
            return Err(Error::invalid(format!("{known:?} can be read, of {batches:?}")));
        }
        Ok(())
    }

    fn acknowledged(&self) {}
}

/// Who has read a value finds it in a list from then on, which reads what is published.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nobody_reads_a_commit_that_lists_do_not_have() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let engine = open(directory.path()).await;
    let follower = Arc::new(Looking(Arc::clone(&engine.shared)));
    let mut watch = on(engine.follow("", Revision(1), follower));
    engine.commit(vec![Op::create("k", "v")]).await.expect("it is new");
    let told = futures::poll!(watch.next());
    assert!(told.is_pending(), "{told:?}");
}

/// As where the last rows are lost, and the note of them too.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_ends_before_its_history_begins_is_refused() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let (engine, tables) = filled(directory.path(), 3).await;
    let mut batch = tables.batch();
    tables.put_compacted(&mut batch, Revision(9));
    batch.commit().expect("the bound is moved");
    drop(tables);
    engine.close().await;
    std::fs::remove_file(directory.path().join("HEAD")).expect("the note");
    let opened = Embedded::open(directory.path(), EmbeddedOptions::default()).await;
    let error = opened.expect_err("commits are missing").to_string();
    assert!(error.contains("commits up to 9 were durable, now they end at 4"), "{error}");
}
