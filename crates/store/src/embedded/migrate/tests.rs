//! A directory as the first layout left it.
use std::{fs, path::Path};

use bytes::BufMut as _;
use fjall::{Database, OwnedWriteBatch};

use super::*;
use crate::{
    embedded::{Embedded, EmbeddedOptions},
    engine::{Engine, ListRequest},
    error::OpenError,
    model::Op,
};

/// Its last commit.
const HEAD: Revision = Revision(9);

fn seal(table: &str, key: &[u8], body: &[u8]) -> Vec<u8> {
    [body, &checksum(table, key, body).to_be_bytes()].concat()
}

fn value_key(key: &str, revision: u64) -> Vec<u8> {
    [key.as_bytes(), &[0], &revision.to_be_bytes()].concat()
}

fn put(batch: &mut OwnedWriteBatch, db: &Database, table: &str, key: &[u8], body: &[u8]) {
    let keyspace = db.keyspace(table, KeyspaceCreateOptions::default).expect("a table");
    batch.insert(&keyspace, key, seal(table, key, body));
}

/// Two versions of `a`, one of `b`, and `c`, which was deleted. `sum` is over the entries that are said to be there.
fn made(path: &Path, sum: &[(&str, u64)]) -> Incarnation {
    let incarnation = Incarnation::fresh();
    let db = Database::builder(path.join("data")).open().expect("a database");
    let mut batch = db.batch().durability(Some(PersistMode::SyncAll));
    let value = |created: u64, value: &str| {
        let mut body = vec![VALUE];
        body.put_u64(created);
        body.extend_from_slice(value.as_bytes());
        body
    };
    let versions = [
        ("a", 3, value(3, "old")),
        ("a", 7, value(3, "new")),
        ("b", 5, value(5, "only")),
        ("c", 4, value(4, "gone")),
        ("c", 9, vec![2]),
    ];
    for (key, revision, body) in versions {
        put(&mut batch, &db, "values", &value_key(key, revision), &body);
    }
    let head = [3_u64.to_be_bytes(), 7_u64.to_be_bytes()].concat();
    put(&mut batch, &db, "heads", b"a", &head);
    put(&mut batch, &db, "log", &3_u64.to_be_bytes(), b"what it changed");
    let hashes = sum.iter().map(|(key, at)| hash(&[key.as_bytes(), &at.to_be_bytes()]));
    let sum = Sum { count: sum.len() as u64, hash: hashes.fold(0, |all, hash| all ^ hash) };
    put(&mut batch, &db, "meta", b"sum", &sum.to_bytes());
    put(&mut batch, &db, "meta", b"head", &HEAD.0.to_be_bytes());
    put(&mut batch, &db, "meta", b"compacted", &2_u64.to_be_bytes());
    put(&mut batch, &db, "meta", b"incarnation", incarnation.0.as_bytes());
    batch.commit().expect("it is written");
    fs::write(path.join("FORMAT"), "orrery-store 1\n").expect("the format");
    incarnation
}

/// Puts the old tables and the old format back beside what is there.
fn made_again(path: &Path) {
    fs::remove_file(path.join("HEAD")).expect("the note");
    made(path, &[("a", 7), ("b", 5)]);
}

async fn opened(path: &Path) -> std::sync::Arc<Embedded> {
    Embedded::open(path, EmbeddedOptions::default()).await.expect("it opens")
}

async fn listed(engine: &Embedded) -> Vec<(String, String, u64, u64)> {
    let listing = engine.list(ListRequest::default()).await.expect("it lists");
    let text = |value: &[u8]| String::from_utf8_lossy(value).into_owned();
    let entries = listing.entries.iter();
    entries.map(|it| (it.key.to_string(), text(&it.value), it.created.0, it.modified.0)).collect()
}

#[tokio::test]
async fn everything_that_was_there_is_there() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let incarnation = made(directory.path(), &[("a", 7), ("b", 5)]);
    let engine = opened(directory.path()).await;
    let expected = [("a".into(), "new".into(), 3, 7), ("b".into(), "only".into(), 5, 5)].to_vec();
    assert_eq!(listed(&engine).await, expected);
    assert_eq!(engine.incarnation(), incarnation, "it is the same life");
    assert_eq!(engine.current("").await, Ok(HEAD));
    let watched = engine.watch("", Revision(5)).await.err();
    assert!(matches!(watched, Some(Error::Compacted { .. })), "{watched:?}");
    let next = engine.commit(vec![Op::update("a", "newer", Revision(7))]).await;
    assert_eq!(next, Ok(Revision(10)), "revisions go on");
    engine.close().await;

    let format = fs::read_to_string(directory.path().join("FORMAT")).expect("the format");
    assert_eq!(format, "orrery-store 2\n");
    let again = opened(directory.path()).await;
    assert_eq!(listed(&again).await[0], ("a".into(), "newer".into(), 3, 10));
    let tables = again.shared.tables().expect("it is open");
    assert!(FIRST.iter().all(|table| !tables.db.keyspace_exists(table)), "the old ones are gone");
}

