//! Backup of a store that is in use, and restore into a new life.

use std::{path::Path, sync::Arc, time::Duration};

use orrery_store::{
    EmbeddedOptions, Engine, Entry, Error, ListRequest, Op, OpenError, Revision, backup,
    embedded::Embedded, inspect_backup, memory, open_embedded, restore,
};

async fn open(path: &Path) -> Arc<dyn Engine> {
    open_embedded(path, EmbeddedOptions::default()).await.expect("the directory opens")
}

async fn entries(engine: &dyn Engine, at: Option<Revision>) -> Vec<Entry> {
    let request = ListRequest { at, ..ListRequest::default() };
    engine.list(request).await.expect("it lists").entries
}

async fn fill(engine: &dyn Engine, round: &str, count: usize) {
    for number in 0..count {
        let op = Op::create(format!("{round}/{number}"), vec![b'x'; number % 300]);
        engine.commit(vec![op]).await.expect("the key is new");
    }
}

/// The backup is one moment of a store that goes on, and comes back as it was.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_running_store_is_backed_up_and_restored() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let (data, file) = (directory.path().join("data"), directory.path().join("backup"));
    let engine = open(&data).await;
    fill(engine.as_ref(), "before", 600).await;
    let lease = engine.acquire("l", "me", Duration::from_secs(60)).await.expect("it answers");
    lease.expect("nobody has it");
    let (writer, engine_too) = (Arc::clone(&engine), Arc::clone(&engine));
    let writing = tokio::spawn(async move { fill(writer.as_ref(), "during", 100).await });
    let made = backup(engine_too.as_ref(), &file).await.expect("a backup is made");
    writing.await.expect("writing goes on");
    assert_eq!(made.incarnation, engine.incarnation());
    assert_eq!(inspect_backup(&file).await.expect("it is whole"), made);

    let mut expected = entries(engine.as_ref(), Some(made.revision)).await;
    expected.retain(|entry| !entry.key.starts_with("leases/"));
    assert_eq!(made.entries, expected.len() as u64);
    let newest = engine.current("").await.expect("it answers");

    let fresh = directory.path().join("restored");
    let done = restore(&file, &fresh, EmbeddedOptions::default()).await.expect("it is restored");
    assert_eq!(done, made);
    let restored = open(&fresh).await;
    assert_eq!(entries(restored.as_ref(), None).await, expected);
    assert_ne!(restored.incarnation(), made.incarnation, "a new life");
    let current = restored.current("").await.expect("it answers");
    assert!(newest < current, "no revision is handed out twice");
    // Whoever remembers the old history, even what came after the backup, lists anew.
    for remembered in [made.revision, newest] {
        let outcome = restored.watch("", remembered).await.map(|_| ());
        assert!(matches!(outcome, Err(Error::Compacted { .. })), "{outcome:?}");
    }
    let first = &expected[0];
    let next = vec![Op::update(Arc::clone(&first.key), "new", first.modified)];
    let revision = restored.commit(next).await.expect("entries kept their revisions");
    assert!(current < revision);
    restored.compact(revision).await.expect("history can be compacted");
    let outcome = open_embedded(&fresh, EmbeddedOptions::default()).await.map(|_| ());
    assert!(matches!(outcome, Err(OpenError::Locked { .. })), "{outcome:?}");
    restored.close().await;
    open(&fresh).await;
}

/// Any engine can be backed up; this is also the way from one to another.
#[tokio::test]
async fn memory_moves_into_a_directory() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let engine = memory();
    fill(engine.as_ref(), "m", 20).await;
    let file = directory.path().join("backup");
    backup(engine.as_ref(), &file).await.expect("a backup is made");
    let data = directory.path().join("data");
    restore(&file, &data, EmbeddedOptions::default()).await.expect("it is restored");
    let expected = entries(engine.as_ref(), None).await;
    assert_eq!(entries(open(&data).await.as_ref(), None).await, expected);
}

#[tokio::test]
async fn a_restore_never_overwrites() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let (data, file) = (directory.path().join("data"), directory.path().join("backup"));
    let engine = open(&data).await;
    fill(engine.as_ref(), "k", 3).await;
    backup(engine.as_ref(), &file).await.expect("a backup is made");
    engine.close().await;
    let error = restore(&file, &data, EmbeddedOptions::default()).await.expect_err("not empty");
    assert!(matches!(error, OpenError::NotEmpty { .. }), "{error:?}");
    assert_eq!(entries(open(&data).await.as_ref(), None).await.len(), 3, "nothing happened to it");
}

/// Every byte of a backup counts: whichever is changed or missing, it is noticed and nothing is
/// made of it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_damaged_backup_is_refused() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let file = directory.path().join("backup");
    let engine = memory();
    fill(engine.as_ref(), "k", 8).await;
    backup(engine.as_ref(), &file).await.expect("a backup is made");
    let whole = std::fs::read(&file).expect("it can be read");
    for at in (0..whole.len()).step_by(7) {
        let mut changed = whole.clone();
        changed[at] ^= 0x10;
        std::fs::write(&file, &changed).expect("it can be written");
        let error = inspect_backup(&file).await.expect_err("it is damaged");
        assert!(matches!(error, OpenError::Corrupt { .. }), "byte {at}: {error:?}");
        std::fs::write(&file, &whole[..at]).expect("it can be written");
        let error = inspect_backup(&file).await.expect_err("it is cut");
        assert!(matches!(error, OpenError::Corrupt { .. }), "cut at {at}: {error:?}");
    }
    let fresh = directory.path().join("fresh");
    let outcome = restore(&file, &fresh, EmbeddedOptions::default()).await;
    assert!(matches!(outcome, Err(OpenError::Corrupt { .. })), "{outcome:?}");
    assert!(!fresh.exists(), "nothing was begun");
}

/// What takes up space on the disk, which for files made in advance is less than their length.
fn blocks(path: &Path) -> u64 {
    use std::os::unix::fs::MetadataExt;
    let mut total = 0;
    for entry in std::fs::read_dir(path).expect("it can be listed") {
        let entry = entry.expect("it can be listed");
        let metadata = entry.metadata().expect("it is there");
        total += if metadata.is_dir() { blocks(&entry.path()) } else { metadata.blocks() * 512 };
    }
    total
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_directory_shrinks_again() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let engine = Embedded::open(directory.path(), EmbeddedOptions::default()).await;
    let engine = engine.expect("the directory opens");
    // The journal that is written now stays, whatever it holds, until it is full.
    let sorted = directory.path().join("data/keyspaces");
    // Of a kind that cannot be compressed.
    let value = || -> Vec<u8> { std::iter::repeat_with(rand::random).take(40_000).collect() };
    for number in 0..400_u32 {
        let op = Op::create(format!("k/{number}"), value());
        engine.commit(vec![op]).await.expect("the key is new");
    }
    engine.reclaim().await.expect("space can be given back");
    let full = blocks(&sorted);
    assert!(10 << 20 < full, "what was written takes space: {full}");
    for entry in engine.list(ListRequest::prefix("k/")).await.expect("it lists").entries {
        engine.commit(vec![Op::delete(entry.key, entry.modified)]).await.expect("in order");
    }
    let last = engine.current("").await.expect("it answers");
    engine.compact(last).await.expect("history can be compacted");
    engine.reclaim().await.expect("space can be given back");
    let empty = blocks(&sorted);
    assert!(empty * 5 < full, "{full} bytes shrank to {empty} only");
    engine.commit(vec![Op::create("k/1", "v")]).await.expect("it goes on");
}
