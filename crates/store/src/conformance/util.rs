//! Short words for the checks.

use std::{sync::Arc, time::Duration};

use futures::{Stream, StreamExt};
use tokio::time::timeout;

use crate::{
    engine::{Batch, Change, Engine, ListRequest},
    error::Error,
    model::{Entry, Op, Revision},
};

/// Far longer than anything takes; a check that runs into it has failed.
pub(super) const PATIENCE: Duration = Duration::from_secs(20);

pub(super) async fn commit(engine: &dyn Engine, ops: Vec<Op>) -> Revision {
    engine.commit(ops).await.expect("the commit is valid and in order")
}

pub(super) async fn create(engine: &dyn Engine, key: &str, value: &str) -> Revision {
    commit(engine, vec![Op::create(key, value.to_owned())]).await
}

pub(super) async fn get(engine: &dyn Engine, key: &str) -> Option<Entry> {
    engine.get(key).await.expect("the engine answers reads")
}

pub(super) async fn list(engine: &dyn Engine, prefix: &str) -> (Vec<Entry>, Revision) {
    let listing = engine.list(ListRequest::prefix(prefix)).await.expect("the engine lists");
    assert!(!listing.more, "a list without limit is complete");
    (listing.entries, listing.revision)
}

pub(super) fn keys(entries: &[Entry]) -> Vec<&str> {
    entries.iter().map(|entry| entry.key.as_ref()).collect()
}

#[track_caller]
pub(super) fn assert_conflict(outcome: Result<Revision, Error>, on: &str, at: Option<Revision>) {
    match outcome {
        Err(Error::Conflict { key, actual, .. }) => {
            assert_eq!((key.as_ref(), actual), (on, at), "a conflict names key and revision");
        }
        other => panic!("expected a conflict on {on}, got {other:?}"),
    }
}

/// The next batch that is no bookmark.
pub(super) async fn next(
    watch: &mut (impl Stream<Item = Result<Batch, Error>> + Unpin),
) -> Result<Batch, Error> {
    loop {
        let item = timeout(PATIENCE, watch.next()).await.expect("a change arrives in time");
        match item.expect("a watch does not end without an error") {
            Ok(batch) if batch.is_bookmark() => {}
            other => return other,
        }
    }
}

/// Batches up to and including `last`, without bookmarks.
pub(super) async fn until(
    watch: &mut (impl Stream<Item = Result<Batch, Error>> + Unpin),
    last: Revision,
) -> Vec<Batch> {
    let mut batches = Vec::new();
    loop {
        let item = timeout(PATIENCE, watch.next()).await.expect("the watch goes on in time");
        let batch = item.expect("a watch does not end").expect("a watch does not fail");
        let revision = batch.revision;
        if !batch.is_bookmark() {
            batches.push(batch);
        }
        if last <= revision {
            return batches;
        }
    }
}

/// What a change says, in a form that is short to compare.
pub(super) fn brief(batch: &Batch) -> (u64, Vec<(String, Option<String>)>) {
    let text = |change: &Change| match change {
        Change::Put(entry) => {
            let value = String::from_utf8_lossy(&entry.value).into_owned();
            (entry.key.to_string(), Some(value))
        }
        Change::Delete { key, .. } => (key.to_string(), None),
    };
    (batch.revision.0, batch.changes.iter().map(text).collect())
}

/// Asks again until it holds.
pub(super) async fn eventually<F>(what: &str, mut holds: impl FnMut() -> F)
where
    F: Future<Output = bool>,
{
    let asking = async {
        while !holds().await {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    assert!(timeout(PATIENCE, asking).await.is_ok(), "{what}");
}

pub(super) fn shared(engine: &Arc<dyn Engine>) -> Arc<dyn Engine> {
    Arc::clone(engine)
}
