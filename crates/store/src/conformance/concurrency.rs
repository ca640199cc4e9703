//! Many clients on few keys, and a checker that says whether one copy could have answered so.

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use rand::{Rng, SeedableRng, rngs::StdRng};

use super::{
    World,
    linear::{Call, Held, History, Outcome},
    util::*,
};
use crate::{
    engine::{Change, Engine},
    error::Error,
    model::{Entry, Expect, Op, Revision},
};

const CLIENTS: u64 = 8;
const CALLS: u64 = 60;
const KEYS: [&str; 3] = ["l/a", "l/b", "l/c"];

/// Runs the clients and checks every key's history, the order of revisions over all keys, and
/// that a watch tells the same story. `seed` varies what the clients do.
pub async fn concurrency(world: &dyn World, seed: u64) {
    run(world, seed, Clients { calls: CALLS, delete: true }).await;
}

/// The same while the engine may be unreachable at times, so that the outcome of some commits is
/// unknown until the watch tells it. For `calls` calls per client; nothing is deleted, because
/// then each commit can be told from all others by its value.
pub async fn concurrency_with_faults(world: &dyn World, seed: u64, calls: u64) {
    run(world, seed, Clients { calls, delete: false }).await;
}

#[derive(Clone, Copy)]
struct Clients {
    calls: u64,
    delete: bool,
}

async fn run(world: &dyn World, seed: u64, how: Clients) {
    let engine = world.fresh().await;
    let start = settled(engine.as_ref(), "start").await;
    let mut watch = engine.watch("l/", start).await.expect("a watch opens");
    let servers = [shared(&engine), world.beside(&engine).await];
    let clock = Arc::new(AtomicU64::new(1));
    let clients: Vec<_> = (0..CLIENTS)
        .zip(servers.iter().cycle())
        .map(|(client, engine)| {
            let rng = StdRng::seed_from_u64(seed * 1000 + client);
            let (clock, next_value) = (Arc::clone(&clock), client * how.calls);
            let client = Client { engine: shared(engine), clock, rng, next_value, how };
            tokio::spawn(client.run())
        })
        .collect();
    let mut calls = Vec::new();
    for client in clients {
        calls.extend(client.await.expect("a client does not fail"));
    }
    // A last commit, so that everything before it is known to have been told.
    let last = settled(engine.as_ref(), END).await;
    let mut told = Vec::new();
    for batch in until(&mut watch, last).await {
        told.extend(batch.changes.into_iter().map(|change| (batch.revision, brief_of(change))));
    }
    told.retain(|(_, (key, _))| key != END);
    resolve(&mut calls, &told);
    each_key_is_linearizable(&calls);
    revisions_follow_time(&calls);
    watch_tells_the_same(&calls, &told);
}

const END: &str = "l/end";

/// Creates a key, however often it takes.
async fn settled(engine: &dyn Engine, key: &str) -> Revision {
    loop {
        match engine.commit(vec![Op::create(key, "0")]).await {
            Ok(revision) => return revision,
            Err(Error::Conflict { actual: Some(revision), .. }) => return revision,
            Err(Error::Uncertain { .. } | Error::Unreachable { .. }) => {}
            Err(error) => panic!("{error}"),
        }
    }
}

/// Settles the outcomes that were unknown: a value that the watch has told was committed, some
/// time after it was sent; any other never was.
fn resolve(calls: &mut Vec<Made>, told: &[(Revision, (String, Option<u64>))]) {
    calls.retain_mut(|made| {
        let Outcome::Unknown = made.outcome else { return true };
        let Call::Put { value, .. } = made.call else { return false };
        let found = told.iter().find(|(_, (_, told))| *told == Some(value));
        let Some((revision, _)) = found else { return false };
        (made.outcome, made.end) = (Outcome::Committed(*revision), u64::MAX);
        true
    });
}

/// One call as a client saw it.
struct Made {
    key: &'static str,
    call: Call,
    outcome: Outcome,
    start: u64,
    end: u64,
}

impl Made {
    fn revision(&self) -> Option<Revision> {
        match self.outcome {
            Outcome::Committed(revision) => Some(revision),
            Outcome::Got(_) | Outcome::Refused { .. } | Outcome::Unknown => None,
        }
    }
}

struct Client {
    engine: Arc<dyn Engine>,
    clock: Arc<AtomicU64>,
    rng: StdRng,
    next_value: u64,
    how: Clients,
}

