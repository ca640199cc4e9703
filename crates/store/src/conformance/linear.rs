//! A checker for linearizability, after Wing and Gong: is there an order of all calls on one key
//! that respects real time and in which every answer is the one a single copy would have given?
//!
//! Keys are independent for calls that touch one key, so each is checked alone. The search tries
//! every call that could come first and remembers which sets of calls in which state led nowhere.

use std::{collections::HashSet, fmt};

use crate::model::{Expect, Head, Revision};

/// What was asked of one key. Values are numbers, each written once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Call {
    Get,
    Put { expect: Expect, value: u64 },
    Delete { expect: Expect },
}

/// What one key holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Held {
    pub value: u64,
    pub created: Revision,
    pub modified: Revision,
}

/// What was answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    Got(Option<Held>),
    Committed(Revision),
    Refused {
        actual: Option<Revision>,
    },
    /// Nobody knows. Settle it before checking: such a call fits nowhere.
    Unknown,
}

#[derive(Clone, Copy, Debug)]
struct Record {
    call: Call,
    outcome: Outcome,
    start: u64,
    end: u64,
}

/// All calls on one key, with the moments at which they were made and answered.
#[derive(Clone, Debug, Default)]
pub struct History(Vec<Record>);

impl History {
    /// Adds a call. `start` and `end` are readings of one counter that only grows.
    pub fn add(&mut self, call: Call, outcome: Outcome, start: u64, end: u64) {
        debug_assert!(start < end, "an answer comes after its question");
        self.0.push(Record { call, outcome, start, end });
    }

    pub fn len(&self) -> usize {
        self.0.len()
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether an order exists, starting from an absent key.
    pub fn check(&self) -> Result<(), NotLinearizable> {
        let mut search = Search {
            records: &self.0,
            done: Done::new(self.0.len()),
            dead: HashSet::new(),
            best: 0,
        };
        if search.explore(None) {
            return Ok(());
        }
        Err(NotLinearizable { placed: search.best, records: self.0.clone() })
    }
}

/// The history, and how many of its calls could be put in order.
#[derive(Clone, Debug)]
pub struct NotLinearizable {
    placed: usize,
    records: Vec<Record>,
}

impl fmt::Display for NotLinearizable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "only {} of {} calls can be ordered:", self.placed, self.records.len())?;
        for Record { call, outcome, start, end } in &self.records {
            writeln!(f, "  {start:>5} to {end:>5}  {call:?} -> {outcome:?}")?;
        }
        Ok(())
    }
}

struct Search<'a> {
    records: &'a [Record],
    done: Done,
    dead: HashSet<(Done, Option<Held>)>,
    best: usize,
}

/// Which calls have been placed.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Done {
    bits: Vec<u64>,
    count: usize,
}

impl Done {
    fn new(calls: usize) -> Self {
        Self { bits: vec![0; calls.div_ceil(64)], count: 0 }
    }

    fn has(&self, at: usize) -> bool {
        self.bits[at / 64] & (1 << (at % 64)) != 0
    }

    fn flip(&mut self, at: usize) {
        self.count = if self.has(at) { self.count - 1 } else { self.count + 1 };
        self.bits[at / 64] ^= 1 << (at % 64);
    }
}

impl Search<'_> {
    fn explore(&mut self, state: Option<Held>) -> bool {
        self.best = self.best.max(self.done.count);
        if self.done.count == self.records.len() {
            return true;
        }
        if self.dead.contains(&(self.done.clone(), state)) {
            return false;
        }
        for at in self.candidates() {
            let Some(next) = step(state, &self.records[at]) else { continue };
            self.done.flip(at);
            if self.explore(next) {
                return true;
            }
            self.done.flip(at);
        }
        self.dead.insert((self.done.clone(), state));
        false
    }

    /// Calls that were made before any that is left was answered: one of them comes first.
    fn candidates(&self) -> Vec<usize> {
        let left = || (0..self.records.len()).filter(|at| !self.done.has(*at));
        let first_end = left().map(|at| self.records[at].end).min().unwrap_or(u64::MAX);
        left().filter(|at| self.records[*at].start < first_end).collect()
    }
}

