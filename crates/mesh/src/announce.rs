//! "Look again": announcements that coalesce.
//!
//! An announcement names what changed and carries nothing else, so two of the same name are one. A
//! listener that is slow therefore holds at most one entry per name and always finds the latest
//! state when it looks: nothing queues up, nothing is lost, and nobody is held up.
use parking_lot::Mutex;
use std::collections::BTreeSet;
use std::sync::{Arc, Weak};
use tokio::sync::Notify;

struct Inbox<T> {
    waiting: Mutex<BTreeSet<T>>,
    wake: Notify,
}

/// The side that speaks. Cheap to clone; all clones speak to the same listeners.
pub struct Announcer<T> {
    listeners: Arc<Mutex<Vec<Weak<Inbox<T>>>>>,
}

impl<T> Clone for Announcer<T> {
    fn clone(&self) -> Self {
        Self { listeners: Arc::clone(&self.listeners) }
    }
}

impl<T> Default for Announcer<T> {
    fn default() -> Self {
        Self { listeners: Arc::default() }
    }
}

impl<T: Ord + Clone> Announcer<T> {
    /// Never waits. Listeners that are gone are forgotten on the way.
    pub fn announce(&self, names: impl IntoIterator<Item = T>) {
        let names: Vec<T> = names.into_iter().collect();
        if names.is_empty() {
            return;
        }
        self.listeners.lock().retain(|listener| {
            let Some(inbox) = listener.upgrade() else { return false };
            inbox.waiting.lock().extend(names.iter().cloned());
            inbox.wake.notify_one();
            true
        });
    }

    /// Hears everything announced from now on.
    pub fn listen(&self) -> Announcements<T> {
        let inbox = Arc::new(Inbox { waiting: Mutex::default(), wake: Notify::new() });
        self.listeners.lock().push(Arc::downgrade(&inbox));
        Announcements { inbox }
    }
}

/// The side that listens.
pub struct Announcements<T> {
    inbox: Arc<Inbox<T>>,
}

impl<T: Ord> Announcements<T> {
    /// Everything announced since the last call; waits while there is nothing. Safe to cancel.
    pub async fn next(&mut self) -> BTreeSet<T> {
        loop {
            let waiting = self.take();
            if !waiting.is_empty() {
                return waiting;
            }
            self.inbox.wake.notified().await;
        }
    }

    /// The same without waiting.
    pub fn take(&mut self) -> BTreeSet<T> {
        std::mem::take(&mut *self.inbox.waiting.lock())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn repeated_names_are_one() {
        let announcer = Announcer::default();
        let mut slow = announcer.listen();
        for _ in 0..1000 {
            announcer.announce(["a", "b"]);
        }
        assert_eq!(slow.next().await, BTreeSet::from(["a", "b"]));
        announcer.announce(["c"]);
        assert_eq!(slow.next().await, BTreeSet::from(["c"]));
    }

    #[tokio::test]
    async fn a_waiting_listener_is_woken_and_each_hears_all() {
        let announcer = Announcer::default();
        let (mut one, mut other) = (announcer.listen(), announcer.listen());
        let waiting = tokio::spawn(async move { one.next().await });
        tokio::task::yield_now().await;
        announcer.clone().announce([7]);
        assert_eq!(waiting.await.unwrap(), BTreeSet::from([7]));
        assert_eq!(other.take(), BTreeSet::from([7]));
    }

    #[test]
    fn listeners_that_left_are_forgotten() {
        let announcer = Announcer::<u8>::default();
        drop(announcer.listen());
        announcer.announce([1]);
        assert_eq!(announcer.listeners.lock().len(), 0);
    }
}
