//! What is special about the engine in a directory: grouping, locks, formats.

use std::{os::unix::fs::PermissionsExt as _, path::Path, sync::Arc};

use orrery_store::{EmbeddedOptions, Engine, Op, OpenError, embedded::Embedded};

async fn open(path: &Path) -> Arc<Embedded> {
    Embedded::open(path, EmbeddedOptions::default()).await.expect("the directory opens")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn concurrent_commits_share_a_sync() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let engine = open(directory.path()).await;
    let commit = |number: u32| {
        let engine = Arc::clone(&engine);
        async move { engine.commit(vec![Op::create(format!("k/{number}"), "v")]).await }
    };
    let outcomes = futures::future::join_all((0..512).map(commit)).await;
    assert!(outcomes.iter().all(Result::is_ok));
    let stats = engine.stats();
    assert_eq!(stats.commits, 512);
    assert!(stats.syncs <= 32, "512 commits at once took {} syncs", stats.syncs);
}

/// Others on the machine cannot read what is kept.
#[tokio::test]
async fn a_new_directory_is_its_owners_alone() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let path = directory.path().join("data/store");
    let engine = open(&path).await;
    let mode = |path: &Path| path.metadata().expect("it is there").permissions().mode();
    assert_eq!(mode(&path) & 0o777, 0o700);
    assert_ne!(mode(&directory.path().join("data")) & 0o055, 0, "what is above is as usual");
    engine.close().await;
}

#[tokio::test]
async fn a_directory_in_use_is_refused() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let engine = open(directory.path()).await;
    let second = Embedded::open(directory.path(), EmbeddedOptions::default()).await;
    let error = second.expect_err("it is in use");
    let pid = std::process::id();
    let found = matches!(&error, OpenError::Locked { pid: Some(found), .. } if *found == pid);
    assert!(found, "{error:?}");
    let text = error.to_string();
    assert!(text.contains("in use by another process") && text.contains("stop it first"), "{text}");
    engine.close().await;
    open(directory.path()).await;
}

#[track_caller]
fn write(path: &Path, content: &str) {
    std::fs::write(path, content).expect("a file can be written");
}

#[tokio::test]
async fn a_newer_format_is_refused() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    open(directory.path()).await.close().await;
    write(&directory.path().join("FORMAT"), "orrery-store 3\n");
    let opened = Embedded::open(directory.path(), EmbeddedOptions::default()).await;
    let error = opened.expect_err("the format is newer");
    assert!(matches!(error, OpenError::NewerFormat { found: 3, supported: 2, .. }), "{error:?}");
}

#[tokio::test]
async fn a_directory_of_something_else_is_refused_and_left_alone() {
    for (file, content) in [("notes.txt", "mine"), ("FORMAT", "something else")] {
        let directory = tempfile::tempdir().expect("a temporary directory");
        write(&directory.path().join(file), content);
        let opened = Embedded::open(directory.path(), EmbeddedOptions::default()).await;
        let error = opened.expect_err("it is not a store");
        assert!(matches!(error, OpenError::NotAStore { .. }), "{error:?}");
        let kept = std::fs::read_to_string(directory.path().join(file)).expect("it is there");
        assert_eq!(kept, content);
    }
}

#[tokio::test]
async fn a_closed_engine_says_so() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let engine = open(directory.path()).await;
    engine.close().await;
    let error = engine.commit(vec![Op::create("a", "v")]).await.expect_err("it is closed");
    assert_eq!(error.to_string(), "the store takes no writes: the engine is closed");
    assert!(engine.get("a").await.is_err());
}
