//! What the server should know, and what it knows already.
//!
//! Reporting never holds the agent up: only the latest state of each instance is kept, and it goes
//! out when there is room. However slow the connection is, no more waits than there are instances.
use crate::model::InstanceId;
use crate::plan::Phase;
use orrery_proto::apps::v1::WorkloadInstanceStatus;
use orrery_proto::fleet::v1::{InstanceState, InstanceStates, ToServer, to_server};
use std::collections::{BTreeMap, BTreeSet};

/// States in one message. With a status of some hundred bytes (see [`MESSAGE_MAX_CHARS`]) a message
/// stays far below the usual limit of four megabytes.
pub(crate) const BATCH_MAX: usize = 512;

/// A cause is for people, who read a sentence or two.
pub(crate) const MESSAGE_MAX_CHARS: usize = 1024;

/// Holds what has to be said. One per agent.
#[derive(Debug, Default)]
pub(crate) struct Reporter {
    /// Nothing is said before the server has greeted us.
    connected: bool,
    entries: BTreeMap<InstanceId, Entry>,
    dirty: BTreeSet<InstanceId>,
}

#[derive(Debug, Default)]
struct Entry {
    latest: WorkloadInstanceStatus,
    /// What was last sent on this connection.
    sent: Option<WorkloadInstanceStatus>,
    /// Forget it once it is sent.
    last: bool,
}

impl Reporter {
    /// A new connection knows nothing: everything is said again.
    pub(crate) fn greeted(&mut self) {
        self.connected = true;
        for (id, entry) in &mut self.entries {
            entry.sent = None;
            self.dirty.insert(id.clone());
        }
    }

    /// Nobody listens any more.
    pub(crate) fn unheard(&mut self) {
        self.connected = false;
    }

    /// Notes the state of an instance, and whether that is news.
    pub(crate) fn set(&mut self, id: &InstanceId, mut status: WorkloadInstanceStatus) {
        shorten(&mut status.message);
        let entry = self.entries.entry(id.clone()).or_default();
        entry.last = false;
        if entry.sent.as_ref() == Some(&status) {
            self.dirty.remove(id);
        } else {
            self.dirty.insert(id.clone());
        }
        entry.latest = status;
    }

    /// Notes that an instance is gone; nothing follows about it.
    pub(crate) fn removed(&mut self, id: &InstanceId, generation: i64) {
        let status = WorkloadInstanceStatus {
            state: Phase::Removed.names().0.to_owned(),
            observed_generation: generation,
            ..WorkloadInstanceStatus::default()
        };
        self.set(id, status);
        self.entries.entry(id.clone()).or_default().last = true;
    }

    /// Whether there is something to say and somebody to say it to.
    pub(crate) fn has_news(&self) -> bool {
        self.connected && !self.dirty.is_empty()
    }

    /// The next message. Each instance is in it once, with its latest state.
    pub(crate) fn take(&mut self) -> ToServer {
        let mut states = Vec::new();
        while let Some(id) = self.dirty.pop_first() {
            states.extend(self.take_one(id));
            if states.len() == BATCH_MAX {
                break;
            }
        }
        ToServer { message: Some(to_server::Message::States(InstanceStates { states })) }
    }

    fn take_one(&mut self, id: InstanceId) -> Option<InstanceState> {
        let entry = self.entries.get_mut(&id)?;
        let status = entry.latest.clone();
        if entry.last {
            self.entries.remove(&id);
        } else {
            entry.sent = Some(status.clone());
        }
        Some(InstanceState { id: id.as_str().to_owned(), status: Some(status) })
    }
}

fn shorten(message: &mut String) {
    if let Some((end, _)) = message.char_indices().nth(MESSAGE_MAX_CHARS) {
        message.truncate(end);
        message.push('…');
    }
}

#[cfg(test)]
mod tests;
