//! Random commits against a model so simple that it is right by inspection.

use std::{collections::BTreeMap, sync::Arc};

use rand::{Rng, SeedableRng, rngs::StdRng};

use super::{World, util::*};
use crate::{
    engine::{Engine, ListRequest},
    model::{Entry, Expect, Op, Revision},
};

const STEPS: usize = 150;
const KEYS: [&str; 6] = ["a", "a/x", "a/y", "b", "b/x", "ü"];

type State = BTreeMap<Arc<str>, Entry>;

/// Does random commits on an engine and the model and compares every answer, the state now and
/// then, the past, and what a watch replays. `seed` is all that differs between runs.
pub async fn model(world: &dyn World, seed: u64) {
    let mut rng = StdRng::seed_from_u64(seed);
    let mut engine = world.fresh().await;
    let start = create(engine.as_ref(), "start", "0").await;
    let mut state: State = list(engine.as_ref(), "").await.0.into_iter().map(by_key).collect();
    let mut past = vec![(start, state.clone())];
    for step in 0..STEPS {
        let ops = random_ops(&mut rng, &state);
        let outcome = engine.commit(ops.clone()).await;
        match (expected_conflict(&state, &ops), outcome) {
            (Some(key), outcome) => {
                let actual = state.get(&key).map(|entry| entry.modified);
                assert_conflict(outcome, &key, actual);
            }
            (None, Ok(revision)) => advance(&mut state, &mut past, &ops, revision),
            (None, Err(error)) => panic!("seed {seed} step {step}: {ops:?} got {error}"),
        }
        if rng.random_ratio(1, 8) {
            compare(engine.as_ref(), &mut rng, &past).await;
        }
        if world.durable() && rng.random_ratio(1, 40) {
            engine = world.reopen(engine).await;
        }
        if rng.random_ratio(1, 30) {
            let oldest = past[rng.random_range(0..past.len())].0;
            engine.compact(oldest).await.expect("history can be compacted");
            past.retain(|(revision, _)| oldest <= *revision);
        }
    }
    replay(engine.as_ref(), &past).await;
}

fn by_key(entry: Entry) -> (Arc<str>, Entry) {
    (Arc::clone(&entry.key), entry)
}

fn random_ops(rng: &mut StdRng, state: &State) -> Vec<Op> {
    let mut keys = KEYS.to_vec();
    let count = rng.random_range(1..=4);
    let mut ops = Vec::new();
    for _ in 0..count {
        let key = keys.swap_remove(rng.random_range(0..keys.len()));
        ops.push(random_op(rng, key, state.get(key)));
    }
    ops
}

fn random_op(rng: &mut StdRng, key: &str, entry: Option<&Entry>) -> Op {
    let right = |entry: &Entry, rng: &mut StdRng| match rng.random_range(0..3) {
        0 => Expect::Present,
        1 => Expect::CreatedAt(entry.created),
        _ => Expect::At(entry.modified),
    };
    let expect = match entry {
        Some(entry) if rng.random_ratio(9, 10) => right(entry, rng),
        Some(_) => Expect::Absent,
        None if rng.random_ratio(9, 10) => Expect::Absent,
        None => Expect::At(Revision(rng.random_range(1..100))),
    };
    match rng.random_range(0..6) {
        0 => Op::check(key, expect),
        1 | 2 if expect != Expect::Absent => Op::Delete { key: key.into(), expect },
        _ => Op::put(key, rng.random::<u32>().to_string(), expect),
    }
}

fn expected_conflict(state: &State, ops: &[Op]) -> Option<Arc<str>> {
    let fails = |op: &&Op| {
        let entry = state.get(op.key());
        !match op.expect() {
            Expect::Absent => entry.is_none(),
            Expect::Present => entry.is_some(),
            Expect::At(revision) => entry.is_some_and(|entry| entry.modified == revision),
            Expect::CreatedAt(revision) => entry.is_some_and(|entry| entry.created == revision),
        }
    };
    ops.iter().find(fails).map(|op| Arc::clone(op.key()))
}

fn advance(state: &mut State, past: &mut Vec<(Revision, State)>, ops: &[Op], at: Revision) {
    for op in ops {
        match op {
            Op::Put { key, value, .. } => {
                let created = state.get(key).map_or(at, |entry| entry.created);
                let (key, value) = (Arc::clone(key), value.clone());
                state.insert(key.clone(), Entry { key, value, created, modified: at });
            }
            Op::Delete { key, .. } => {
                state.remove(key);
            }
            Op::Check { .. } => {}
        }
    }
    if past.last().is_none_or(|(last, _)| *last < at) {
        past.push((at, state.clone()));
    }
}

/// The state now and at one moment of the past, under a random prefix and in random pages.
async fn compare(engine: &dyn Engine, rng: &mut StdRng, past: &[(Revision, State)]) {
    let prefix = ["", "a", "a/", "b", "ü", "none"][rng.random_range(0..6)];
    for (at, state) in [&past[past.len() - 1], &past[rng.random_range(0..past.len())]] {
        let expected: Vec<_> =
            state.values().filter(|entry| entry.key.starts_with(prefix)).cloned().collect();
        let limit = rng.random_range(1..4);
        assert_eq!(in_pages(engine, prefix, *at, limit).await, expected, "{prefix:?} at {at}");
    }
    let (_, now) = &past[past.len() - 1];
    let key = KEYS[rng.random_range(0..KEYS.len())];
    assert_eq!(get(engine, key).await.as_ref(), now.get(key), "{key}");
}

async fn in_pages(engine: &dyn Engine, prefix: &str, at: Revision, limit: usize) -> Vec<Entry> {
    let mut entries: Vec<Entry> = Vec::new();
    loop {
        let after = entries.last().map(|entry| Arc::clone(&entry.key));
        let request = ListRequest { prefix: prefix.to_owned(), at: Some(at), after, limit };
        let page = engine.list(request).await.expect("the model has not compacted it");
        entries.extend(page.entries);
        if !page.more {
            return entries;
        }
    }
}

/// Watching from the oldest moment leads to the newest, through every one between.
async fn replay(engine: &dyn Engine, past: &[(Revision, State)]) {
    let (oldest, last) = (past[0].0, past[past.len() - 1].0);
    let mut watch = engine.watch("", oldest).await.expect("the oldest moment is left");
    if oldest == last {
        return;
    }
    let batches = until(&mut watch, last).await;
    let seen: Vec<_> = batches.iter().map(|batch| batch.revision).collect();
    let expected: Vec<_> = past[1..].iter().map(|(revision, _)| *revision).collect();
    assert_eq!(seen, expected);
    let mut state = past[0].1.clone();
    for (batch, (at, expected)) in batches.into_iter().zip(&past[1..]) {
        for change in batch.changes {
            match change {
                crate::Change::Put(entry) => drop(state.insert(entry.key.clone(), entry)),
                crate::Change::Delete { key, .. } => {
                    assert!(
                        state.remove(&key).is_some(),
                        "{key} was deleted at {at} and was not there"
                    );
                }
            }
        }
        assert_eq!(&state, expected, "replayed to {at}");
    }
}
