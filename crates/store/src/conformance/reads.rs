//! Lists: prefixes, pages, the past, compaction; and what is left after opening again.

use std::sync::Arc;

use super::{World, util::*};
use crate::{
    engine::{Engine, ListRequest},
    error::Error,
    model::{Op, Revision},
};

pub async fn reads(world: &dyn World) {
    prefixes(world.fresh().await.as_ref()).await;
    pages_of_one_moment(world.fresh().await.as_ref()).await;
    the_past(world.fresh().await.as_ref()).await;
    compaction(world.fresh().await.as_ref()).await;
    if world.durable() {
        opened_again(world).await;
    }
}

async fn prefixes(engine: &dyn Engine) {
    for key in ["a", "a/", "a/b", "a/b/c", "a0", "ab", "b", "ä", "äb"] {
        create(engine, key, "v").await;
    }
    let cases: [(&str, &[&str]); 8] = [
        ("", &["a", "a/", "a/b", "a/b/c", "a0", "ab", "b", "ä", "äb"]),
        ("a", &["a", "a/", "a/b", "a/b/c", "a0", "ab"]),
        ("a/", &["a/", "a/b", "a/b/c"]),
        ("a/b", &["a/b", "a/b/c"]),
        ("a/b/c/", &[]),
        ("ä", &["ä", "äb"]),
        ("b", &["b"]),
        ("zz", &[]),
    ];
    for (prefix, expected) in cases {
        assert_eq!(keys(&list(engine, prefix).await.0), expected, "under {prefix:?}");
    }
}

async fn pages_of_one_moment(engine: &dyn Engine) {
    let all: Vec<String> = (0..25).map(|i| format!("p/{i:02}")).collect();
    for key in &all {
        create(engine, key, "old").await;
    }
    create(engine, "q", "outside").await;
    let mut request = ListRequest { limit: 10, ..ListRequest::prefix("p/") };
    let (mut seen, mut pages, mut revision) = (Vec::new(), 0, None);
    loop {
        let page = engine.list(request.clone()).await.expect("the moment is not compacted");
        pages += 1;
        assert!(page.entries.len() <= 10);
        assert_eq!(*revision.get_or_insert(page.revision), page.revision, "one moment");
        request.at = Some(page.revision);
        request.after = page.entries.last().map(|entry| Arc::clone(&entry.key));
        seen.extend(page.entries);
        disturb(engine, pages).await;
        if !page.more {
            break;
        }
    }
    assert_eq!(pages, 3);
    assert_eq!(keys(&seen), all, "pages neither repeat nor skip");
    assert!(seen.iter().all(|entry| &entry.value[..] == b"old"), "pages do not see later commits");

    let exact = ListRequest { limit: 1, ..ListRequest::prefix("q") };
    let page = engine.list(exact).await.expect("it lists");
    assert_eq!((keys(&page.entries), page.more), (vec!["q"], false), "no page after the last");
}

/// Changes what is on later pages while the list goes on: an update, a delete, an insert.
async fn disturb(engine: &dyn Engine, round: usize) {
    let updated = get(engine, "p/24").await.expect("nobody deletes it");
    let mut ops = vec![Op::update("p/24", "new", updated.modified)];
    ops.push(Op::create(format!("p/1{round}+"), "new"));
    if let Some(gone) = get(engine, &format!("p/2{round}")).await {
        ops.push(Op::delete(gone.key, gone.modified));
    }
    commit(engine, ops).await;
}

