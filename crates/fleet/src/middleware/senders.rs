//! The senders map: the outbox of each connected agent.
use super::claims::Shown;
use super::distribute::{Addressed, by_receiver};
use super::outbox::Outbox;
use orrery_proto::fleet::v1::ServerMessage;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// One connection of one agent.
#[derive(Clone, Debug, Default)]
pub struct Session {
    /// Grows with each connection of an agent of this name; the newest wins.
    pub epoch: i64,
    /// Which agent it is, beside its name.
    pub shown: Shown,
    /// Whether people were told that another agent wants its name; that one asks every second.
    pub contested: Arc<AtomicBool>,
    pub outbox: Arc<Outbox>,
}

/// The sessions of the agents that are connected to this server.
#[derive(Debug, Default)]
pub struct Senders {
    sessions: Mutex<HashMap<String, Session>>,
}

impl Senders {
    /// Takes a new session in, and ends an older one of the same name.
    pub fn insert(&self, agent: &str, session: Session) {
        let mut sessions = self.sessions.lock();
        match sessions.get(agent) {
            Some(newer) if session.epoch < newer.epoch => session.outbox.close(),
            Some(_) | None => {
                if let Some(older) = sessions.insert(agent.to_owned(), session) {
                    older.outbox.close();
                }
            }
        }
    }

    /// Forgets a session, unless a newer one has taken its place.
    pub fn remove(&self, agent: &str, epoch: i64) -> bool {
        let mut sessions = self.sessions.lock();
        let current = sessions.get(agent).is_some_and(|session| session.epoch == epoch);
        if current && let Some(session) = sessions.remove(agent) {
            session.outbox.close();
        }
        current
    }

    /// The session of an agent that is connected here.
    pub fn session(&self, agent: &str) -> Option<Session> {
        self.sessions.lock().get(agent).cloned()
    }

    /// Leaves each message with its receiver; those for agents that are not connected are dropped,
    /// because the hello of an agent is answered with its full set.
    pub fn send(&self, messages: Vec<Addressed>) {
        for (agent, messages) in by_receiver(messages) {
            self.send_to(&agent, messages);
        }
    }

    pub fn send_to(&self, agent: &str, messages: Vec<ServerMessage>) {
        let outbox = self.sessions.lock().get(agent).map(|session| session.outbox.clone());
        if let Some(outbox) = outbox {
            outbox.push(messages);
        }
    }

    /// The names of all agents that are connected here.
    pub fn names(&self) -> Vec<String> {
        self.sessions.lock().keys().cloned().collect()
    }

    pub fn len(&self) -> usize {
        self.sessions.lock().len()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn session(epoch: i64) -> (Session, Arc<Outbox>) {
        let outbox = Arc::new(Outbox::default());
        (Session { epoch, outbox: outbox.clone(), ..Session::default() }, outbox)
    }

    #[tokio::test]
    async fn a_newer_session_ends_the_older_one() {
        let senders = Senders::default();
        let (old, old_outbox) = session(1);
        let (new, _new_outbox) = session(2);
        senders.insert("edge", old);
        senders.insert("edge", new);
        assert_eq!(old_outbox.next().await, None);
        assert!(!senders.remove("edge", 1), "the old connection's end does not evict the new one");
        assert_eq!(senders.len(), 1);
        assert!(senders.remove("edge", 2));
        assert!(senders.is_empty());
    }

    #[tokio::test]
    async fn a_session_that_comes_late_is_ended() {
        let senders = Senders::default();
        let (new, _keep) = session(2);
        let (old, old_outbox) = session(1);
        senders.insert("edge", new);
        senders.insert("edge", old);
        assert_eq!(old_outbox.next().await, None);
    }
}
