//! The queue of keys that wait to be reconciled.
//!
//! ```text
//!   add ──────────────────> ready ─┬─take──> in flight ──done──> (again, if added meanwhile) ──> gone
//!   add_within ─> delayed ─> due ──┘                       │
//!                    ^─────────────────────────────────────┘ after / failed
//! ```
//! A key stands in the queue at most once and is in flight at most once. What is added while its
//! key is in flight is not lost: the key becomes ready again when it is done. What was delayed waits
//! for what is ready, so that new wishes do not queue up behind what can wait; but it gets its share.
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

/// Of so many keys that are taken, one is of those that were delayed, if there are any.
const SHARE_OF_DUE: usize = 8;

/// How a key is to be looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum When {
    Now,
    At(Instant),
}

/// A queue without a clock of its own: every call that needs the time is told it.
#[derive(Debug)]
pub struct Queue<K> {
    backoff: Backoff,
    ready: VecDeque<K>,
    /// Keys whose delay is over.
    over: VecDeque<K>,
    /// What stands in `ready` or in `over`; the latter are `false`. A key that was brought forward may
    /// still stand in `over`, and is passed over there.
    waiting: HashMap<K, bool>,
    in_flight: HashSet<K>,
    again: HashMap<K, When>,
    taken: usize,
    delayed: BTreeMap<Instant, BTreeSet<K>>,
    due: HashMap<K, Instant>,
    failures: HashMap<K, u32>,
}

impl<K: Clone + Eq + Hash + Ord> Queue<K> {
    pub fn new(backoff: Backoff) -> Self {
        Self {
            backoff,
            ready: VecDeque::new(),
            over: VecDeque::new(),
            waiting: HashMap::new(),
            in_flight: HashSet::new(),
            again: HashMap::new(),
            taken: 0,
            delayed: BTreeMap::new(),
            due: HashMap::new(),
            failures: HashMap::new(),
        }
    }

    /// Something about `key` changed.
    pub fn add(&mut self, key: K) {
        self.forget_delay(&key);
        if self.in_flight.contains(&key) {
            self.again.insert(key, When::Now);
        } else if self.waiting.insert(key.clone(), true) != Some(true) {
            self.ready.push_back(key);
        }
    }

    /// Something about `key` changed that can wait: it is looked at by then, or earlier. Whether it is
    /// the first one to be due now.
    pub fn add_within(&mut self, key: K, due: Instant) -> bool {
        if self.in_flight.contains(&key) {
            let when = self.again.entry(key).or_insert(When::At(due));
            *when = (*when).min(When::At(due));
            return false;
        }
        let sooner = self.due.get(&key).is_none_or(|at| due < *at);
        if self.waiting.contains_key(&key) || !sooner {
            return false;
        }
        self.delay(key, due);
        self.next_due() == Some(due)
    }

    /// The next key to work on. It is in flight until `done` is called for it.
    pub fn take(&mut self, now: Instant) -> Option<K> {
        self.wake(now);
        self.taken = self.taken.wrapping_add(1);
        let turn_of_due = self.taken.is_multiple_of(SHARE_OF_DUE);
        let key = match turn_of_due {
            true => self.take_over().or_else(|| self.ready.pop_front()),
            false => self.ready.pop_front().or_else(|| self.take_over()),
        }?;
        self.waiting.remove(&key);
        self.in_flight.insert(key.clone());
        Some(key)
    }

    /// The first whose delay is over and that was not brought forward meanwhile.
    fn take_over(&mut self) -> Option<K> {
        while let Some(key) = self.over.pop_front() {
            if self.waiting.get(&key) == Some(&false) {
                return Some(key);
            }
        }
        None
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
        if let (Some(When::At(due)), Done::AwaitChange | Done::After(_)) = (changed_meanwhile, how)
        {
            let due = wait.map_or(due, |wait| due.min(now + wait));
            self.delay(key, due);
            return;
        }
        // A failure waits its turn even if something changed meanwhile: its own half-done writes
        // come back as changes, and must not turn the back-off into a hot loop.
        match (changed_meanwhile, how, wait) {
            (Some(_), Done::AwaitChange | Done::After(_), _) => self.add(key),
            (_, _, Some(wait)) => self.delay(key, now + wait),
            (_, _, None) => {}
        }
    }

    /// How many keys wait, are delayed or are in flight.
    pub fn len(&self) -> usize {
        self.waiting.len() + self.due.len() + self.in_flight.len()
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
                // A key with a delay is neither in flight nor waiting.
                self.waiting.insert(key.clone(), false);
                self.over.push_back(key);
            }
        }
    }
}

#[cfg(test)]
mod tests;
