//! The queue of keys that wait to be reconciled.
//!
//! ```text
//!   add ──> ready ──take──> in flight ──done──> (again, if added meanwhile) ──> gone
//!             ^                            │
//!             └──────── delayed <──────────┘ after / failed
//! ```
//! A key stands in the queue at most once and is in flight at most once. What is added while its
//! key is in flight is not lost: the key becomes ready again when it is done.
use crate::backoff::Backoff;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet, VecDeque};
use std::hash::Hash;
use std::time::Duration;
use tokio::time::Instant;

/// What happens to a key once its reconciliation is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Done {
    /// Nothing until something changes.
    AwaitChange,
    /// Look again after this long, or sooner if something changes.
    After(Duration),
    /// It failed: look again after a wait that grows with each failure.
    Failed,
}

/// A queue without a clock of its own: every call that needs the time is told it.
#[derive(Debug)]
pub struct Queue<K> {
    backoff: Backoff,
    ready: VecDeque<K>,
    waiting: HashSet<K>,
    in_flight: HashSet<K>,
    again: HashSet<K>,
    delayed: BTreeMap<Instant, BTreeSet<K>>,
    due: HashMap<K, Instant>,
    failures: HashMap<K, u32>,
}

impl<K: Clone + Eq + Hash + Ord> Queue<K> {
    pub fn new(backoff: Backoff) -> Self {
        Self {
            backoff,
            ready: VecDeque::new(),
            waiting: HashSet::new(),
            in_flight: HashSet::new(),
            again: HashSet::new(),
            delayed: BTreeMap::new(),
            due: HashMap::new(),
            failures: HashMap::new(),
        }
    }

    /// Something about `key` changed.
    pub fn add(&mut self, key: K) {
        self.forget_delay(&key);
        if self.in_flight.contains(&key) {
            self.again.insert(key);
        } else if self.waiting.insert(key.clone()) {
            self.ready.push_back(key);
        }
    }

    /// The next key to work on. It is in flight until `done` is called for it.
    pub fn take(&mut self, now: Instant) -> Option<K> {
        self.wake(now);
        let key = self.ready.pop_front()?;
        self.waiting.remove(&key);
        self.in_flight.insert(key.clone());
        Some(key)
    }

    /// When the next delayed key is due, if nothing is ready before.
    pub fn next_due(&self) -> Option<Instant> {
        self.delayed.keys().next().copied()
    }

    /// The work on `key` is over. `jitter` in 0..=1 spreads the waits after failures.
    pub fn done(&mut self, key: K, how: Done, now: Instant, jitter: f64) {
        self.in_flight.remove(&key);
        let wait = match how {
            Done::AwaitChange | Done::After(_) => {
                self.failures.remove(&key);
                if let Done::After(wait) = how { Some(wait) } else { None }
            }
            Done::Failed => {
                let failures = self.failures.entry(key.clone()).or_default();
                *failures = failures.saturating_add(1);
                Some(self.backoff.delay(*failures, jitter))
            }
        };
        let changed_meanwhile = self.again.remove(&key);
        // A failure waits its turn even if something changed meanwhile: its own half-done writes
        // come back as changes, and must not turn the back-off into a hot loop.
        match (changed_meanwhile, how, wait) {
            (true, Done::AwaitChange | Done::After(_), _) => self.add(key),
            (_, _, Some(wait)) => self.delay(key, now + wait),
            (_, _, None) => {}
        }
    }

    /// How many keys wait, are delayed or are in flight.
    pub fn len(&self) -> usize {
        self.ready.len() + self.due.len() + self.in_flight.len()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn delay(&mut self, key: K, due: Instant) {
        self.forget_delay(&key);
        self.due.insert(key.clone(), due);
        self.delayed.entry(due).or_default().insert(key);
    }

    fn forget_delay(&mut self, key: &K) {
        let Some(due) = self.due.remove(key) else { return };
        if let Some(keys) = self.delayed.get_mut(&due) {
            keys.remove(key);
            if keys.is_empty() {
                self.delayed.remove(&due);
            }
        }
    }

    fn wake(&mut self, now: Instant) {
        while let Some(entry) = self.delayed.first_entry() {
            if now < *entry.key() {
                return;
            }
            for key in entry.remove() {
                self.due.remove(&key);
                self.add(key);
            }
        }
    }
}

#[cfg(test)]
mod tests;