/// As after a crash just before the format was named: it begins again.
#[tokio::test]
async fn what_was_left_half_done_is_done_again() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    made(directory.path(), &[("a", 7), ("b", 5)]);
    let db = Database::builder(directory.path().join("data")).open().expect("a database");
    let base = db.keyspace("base", KeyspaceCreateOptions::default).expect("a table");
    let head = Head { created: Revision(1), modified: Revision(1) };
    base.insert("a", format::encode_base("a", head, b"half")).expect("it is written");
    base.insert("z", format::encode_base("z", head, b"half")).expect("it is written");
    drop((base, db));
    // Then as after one just before that: all is written, and only the format is not named.
    for _ in 0..2 {
        let engine = opened(directory.path()).await;
        assert_eq!(listed(&engine).await.len(), 2);
        engine.close().await;
        drop(engine);
        made_again(directory.path());
    }
}

#[tokio::test]
async fn what_lost_an_entry_is_refused_and_stays_as_it_is() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    made(directory.path(), &[("a", 7), ("b", 5), ("d", 8)]);
    for _ in 0..2 {
        let error = Embedded::open(directory.path(), EmbeddedOptions::default()).await;
        let error = error.expect_err("an entry is missing");
        assert!(matches!(error, OpenError::Corrupt { .. }), "{error}");
        assert!(error.to_string().contains("holds 2 entries where 3 were"), "{error}");
    }
}

/// Whoever opens it is told what is wrong, every time, and nothing of it goes.
async fn refused(path: &Path, reason: &str) {
    for _ in 0..2 {
        let error = Embedded::open(path, EmbeddedOptions::default()).await;
        let error = error.expect_err("something is missing").to_string();
        assert!(error.contains(reason), "{error}");
    }
    let format = fs::read_to_string(path.join("FORMAT")).expect("the format");
    assert_eq!(format, "orrery-store 1\n");
    let db = Database::builder(path.join("data")).open().expect("a database");
    let values = db.keyspace("values", KeyspaceCreateOptions::default).expect("a table");
    assert_eq!(values.len().expect("it can be read"), 5);
}

#[tokio::test]
async fn what_lost_where_it_stands_is_refused_and_stays_as_it_is() {
    for name in ["sum", "head", "incarnation"] {
        let directory = tempfile::tempdir().expect("a temporary directory");
        made(directory.path(), &[("a", 7), ("b", 5)]);
        let db = Database::builder(directory.path().join("data")).open().expect("a database");
        let meta = db.keyspace("meta", KeyspaceCreateOptions::default).expect("a table");
        meta.remove(name).expect("it is removed");
        drop((meta, db));
        refused(directory.path(), &format!("row {name} of table meta: it is missing")).await;
    }
}

#[tokio::test]
async fn what_ends_before_its_note_is_refused_and_stays_as_it_is() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let incarnation = made(directory.path(), &[("a", 7), ("b", 5)]).to_string();
    let note = |head: u64| {
        let row = seal("meta", incarnation.as_bytes(), &head.to_be_bytes());
        fs::write(directory.path().join("HEAD"), row).expect("the note");
    };
    note(HEAD.0 + 1);
    refused(directory.path(), "commits up to 10 were durable, now they end at 9").await;
    note(HEAD.0);
    assert_eq!(listed(&*opened(directory.path()).await).await.len(), 2);
}

/// One that was made and never written to, or where a crash came before that.
#[tokio::test]
async fn what_was_never_written_to_is_new() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    fs::write(directory.path().join("FORMAT"), "orrery-store 1\n").expect("the format");
    let engine = opened(directory.path()).await;
    assert_eq!(engine.commit(vec![Op::create("a", "v")]).await, Ok(Revision(2)));
    engine.close().await;
    assert_eq!(listed(&*opened(directory.path()).await).await.len(), 1);
}
