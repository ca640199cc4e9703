//! The engine against a model that keeps the whole history and is right by inspection: groups of several commits, lists in
//! parts while history goes, compactions that are given up, and reads of the past from the disk.

use std::{collections::BTreeMap, path::Path, sync::Arc};

use futures::{StreamExt, future::join_all};
use rand::{Rng, SeedableRng, rngs::StdRng};

use super::{super::reader, Embedded, open};
use crate::{
    engine::{Batch, Change, Engine, ListRequest},
    error::Error,
    model::{Entry, Expect, Op, Revision},
};

const STEPS: usize = 150;

/// Some begin others, and some are of more than one byte.
const KEYS: [&str; 12] =
    ["a", "a/", "a/x", "a/x/y", "a/y", "a0", "a\u{7f}", "a\u{80}", "b", "ü", "ü/x", "\u{10ffff}"];
const PREFIXES: [&str; 9] = ["", "a", "a/", "a/x", "b", "c", "ü", "\u{10ffff}", "a\u{7f}"];

/// What a page may come after; not all of it was ever a key.
const AFTERS: [&str; 8] = ["", "A", "a", "a/", "a/\u{1}", "a/x", "ü", "\u{10ffff}z"];

type State = BTreeMap<Arc<str>, Entry>;

/// Every state since the beginning; the first is of the revision that a store begins with.
struct Model {
    states: Vec<State>,
    commits: Vec<Batch>,
    compacted: Revision,
}

const FIRST: Revision = Revision(1);

impl Model {
    fn new() -> Self {
        Self { states: vec![State::new()], commits: Vec::new(), compacted: FIRST }
    }

    fn head(&self) -> Revision {
        Revision(self.states.len() as u64)
    }

    fn at(&self, revision: Revision) -> &State {
        &self.states[(revision.0 - FIRST.0) as usize]
    }

    /// Takes in a commit that was acknowledged, whose expectations must have held.
    fn take(&mut self, revision: Revision, ops: &[Op]) {
        assert_eq!(revision, self.head().next(), "revisions have no gap");
        let mut state = self.at(self.head()).clone();
        let mut changes = Vec::new();
        for op in ops {
            let (key, before) = (Arc::clone(op.key()), state.get(op.key()).cloned());
            assert_eq!(before.is_some(), op.expect() == Expect::Present, "{op:?} at {revision}");
            if let Op::Put { value, .. } = op {
                let created = before.map_or(revision, |before| before.created);
                let value = value.clone();
                let entry = Entry { key: Arc::clone(&key), value, created, modified: revision };
                changes.push(Change::Put(entry.clone()));
                state.insert(key, entry);
            } else {
                state.remove(&key);
                changes.push(Change::Delete { key, revision });
            }
        }
        self.states.push(state);
        self.commits.push(Batch { revision, changes: changes.into() });
    }

    fn listed(&self, request: &ListRequest, at: Revision) -> Vec<Entry> {
        let after = |key: &str| request.after.as_deref().is_none_or(|after| after < key);
        let wanted = |key: &str| key.starts_with(&request.prefix) && after(key);
        let entries = self.at(at).values().filter(|entry| wanted(&entry.key));
        entries.cloned().collect()
    }

    fn watched(&self, prefix: &str, after: Revision) -> Vec<Batch> {
        let batches = self.commits.iter().filter(|batch| after < batch.revision);
        batches.map(|batch| batch.filtered(prefix)).filter(|batch| !batch.is_bookmark()).collect()
    }
}

struct Run {
    rng: StdRng,
    engine: Arc<Embedded>,
    model: Model,
}

