//! What a stream has to look at again.
//!
//! A mailbox holds names, not messages: a stream that is slow finds each name once, and the latest
//! state behind it. Its size is bounded by what the stream subscribed to, and filling it never waits.
use super::kind::Kind;
use parking_lot::Mutex;
use std::collections::BTreeSet;
use std::sync::Arc;
use tokio::sync::Notify;
use tokio::time::Instant;

/// What is to be looked at, and since when.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pending {
    pub endpoints: BTreeSet<Arc<str>>,
    /// Of these kinds, everything.
    pub kinds: BTreeSet<Kind>,
    pub since: Option<Instant>,
}

#[derive(Default)]
pub struct Mailbox {
    pending: Mutex<Pending>,
    wake: Notify,
}

impl Mailbox {
    pub fn endpoints_changed(&self, names: &[Arc<str>], at: Instant) {
        let mut pending = self.pending.lock();
        pending.endpoints.extend(names.iter().cloned());
        pending.since.get_or_insert(at);
        drop(pending);
        self.wake.notify_one();
    }

    pub fn config_changed(&self, kinds: &BTreeSet<Kind>, at: Instant) {
        let mut pending = self.pending.lock();
        pending.kinds.extend(kinds);
        pending.since.get_or_insert(at);
        drop(pending);
        self.wake.notify_one();
    }

    /// Waits until there is something. Safe to cancel: nothing is taken before it returns.
    pub async fn next(&self) -> Pending {
        loop {
            let pending = std::mem::take(&mut *self.pending.lock());
            if pending != Pending::default() {
                return pending;
            }
            self.wake.notified().await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A client that does not read costs one name per subscription, however often it changes.
    #[tokio::test]
    async fn latest_wins() {
        let mailbox = Mailbox::default();
        let (a, b): (Arc<str>, Arc<str>) = (Arc::from("a"), Arc::from("b"));
        let first = Instant::now();
        for _ in 0..1000 {
            mailbox.endpoints_changed(std::slice::from_ref(&a), first);
            mailbox.endpoints_changed(std::slice::from_ref(&b), Instant::now());
            mailbox.config_changed(&[Kind::Route].into(), Instant::now());
        }
        let pending = mailbox.next().await;
        assert_eq!(pending.endpoints, BTreeSet::from([a, b]));
        assert_eq!(pending.kinds, [Kind::Route].into());
        assert_eq!(pending.since, Some(first), "waiting is counted from the first change");
    }
}