/// The state after a call, if a single copy in this state would have answered so.
fn step(state: Option<Held>, record: &Record) -> Option<Option<Held>> {
    let head = state.map(|held| Head { created: held.created, modified: held.modified });
    let newer = |revision: Revision| state.is_none_or(|held| held.modified < revision);
    match (record.call, record.outcome) {
        (Call::Get, Outcome::Got(seen)) => (seen == state).then_some(state),
        (Call::Put { expect, value }, Outcome::Committed(modified)) => {
            let created = state.map_or(modified, |held| held.created);
            let fits = expect.holds(head) && newer(modified);
            fits.then_some(Some(Held { value, created, modified }))
        }
        (Call::Delete { expect }, Outcome::Committed(revision)) => {
            (expect.holds(head) && newer(revision)).then_some(None)
        }
        (Call::Put { expect, .. } | Call::Delete { expect }, Outcome::Refused { actual }) => {
            let fits = !expect.holds(head) && actual == head.map(|head| head.modified);
            fits.then_some(state)
        }
        (Call::Get, Outcome::Committed(_) | Outcome::Refused { .. })
        | (Call::Put { .. } | Call::Delete { .. }, Outcome::Got(_))
        | (Call::Get | Call::Put { .. } | Call::Delete { .. }, Outcome::Unknown) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CREATE: Call = Call::Put { expect: Expect::Absent, value: 1 };
    const UPDATE: Call = Call::Put { expect: Expect::At(Revision(2)), value: 2 };

    fn held(value: u64, created: u64, modified: u64) -> Outcome {
        let (created, modified) = (Revision(created), Revision(modified));
        Outcome::Got(Some(Held { value, created, modified }))
    }

    fn committed(revision: u64) -> Outcome {
        Outcome::Committed(Revision(revision))
    }

    #[track_caller]
    fn check(linearizable: bool, calls: &[(u64, u64, Call, Outcome)]) {
        let mut history = History::default();
        for (start, end, call, outcome) in calls {
            history.add(*call, *outcome, *start, *end);
        }
        let checked = history.check();
        assert_eq!(checked.is_ok(), linearizable, "{:?}", checked.map_err(|e| e.to_string()));
    }

    #[test]
    fn in_order() {
        check(true, &[(1, 2, CREATE, committed(2)), (3, 4, Call::Get, held(1, 2, 2))]);
        check(true, &[(1, 2, CREATE, committed(2)), (3, 4, UPDATE, committed(5))]);
        let refused = Outcome::Refused { actual: Some(Revision(2)) };
        check(true, &[(1, 2, CREATE, committed(2)), (3, 4, CREATE, refused)]);
    }

    #[test]
    fn overlapping_calls_may_come_in_any_order() {
        check(true, &[(1, 9, CREATE, committed(2)), (2, 3, Call::Get, Outcome::Got(None))]);
        check(true, &[(1, 9, CREATE, committed(2)), (2, 3, Call::Get, held(1, 2, 2))]);
        let seen = [(2, 3, Call::Get, held(1, 2, 2)), (4, 5, Call::Get, Outcome::Got(None))];
        check(false, &[(1, 9, CREATE, committed(2)), seen[0], seen[1]]);
    }

    #[test]
    fn a_stale_read_is_found() {
        check(false, &[(1, 2, CREATE, committed(2)), (3, 4, Call::Get, Outcome::Got(None))]);
    }

    #[test]
    fn a_lost_update_is_found() {
        let update = Call::Put { expect: Expect::At(Revision(2)), value: 3 };
        let both = [(3, 8, UPDATE, committed(3)), (4, 7, update, committed(4))];
        check(false, &[(1, 2, CREATE, committed(2)), both[0], both[1]]);
    }

    #[test]
    fn a_wrong_refusal_is_found() {
        check(false, &[(1, 2, CREATE, Outcome::Refused { actual: None })]);
        let refused = Outcome::Refused { actual: Some(Revision(9)) };
        check(false, &[(1, 2, CREATE, committed(2)), (3, 4, CREATE, refused)]);
    }

    #[test]
    fn revisions_that_go_back_are_found() {
        check(false, &[(1, 2, CREATE, committed(2)), (3, 4, UPDATE, committed(1))]);
    }
}