impl Client {
    async fn run(mut self) -> Vec<Made> {
        let mut made = Vec::new();
        let mut known: BTreeMap<&str, Option<Held>> = BTreeMap::new();
        for _ in 0..self.how.calls {
            let key = KEYS[self.rng.random_range(0..KEYS.len())];
            let call = self.choose(known.get(key).copied().flatten());
            let start = self.tick();
            let outcome = self.perform(key, call).await;
            let end = self.tick();
            if let Outcome::Got(held) = outcome {
                known.insert(key, held);
            }
            made.push(Made { key, call, outcome, start, end });
        }
        made
    }

    fn tick(&self) -> u64 {
        self.clock.fetch_add(1, Ordering::SeqCst)
    }

    /// Reads often enough to know revisions to write at; writes at old ones too.
    fn choose(&mut self, known: Option<Held>) -> Call {
        let expect = match (known, self.rng.random_range(0..4)) {
            (Some(held), 0) => Expect::CreatedAt(held.created),
            (Some(held), 1 | 2) => Expect::At(held.modified),
            (Some(_), _) => Expect::Present,
            (None, _) => Expect::Absent,
        };
        match self.rng.random_range(0..10) {
            0..4 => Call::Get,
            4 if expect != Expect::Absent && self.how.delete => Call::Delete { expect },
            _ => {
                self.next_value += 1;
                Call::Put { expect, value: self.next_value }
            }
        }
    }

    async fn perform(&self, key: &str, call: Call) -> Outcome {
        let op = match call {
            Call::Get => return self.read(key).await,
            Call::Put { expect, value } => Op::put(key, value.to_string(), expect),
            Call::Delete { expect } => Op::Delete { key: key.into(), expect },
        };
        match self.engine.commit(vec![op]).await {
            Ok(revision) => Outcome::Committed(revision),
            Err(Error::Conflict { actual, .. }) => Outcome::Refused { actual },
            Err(Error::Uncertain { .. } | Error::Unreachable { .. }) => Outcome::Unknown,
            Err(error) => panic!("{key}: {error}"),
        }
    }

    async fn read(&self, key: &str) -> Outcome {
        loop {
            match self.engine.get(key).await {
                Ok(entry) => return Outcome::Got(entry.map(held)),
                Err(error) if error.retryable() => {}
                Err(error) => panic!("{key}: {error}"),
            }
        }
    }
}

fn held(entry: Entry) -> Held {
    Held { value: number(&entry), created: entry.created, modified: entry.modified }
}

fn number(entry: &Entry) -> u64 {
    let text = std::str::from_utf8(&entry.value).expect("clients write numbers");
    text.parse().expect("clients write numbers")
}

fn each_key_is_linearizable(calls: &[Made]) {
    for key in KEYS {
        let mut history = History::default();
        for made in calls.iter().filter(|made| made.key == key) {
            history.add(made.call, made.outcome, made.start, made.end);
        }
        assert!(!history.is_empty(), "every key is used");
        if let Err(error) = history.check() {
            panic!("{key} is not linearizable: {error}");
        }
    }
}

/// A commit that began after another was answered has the larger revision, on whatever keys.
fn revisions_follow_time(calls: &[Made]) {
    let mut commits: Vec<_> =
        calls.iter().filter_map(|made| Some((made.revision()?, made.start, made.end))).collect();
    commits.sort_unstable();
    let mut latest_start = 0;
    for (revision, start, end) in commits {
        assert!(latest_start < end, "revision {revision} was answered before an older one began");
        latest_start = latest_start.max(start);
    }
}

fn brief_of(change: Change) -> (String, Option<u64>) {
    match change {
        Change::Put(entry) => (entry.key.to_string(), Some(number(&entry))),
        Change::Delete { key, .. } => (key.to_string(), None),
    }
}

fn watch_tells_the_same(calls: &[Made], told: &[(Revision, (String, Option<u64>))]) {
    let value = |call| match call {
        Call::Put { value, .. } => Some(value),
        Call::Get | Call::Delete { .. } => None,
    };
    let mut committed: Vec<_> = calls
        .iter()
        .filter_map(|made| Some((made.revision()?, (made.key.to_owned(), value(made.call)))))
        .collect();
    committed.sort_unstable();
    assert_eq!(told, committed, "the watch tells exactly what was committed");
}
