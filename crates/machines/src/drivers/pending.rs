//! The operations of one driver that wait for their answers.
//!
//! ```text
//!   open --> Waiting --settle--> the caller has its answer
//!              |
//!              +--abandon--> Abandoned --settle--> a late answer, dropped
//! ```
//!
//! An entry exists before its operation is sent, so an answer can never be faster than its waiter.
//! An abandoned entry stays until its answer comes: the driver is still working on it.
use super::error::GoneReason;
use orrery_proto::infragrpc::driver_side::Response;
use std::collections::HashMap;
use tokio::sync::oneshot;

/// Taken by `register`; operations never get it.
pub(super) const REGISTER_ID: i32 = 1;
const FIRST_ID: i32 = REGISTER_ID + 1;

/// A driver that leaves this many operations unanswered past their deadlines is stuck: its
/// connection is ended, so that a standby or a new connection can take over.
pub(super) const ABANDONED_MAX: usize = 64;

/// What a driver answered; `None` if its message held nothing.
pub(super) type Answer = Option<Response>;

enum Entry {
    Waiting(oneshot::Sender<Answer>),
    Abandoned,
}

pub(super) struct Pending {
    next: i32,
    entries: HashMap<i32, Entry>,
    abandoned: usize,
    closed: Option<GoneReason>,
}

/// What became of an answer.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Settled {
    Delivered,
    /// Its caller had given up.
    Late,
    /// No such operation, or answered before.
    Unknown,
}

impl Pending {
    pub fn new() -> Self {
        Self::starting_at(FIRST_ID)
    }

    fn starting_at(next: i32) -> Self {
        Self { next, entries: HashMap::new(), abandoned: 0, closed: None }
    }

    pub fn open(&mut self) -> Result<(i32, oneshot::Receiver<Answer>), GoneReason> {
        if let Some(reason) = &self.closed {
            return Err(reason.clone());
        }
        while self.entries.contains_key(&self.next) {
            self.next = after(self.next);
        }
        let id = self.next;
        self.next = after(id);
        let (sender, receiver) = oneshot::channel();
        self.entries.insert(id, Entry::Waiting(sender));
        Ok((id, receiver))
    }

    pub fn settle(&mut self, id: i32, answer: Answer) -> Settled {
        match self.entries.remove(&id) {
            None => Settled::Unknown,
            Some(Entry::Abandoned) => {
                self.abandoned -= 1;
                Settled::Late
            }
            Some(Entry::Waiting(sender)) => {
                if sender.send(answer).is_ok() {
                    Settled::Delivered
                } else {
                    Settled::Late
                }
            }
        }
    }

    /// The caller gave up on an operation that was sent. Returns how many such there are now, or
    /// `None` if the operation was settled already.
    pub fn abandon(&mut self, id: i32) -> Option<usize> {
        let entry = self.entries.get_mut(&id)?;
        if matches!(entry, Entry::Abandoned) {
            return None;
        }
        *entry = Entry::Abandoned;
        self.abandoned += 1;
        Some(self.abandoned)
    }

    /// The operation was never sent.
    pub fn withdraw(&mut self, id: i32) {
        self.entries.remove(&id);
    }

    /// Fails every waiting operation, and all that come later.
    pub fn close(&mut self, reason: GoneReason) {
        self.closed.get_or_insert(reason);
        self.entries.clear();
        self.abandoned = 0;
    }

    /// Why the connection ended. Before it has, a dropped waiter cannot be.
    pub fn reason(&self) -> GoneReason {
        self.closed.clone().unwrap_or(GoneReason::Closed)
    }
}

fn after(id: i32) -> i32 {
    id.checked_add(1).unwrap_or(FIRST_ID)
}

#[cfg(test)]
mod tests {
    use super::*;
    use orrery_proto::infragrpc::driver_side::ListResp;

    fn listed() -> Option<Response> {
        Some(Response::Listresponse(ListResp::default()))
    }

    /// proves: MCH-03. Defect 7: the id of `register` collided with the first operation's.
    #[test]
    fn ids_never_collide() {
        let mut pending = Pending::starting_at(i32::MAX - 1);
        let ids: Vec<i32> = (0..4).map(|_| pending.open().expect("open").0).collect();
        assert_eq!(ids, [i32::MAX - 1, i32::MAX, FIRST_ID, FIRST_ID + 1]);
        pending.next = i32::MAX;
        assert_eq!(pending.open().expect("open").0, FIRST_ID + 2);
    }

    #[test]
    fn unknown_twice_and_late_answers_are_told_apart() {
        let mut pending = Pending::new();
        assert_eq!(pending.settle(7, listed()), Settled::Unknown);
        let (id, _answer) = pending.open().expect("open");
        assert_eq!(pending.settle(id, listed()), Settled::Delivered);
        assert_eq!(pending.settle(id, listed()), Settled::Unknown);
        let (id, _answer) = pending.open().expect("open");
        assert_eq!(pending.abandon(id), Some(1));
        assert_eq!(pending.abandon(id), None, "giving up twice counts once");
        assert_eq!(pending.settle(id, listed()), Settled::Late);
        assert_eq!(pending.abandoned, 0);
    }

    /// Defect 3: a disconnect did not fail the pending operations.
    #[test]
    fn closing_fails_what_waits_and_what_comes() {
        let mut pending = Pending::new();
        let (_, mut answer) = pending.open().expect("open");
        pending.close(GoneReason::Stuck(3));
        pending.close(GoneReason::Closed);
        assert!(answer.try_recv().is_err());
        assert_eq!(pending.open().err(), Some(GoneReason::Stuck(3)));
    }
}
