//! Conditional writes, commits of several operations, limits.

use bytes::Bytes;

use super::{World, util::*};
use crate::{
    engine::Engine,
    error::Error,
    model::{Expect, KEY_BYTES_MAX, OPERATIONS_MAX, Op, Revision, VALUE_BYTES_MAX},
};

pub async fn writes(world: &dyn World) {
    one_key_through_its_life(world.fresh().await.as_ref()).await;
    every_expectation(world.fresh().await.as_ref()).await;
    all_or_nothing(world.fresh().await.as_ref()).await;
    checks_alone(world.fresh().await.as_ref()).await;
    malformed(world.fresh().await.as_ref()).await;
    limits(world.fresh().await.as_ref()).await;
    odd_keys(world.fresh().await.as_ref()).await;
}

async fn one_key_through_its_life(engine: &dyn Engine) {
    assert_eq!(get(engine, "a").await, None, "nothing is there at first");
    let created = create(engine, "a", "1").await;
    let entry = get(engine, "a").await.expect("it was created");
    assert_eq!((entry.created, entry.modified, &entry.value[..]), (created, created, &b"1"[..]));

    let updated = commit(engine, vec![Op::update("a", "2", created)]).await;
    assert!(created < updated, "revisions grow");
    let entry = get(engine, "a").await.expect("it was updated");
    assert_eq!((entry.created, entry.modified, &entry.value[..]), (created, updated, &b"2"[..]));

    let deleted = commit(engine, vec![Op::delete("a", updated)]).await;
    assert!(updated < deleted);
    assert_eq!(get(engine, "a").await, None, "it was deleted");

    let again = create(engine, "a", "3").await;
    let entry = get(engine, "a").await.expect("it was created again");
    assert_eq!((entry.created, entry.modified), (again, again), "a new life begins");
}

async fn every_expectation(engine: &dyn Engine) {
    let created = create(engine, "k", "1").await;
    let at = commit(engine, vec![Op::update("k", "2", created)]).await;
    let other = create(engine, "other", "1").await;
    let cases = [
        ("k", Expect::Absent, false),
        ("k", Expect::Present, true),
        ("k", Expect::At(at), true),
        ("k", Expect::At(created), false),
        ("k", Expect::At(other), false),
        ("k", Expect::CreatedAt(created), true),
        ("k", Expect::CreatedAt(at), false),
        ("none", Expect::Absent, true),
        ("none", Expect::Present, false),
        ("none", Expect::At(at), false),
        ("none", Expect::CreatedAt(created), false),
    ];
    for (key, expect, holds) in cases {
        let actual = (key == "k").then_some(at);
        let checked = engine.commit(vec![Op::check(key, expect)]).await;
        if holds {
            checked.unwrap_or_else(|error| panic!("check {key} {expect}: {error}"));
            continue;
        }
        assert_conflict(checked, key, actual);
        assert_conflict(engine.commit(vec![Op::put(key, "x", expect)]).await, key, actual);
        if expect != Expect::Absent {
            let delete = Op::Delete { key: key.into(), expect };
            assert_conflict(engine.commit(vec![delete]).await, key, actual);
        }
    }
    let entry = get(engine, "k").await.expect("nothing deleted it");
    assert_eq!((entry.modified, &entry.value[..]), (at, &b"2"[..]), "a conflict changes nothing");
    let kept = commit(engine, vec![Op::put("k", "3", Expect::Present)]).await;
    let entry = get(engine, "k").await.expect("it was put");
    assert_eq!((entry.created, entry.modified), (created, kept));
    let delete = Op::Delete { key: "k".into(), expect: Expect::CreatedAt(created) };
    commit(engine, vec![delete]).await;
    assert_eq!(get(engine, "k").await, None);
}

async fn all_or_nothing(engine: &dyn Engine) {
    let first = commit(engine, vec![Op::create("a", "1"), Op::create("b", "1")]).await;
    let (entries, _) = list(engine, "").await;
    assert!(entries.iter().all(|e| e.created == first && e.modified == first), "one revision");

    let failing = vec![Op::update("a", "2", first), Op::create("c", "2"), Op::create("b", "2")];
    assert_conflict(engine.commit(failing).await, "b", Some(first));
    let (entries, _) = list(engine, "").await;
    assert_eq!(keys(&entries), ["a", "b"]);
    assert!(entries.iter().all(|entry| entry.modified == first), "none of it happened");

    let mixed = vec![
        Op::update("a", "3", first),
        Op::delete("b", first),
        Op::create("c", "3"),
        Op::check("b", Expect::Present),
        Op::check("d", Expect::Absent),
    ];
    let second = commit(engine, mixed).await;
    let (entries, revision) = list(engine, "").await;
    assert_eq!(keys(&entries), ["a", "c"]);
    assert!(entries.iter().all(|entry| entry.modified == second));
    assert!(second <= revision);

    // The expectations of a commit look at the state before it, not at its own writes.
    let inward = vec![Op::create("d", "4"), Op::check("d", Expect::Present)];
    assert_conflict(engine.commit(inward).await, "d", None);
}

