//! A disk that returns something else than was written: found, named, never served.

use std::{
    fs,
    path::{Path, PathBuf},
};

use orrery_store::{
    EmbeddedOptions, Engine, Entry, Error, ListRequest, Op, OpenError, open_embedded,
};

/// A store with rows in sorted files and in the journal, closed; and what it holds.
async fn made(path: &Path) -> Vec<Entry> {
    let engine = orrery_store::embedded::Embedded::open(path, EmbeddedOptions::default()).await;
    let engine = engine.expect("the directory opens");
    for number in 0..40_u32 {
        if number == 30 {
            engine.reclaim().await.expect("sorted files can be made");
        }
        let op = Op::create(format!("k/{number:02}"), vec![b'0' + (number % 10) as u8; 3000]);
        engine.commit(vec![op]).await.expect("the key is new");
    }
    let entries = engine.list(ListRequest::default()).await.expect("it lists").entries;
    engine.close().await;
    // Opening it again cuts the space made in advance off the journal, which is quicker to copy.
    let again = open_embedded(path, EmbeddedOptions::default()).await.expect("it opens again");
    again.close().await;
    entries
}

fn files(path: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(path).expect("it can be listed") {
        let path = entry.expect("it can be listed").path();
        if path.is_dir() { found.extend(files(&path)) } else { found.push(path) }
    }
    found.sort();
    found
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).expect("a directory can be made");
    for entry in fs::read_dir(from).expect("it can be listed") {
        let path = entry.expect("it can be listed").path();
        let target = to.join(path.file_name().expect("it has a name"));
        if path.is_dir() {
            copy(&path, &target);
        } else {
            fs::copy(&path, &target).expect("a file can be copied");
        }
    }
}

#[derive(Debug, PartialEq, Eq)]
enum Outcome {
    /// Everything came back as it was.
    Intact,
    /// The damage was said to be there.
    Named(String),
    /// Something else came back.
    Served,
}

/// Opens a directory and reads all of it.
async fn examine(path: &Path, expected: &[Entry]) -> Outcome {
    let engine = match open_embedded(path, EmbeddedOptions::default()).await {
        Ok(engine) => engine,
        Err(error) => return Outcome::Named(error.to_string()),
    };
    let listed = engine.list(ListRequest::default()).await;
    let outcome = match listed {
        Ok(listing) if listing.entries == expected => Outcome::Intact,
        Ok(_) => Outcome::Served,
        Err(error) => Outcome::Named(error.to_string()),
    };
    engine.close().await;
    outcome
}

/// Flips bytes all over the files. Whatever they hit, what is served is what was written.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_flipped_byte_is_never_served() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let original = directory.path().join("original");
    let expected = made(&original).await;
    let mut named = 0;
    for (number, file) in files(&original).iter().enumerate() {
        let length = fs::metadata(file).expect("it is there").len().min(200_000) as usize;
        for part in [0, 1, 3, 5] {
            let at = length * part / 7;
            if length <= at {
                continue;
            }
            let copied = directory.path().join(format!("{number}-{part}"));
            copy(&original, &copied);
            let target = copied.join(file.strip_prefix(&original).expect("it is inside"));
            let mut bytes = fs::read(&target).expect("it can be read");
            bytes[at] ^= 0x24;
            fs::write(&target, bytes).expect("it can be written");
            match examine(&copied, &expected).await {
                Outcome::Intact => {}
                Outcome::Named(_) => named += 1,
                Outcome::Served => panic!("damage at byte {at} of {} was served", file.display()),
            }
            fs::remove_dir_all(&copied).expect("it can be removed");
        }
    }
    assert!(5 <= named, "only {named} changes were noticed");
}

fn newest_journal(path: &Path) -> PathBuf {
    let mut journals = files(&path.join("data"));
    journals.retain(|file| file.extension().is_some_and(|extension| extension == "jnl"));
    journals.pop().expect("there is a journal")
}

/// Damage in the middle of the journal would cost every commit after it; it is refused and named.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_damaged_journal_is_named() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    made(directory.path()).await;
    let journal = newest_journal(directory.path());
    let mut bytes = fs::read(&journal).expect("it can be read");
    bytes[200] ^= 0xff;
    fs::write(&journal, bytes).expect("it can be written");
    let opened = open_embedded(directory.path(), EmbeddedOptions::default()).await;
    let error = opened.expect_err("commits are missing");
    let named = matches!(&error, OpenError::Corrupt { path, .. } if *path == journal);
    assert!(named, "{error}");
    assert!(error.to_string().contains("at byte"), "{error}");
}

/// A journal that lost its end, though it was durable: the note beside it tells.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_journal_cut_short_is_named() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    made(directory.path()).await;
    let journal = newest_journal(directory.path());
    let bytes = fs::read(&journal).expect("it can be read");
    let used = bytes.iter().rposition(|byte| *byte != 0).expect("it is not empty");
    fs::write(&journal, &bytes[..used - 10]).expect("it can be written");
    let opened = open_embedded(directory.path(), EmbeddedOptions::default()).await;
    let error = opened.expect_err("a commit is missing");
    assert!(error.to_string().contains("were durable, now they end at"), "{error}");
}

/// Damage that appears while the store is open is named by the read that meets it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn damage_under_an_open_store_is_named() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    made(directory.path()).await;
    let options = EmbeddedOptions { block_cache_bytes: 0, ..EmbeddedOptions::default() };
    let engine = open_embedded(directory.path(), options).await.expect("it opens");
    for file in files(&directory.path().join("data").join("keyspaces")) {
        let bytes = fs::read(&file).expect("it can be read");
        // The blocks of a sorted file come first; what describes them comes last.
        if 40_000 < bytes.len() || file.parent().is_some_and(|p| p.ends_with("tables")) {
            let changed: Vec<u8> = bytes.iter().map(|byte| byte ^ 0x11).collect();
            use std::os::unix::fs::FileExt;
            let open = fs::File::options().write(true).open(&file).expect("it can be opened");
            open.write_all_at(&changed[..changed.len() / 2], 0).expect("it can be written");
        }
    }
    let error = engine.list(ListRequest::default()).await.expect_err("what it reads is damaged");
    assert!(matches!(error, Error::Corrupt { .. }), "{error:?}");
}