async fn the_past(engine: &dyn Engine) {
    let r1 = create(engine, "a", "1").await;
    let r2 = commit(engine, vec![Op::update("a", "2", r1), Op::create("b", "2")]).await;
    let r3 = commit(engine, vec![Op::delete("a", r2)]).await;
    let r4 = create(engine, "a", "4").await;
    let cases = [
        (r1, vec![("a", "1", r1)]),
        (r2, vec![("a", "2", r1), ("b", "2", r2)]),
        (r3, vec![("b", "2", r2)]),
        (r4, vec![("a", "4", r4), ("b", "2", r2)]),
    ];
    for (at, expected) in cases {
        let request = ListRequest { at: Some(at), ..ListRequest::default() };
        let listing = engine.list(request).await.expect("it is not compacted");
        assert_eq!(listing.revision, at);
        let found = listing.entries.iter();
        let found: Vec<_> = found.map(|e| (&*e.key, str(&e.value), e.created)).collect();
        assert_eq!(found, expected, "at {at}");
    }
    let future = Revision(r4.0 + 1_000_000);
    let request = ListRequest { at: Some(future), ..ListRequest::default() };
    let outcome = engine.list(request).await;
    assert!(matches!(outcome, Err(Error::FutureRevision { .. })), "{outcome:?}");
}

fn str(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).expect("the suite writes text")
}

async fn compaction(engine: &dyn Engine) {
    let r1 = create(engine, "a", "1").await;
    create(engine, "gone", "1").await;
    let r2 = commit(engine, vec![Op::update("a", "2", r1)]).await;
    let gone = get(engine, "gone").await.expect("it was created");
    let r3 = commit(engine, vec![Op::delete("gone", gone.modified)]).await;
    let r4 = commit(engine, vec![Op::update("a", "4", r2)]).await;
    engine.compact(r3).await.expect("history can be compacted");
    engine.compact(r1).await.expect("compacting what is compacted is nothing to do");

    for at in [r1, r2] {
        let request = ListRequest { at: Some(at), ..ListRequest::default() };
        let outcome = engine.list(request).await;
        let bounds = matches!(&outcome, Err(Error::Compacted { requested, oldest })
            if *requested == at && r3 <= *oldest);
        assert!(bounds, "list at {at}: {outcome:?}");
        let outcome = first_item(engine, at).await;
        assert!(matches!(outcome, Err(Error::Compacted { .. })), "watch at {at}: {outcome:?}");
    }
    let request = ListRequest { at: Some(r3), ..ListRequest::default() };
    let listing = engine.list(request).await.expect("the bound itself can be read");
    let found: Vec<_> = listing.entries.iter().map(|e| (&*e.key, str(&e.value))).collect();
    assert_eq!(found, [("a", "2")]);
    let batch = first_item(engine, r3).await.expect("the bound itself can be watched from");
    assert_eq!(batch.revision, r4);
    let entry = get(engine, "a").await.expect("current values stay");
    assert_eq!((entry.created, entry.modified, str(&entry.value)), (r1, r4, "4"));

    let outcome = engine.compact(Revision(r4.0 + 1_000_000)).await;
    assert!(matches!(outcome, Err(Error::FutureRevision { .. })), "{outcome:?}");
}

/// What a watch says first; where it comes from, opening it or reading it, is the engine's choice.
async fn first_item(engine: &dyn Engine, after: Revision) -> Result<crate::Batch, Error> {
    next(&mut engine.watch("", after).await?).await
}

async fn opened_again(world: &dyn World) {
    let engine = world.fresh().await;
    let incarnation = engine.incarnation();
    let r1 = create(engine.as_ref(), "a", "1").await;
    let r2 = commit(engine.as_ref(), vec![Op::update("a", "2", r1), Op::create("b", "2")]).await;
    let r3 = commit(engine.as_ref(), vec![Op::delete("b", r2)]).await;
    let before = list(engine.as_ref(), "").await;
    engine.compact(r1).await.expect("history can be compacted");
    let engine = world.reopen(engine).await;
    assert_eq!(engine.incarnation(), incarnation, "it is the same life");
    assert_eq!(list(engine.as_ref(), "").await, before, "nothing changed");
    let mut watch = engine.watch("", r1).await.expect("history outlives the process");
    let seen: Vec<_> = until(&mut watch, r3).await.iter().map(|batch| batch.revision).collect();
    assert_eq!(seen, [r2, r3]);
    let r4 = create(engine.as_ref(), "c", "4").await;
    assert!(r3 < r4, "revisions go on where they were");
    assert_eq!(next(&mut watch).await.map(|batch| batch.revision), Ok(r4));
}