async fn checks_alone(engine: &dyn Engine) {
    let first = create(engine, "a", "1").await;
    let checked = commit(engine, vec![Op::check("a", Expect::At(first))]).await;
    assert_eq!(checked, first, "a check makes no revision");
    commit(engine, vec![]).await;
    let second = create(engine, "b", "1").await;
    assert!(first < second);
    let entry = get(engine, "a").await.expect("it is untouched");
    assert_eq!(entry.modified, first, "a check changes nothing");
}

async fn malformed(engine: &dyn Engine) {
    let long = "k".repeat(KEY_BYTES_MAX + 1);
    let cases: [(&str, Vec<Op>); 6] = [
        ("empty key", vec![Op::create("", "v")]),
        ("NUL", vec![Op::create("a\0b", "v")]),
        ("long key", vec![Op::create(long.as_str(), "v")]),
        ("bad check", vec![Op::check("", Expect::Absent)]),
        ("written twice", vec![Op::create("a", "v"), Op::create("a", "w")]),
        ("absent delete", vec![Op::Delete { key: "a".into(), expect: Expect::Absent }]),
    ];
    for (what, ops) in cases {
        let outcome = engine.commit(ops).await;
        assert!(matches!(outcome, Err(Error::Invalid { .. })), "{what}: {outcome:?}");
    }
    assert_eq!(list(engine, "").await.0, vec![], "nothing of it was stored");
}

async fn limits(engine: &dyn Engine) {
    let big = Bytes::from(vec![7; VALUE_BYTES_MAX]);
    commit(engine, vec![Op::create("big", big.clone())]).await;
    assert_eq!(get(engine, "big").await.map(|entry| entry.value), Some(big));
    let outcome = engine.commit(vec![Op::create("b", vec![7; VALUE_BYTES_MAX + 1])]).await;
    let too_large =
        matches!(outcome, Err(Error::TooLarge { bytes, .. }) if bytes == VALUE_BYTES_MAX + 1);
    assert!(too_large, "{outcome:?}");

    let many = |count| (0..count).map(|i| Op::create(format!("m/{i:03}"), "v")).collect::<Vec<_>>();
    let outcome = engine.commit(many(OPERATIONS_MAX + 1)).await;
    assert!(matches!(outcome, Err(Error::TooManyOperations { .. })), "{outcome:?}");
    let revision = commit(engine, many(OPERATIONS_MAX)).await;
    let (entries, _) = list(engine, "m/").await;
    assert_eq!(entries.len(), OPERATIONS_MAX);
    assert!(entries.iter().all(|entry| entry.created == revision), "one commit, one revision");
    let delete = |entry: &crate::Entry| Op::delete(entry.key.clone(), entry.modified);
    commit(engine, entries.iter().map(delete).collect()).await;
    assert_eq!(list(engine, "m/").await.0, vec![]);
}

async fn odd_keys(engine: &dyn Engine) {
    let longest = "k".repeat(KEY_BYTES_MAX);
    let odd = [
        " ",
        "\u{1}",
        "/",
        "//",
        "a",
        "a\u{1}b",
        "a b",
        "a/",
        "a/b",
        "a0",
        "ü",
        "日本/語",
        "\u{10FFFF}",
        "a\nb",
        "%00",
        longest.as_str(),
    ];
    let mut revisions = Vec::new();
    for key in odd {
        revisions.push(create(engine, key, key).await);
    }
    for (key, revision) in odd.iter().zip(revisions) {
        let entry = get(engine, key).await.unwrap_or_else(|| panic!("{key:?} was created"));
        assert_eq!((entry.value.as_ref(), entry.modified), (key.as_bytes(), revision), "{key:?}");
    }
    let mut sorted = odd;
    sorted.sort_unstable();
    let (entries, _) = list(engine, "").await;
    assert_eq!(keys(&entries), sorted, "keys sort by their bytes");
    let empty = commit(engine, vec![Op::create("empty", "")]).await;
    let entry = get(engine, "empty").await.expect("an empty value is a value");
    assert_eq!((entry.value.len(), entry.modified), (0, empty));
    assert_ne!(empty, Revision::ZERO);
}