impl Run {
    fn one<'a>(&mut self, of: &[&'a str]) -> &'a str {
        of[self.rng.random_range(0..of.len())]
    }

    /// A revision that can be read.
    fn revision(&mut self) -> Revision {
        Revision(self.rng.random_range(self.model.compacted.0..=self.model.head().0))
    }

    fn ops(&mut self) -> Vec<Op> {
        let mut keys = KEYS.to_vec();
        let mut ops = Vec::new();
        for _ in 0..self.rng.random_range(1..=3) {
            let key = keys.swap_remove(self.rng.random_range(0..keys.len()));
            let value: u32 = self.rng.random();
            // Most are right, unless another of the crowd comes before.
            let is_there = self.model.at(self.model.head()).contains_key(key);
            let expect = match is_there ^ self.rng.random_ratio(1, 20) {
                true => Expect::Present,
                false => Expect::Absent,
            };
            ops.push(match expect {
                Expect::Present if self.rng.random_ratio(1, 3) => {
                    Op::Delete { key: key.into(), expect }
                }
                _ => Op::put(key, value.to_string(), expect),
            });
        }
        ops
    }

    /// Commits that come at once, of which some are refused.
    async fn crowd(&mut self) {
        let crowd: Vec<_> = (0..self.rng.random_range(1..=12)).map(|_| self.ops()).collect();
        let done = join_all(crowd.iter().map(|ops| self.engine.commit(ops.clone()))).await;
        let mut done: Vec<_> = done.into_iter().zip(&crowd).collect();
        done.sort_by_key(|(revision, _)| revision.clone().unwrap_or(Revision::ZERO));
        for (outcome, ops) in done {
            match outcome {
                Ok(revision) => self.model.take(revision, ops),
                Err(Error::Conflict { .. }) => {}
                Err(error) => panic!("{ops:?} got {error}"),
            }
        }
    }

    /// Now and then one that was given up is still at work.
    async fn compact(&mut self, up_to: Revision) {
        if self.rng.random_ratio(1, 2) {
            let (engine, up_to) = (Arc::clone(&self.engine), self.revision());
            let given_up = tokio::spawn(async move { engine.compact(up_to).await });
            for _ in 0..self.rng.random_range(0..20) {
                tokio::task::yield_now().await;
            }
            given_up.abort();
            if matches!(given_up.await, Ok(Ok(()))) {
                self.model.compacted = self.model.compacted.max(up_to);
            }
            // What it has done is not known.
            let up_to = self.model.compacted.max(up_to);
            self.engine.compact(up_to).await.expect("history can be compacted");
            self.model.compacted = up_to;
        }
        self.engine.compact(up_to).await.expect("history can be compacted");
        self.model.compacted = self.model.compacted.max(up_to);
    }

    async fn reopen(&mut self, path: &Path) {
        self.engine.close().await;
        self.engine = open(path).await;
        assert_eq!(self.engine.current("").await, Ok(self.model.head()));
    }

    /// A list in parts, between which others commit and history goes.
    async fn pages(&mut self) {
        let at = self.rng.random_ratio(3, 4).then(|| self.revision());
        let after = self.rng.random_ratio(1, 2).then(|| self.one(&AFTERS).into());
        let prefix = self.one(&PREFIXES).to_owned();
        let mut request = ListRequest { prefix, at, after, limit: self.rng.random_range(0..4) };
        let expected = self.model.listed(&request, at.unwrap_or(self.model.head()));
        let described = format!("{request:?}");
        let mut found = Vec::new();
        loop {
            let revision = request.at.unwrap_or(self.model.head());
            let page = match self.engine.list(request.clone()).await {
                Err(Error::Compacted { oldest, .. }) => {
                    assert!(revision < oldest && oldest == self.model.compacted, "{described}");
                    return;
                }
                page => page.expect("it lists"),
            };
            assert_eq!(page.revision, revision);
            assert!(!page.more || page.entries.len() == request.limit, "{described}");
            request.at = Some(revision);
            request.after = page.entries.last().map(|entry| Arc::clone(&entry.key));
            found.extend(page.entries);
            if !page.more {
                break;
            }
            assert!(found.len() < expected.len(), "{described}: there is no more");
            match self.rng.random_range(0..6) {
                0 => self.crowd().await,
                1 => {
                    let up_to = self.revision();
                    self.compact(up_to).await;
                }
                _ => {}
            }
        }
        assert_eq!(found, expected, "{described}");
    }

    async fn out_of_bounds(&mut self) {
        let at = |at| ListRequest { at: Some(at), ..ListRequest::default() };
        let (oldest, current) = (self.model.compacted, self.model.head());
        let requested = Revision(oldest.0 - 1);
        let listed = self.engine.list(at(requested)).await;
        assert_eq!(listed, Err(Error::Compacted { requested, oldest }));
        assert!(self.engine.watch("", requested).await.is_err());
        let requested = current.next();
        let listed = self.engine.list(at(requested)).await;
        assert_eq!(listed, Err(Error::FutureRevision { requested, current }));
    }

    async fn gets(&mut self) {
        for key in KEYS {
            let expected = self.model.at(self.model.head()).get(key).cloned();
            assert_eq!(self.engine.get(key).await, Ok(expected), "{key}");
        }
    }

    async fn watches(&mut self) {
        let (prefix, after) = (self.one(&PREFIXES), self.revision());
        let mut watch = self.engine.watch(prefix, after).await.expect("it is not compacted");
        let (mut found, mut last) = (Vec::new(), after);
        while last < self.model.head() {
            let batch = watch.next().await.expect("it goes on").expect("it does not fail");
            assert!(last < batch.revision, "{batch:?} after {last}");
            last = batch.revision;
            found.extend((!batch.is_bookmark()).then_some(batch));
        }
        assert_eq!(found, self.model.watched(prefix, after), "{prefix} after {after}");
    }

    /// What watchers far behind read, which memory answers otherwise.
    fn replays(&mut self) {
        let tables = self.engine.shared.tables().expect("it is open");
        let (mut last, limit) = (self.revision(), self.rng.random_range(1..20));
        let expected = self.model.watched("", last);
        let mut found = Vec::new();
        while last < self.model.head() {
            let part = reader::replay(&tables, last, self.model.head(), limit).expect("it reads");
            assert_eq!(part.batches.last().map(|batch| batch.revision), Some(part.up_to));
            last = part.up_to;
            found.extend(part.batches);
        }
        assert_eq!(found, expected);
    }

    async fn step(&mut self, path: &Path) {
        match self.rng.random_range(0..20) {
            0..8 => self.crowd().await,
            8 => {
                let up_to = self.revision();
                self.compact(up_to).await;
            }
            9 => self.reopen(path).await,
            10..14 => self.pages().await,
            14..16 => self.watches().await,
            16..18 => self.replays(),
            18 => self.gets().await,
            _ => self.out_of_bounds().await,
        }
    }
}

async fn check(seed: u64) {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let rng = StdRng::seed_from_u64(seed);
    let mut run = Run { rng, engine: open(directory.path()).await, model: Model::new() };
    for _ in 0..STEPS {
        run.step(directory.path()).await;
    }
    run.reopen(directory.path()).await;
    run.gets().await;
    run.replays();
    run.engine.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_answer_is_the_one_of_the_model() {
    for seed in 0..6 {
        let done = tokio::spawn(check(seed)).await;
        done.unwrap_or_else(|panicked| panic!("seed {seed}: {panicked}"));
    }
}
