//! What is kept, and what is under way to be kept. Pure: the time comes in as an argument.
use lru::LruCache;
use orrery_store::Revision;
use std::collections::HashMap;
use std::hash::Hash;
use std::time::Duration;
use tokio::time::Instant;

/// How much is kept, and for how long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    pub entries_max: usize,
    pub bytes_max: usize,
    /// Counted from when it was asked for.
    pub expiry: Duration,
}

/// One fill, from when it was asked for until its answer is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ticket {
    id: u64,
    mark: Revision,
    since: Instant,
}

struct Kept<V> {
    value: V,
    bytes: usize,
    mark: Revision,
    since: Instant,
}

struct UnderWay<F> {
    ticket: Ticket,
    flight: Option<F>,
}

/// Answers by key, the least recently used go first.
///
/// A mark says how far writes through any server had come when an answer was asked for: an answer is good for those
/// who know of no later one. Whoever forgets a key also forgets its fill, so that an answer from before is never kept.
pub struct Shelf<K, V, F> {
    bounds: Bounds,
    kept: LruCache<K, Kept<V>>,
    under_way: HashMap<K, UnderWay<F>>,
    bytes: usize,
    last_id: u64,
    evictions: u64,
}

impl<K: Hash + Eq + Clone, V: Clone, F> Shelf<K, V, F> {
    pub fn new(bounds: Bounds) -> Self {
        let (kept, under_way) = (LruCache::unbounded(), HashMap::new());
        Self { bounds, kept, under_way, bytes: 0, last_id: 0, evictions: 0 }
    }

    /// What is kept for a key, if it is good for one who knows of this mark.
    pub fn find(&mut self, key: &K, mark: Revision, now: Instant) -> Option<V> {
        let kept = self.kept.get(key)?;
        if mark <= kept.mark && now < kept.since + self.bounds.expiry {
            return Some(kept.value.clone());
        }
        self.take_out(key);
        None
    }

    /// The fill that is under way for a key, if its answer will be good for one who knows of this mark.
    pub fn under_way(&self, key: &K, mark: Revision) -> Option<&F> {
        let found = self.under_way.get(key).filter(|found| mark <= found.ticket.mark);
        found.and_then(|found| found.flight.as_ref())
    }

    /// Begins a fill.
    pub fn begin(&mut self, key: K, mark: Revision, now: Instant) -> Ticket {
        self.last_id += 1;
        let ticket = Ticket { id: self.last_id, mark, since: now };
        self.under_way.insert(key, UnderWay { ticket, flight: None });
        ticket
    }

    /// Says what others join who want the same.
    pub fn attach(&mut self, key: &K, ticket: Ticket, flight: F) {
        if let Some(found) = self.under_way.get_mut(key).filter(|found| found.ticket == ticket) {
            found.flight = Some(flight);
        }
    }

    /// Ends a fill, and keeps what it brought unless the key was forgotten meanwhile; true if it is kept.
    pub fn finish(&mut self, key: &K, ticket: Ticket, brought: Option<(V, usize)>) -> bool {
        if !self.leave(key, ticket) {
            return false;
        }
        let Some((value, bytes)) = brought.filter(|(_, bytes)| *bytes <= self.bounds.bytes_max)
        else {
            return false;
        };
        self.take_out(key);
        let Ticket { mark, since, .. } = ticket;
        self.kept.put(key.clone(), Kept { value, bytes, mark, since });
        self.bytes += bytes;
        self.make_room();
        true
    }

    /// Ends a fill that brought nothing; false if it was forgotten, or another took its place.
    pub fn leave(&mut self, key: &K, ticket: Ticket) -> bool {
        let own = self.under_way.get(key).is_some_and(|found| found.ticket == ticket);
        own && self.under_way.remove(key).is_some()
    }

    /// Forgets a key, with what is under way for it.
    pub fn forget_key(&mut self, key: &K) {
        self.under_way.remove(key);
        self.take_out(key);
    }

    /// Forgets the keys that something concerns, with what is under way for them.
    pub fn forget(&mut self, concerns: impl Fn(&K) -> bool) {
        self.under_way.retain(|key, _| !concerns(key));
        let keys: Vec<K> =
            self.kept.iter().map(|(key, _)| key).filter(|k| concerns(k)).cloned().collect();
        keys.iter().for_each(|key| self.take_out(key));
    }

    pub fn len(&self) -> usize {
        self.kept.len()
    }

    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// How many had to go because others came.
    pub fn evictions(&self) -> u64 {
        self.evictions
    }

    fn make_room(&mut self) {
        while self.bounds.entries_max < self.kept.len() || self.bounds.bytes_max < self.bytes {
            let Some((_, gone)) = self.kept.pop_lru() else { return };
            self.bytes -= gone.bytes;
            self.evictions += 1;
        }
    }

    fn take_out(&mut self, key: &K) {
        if let Some(gone) = self.kept.pop(key) {
            self.bytes -= gone.bytes;
        }
    }
}

#[cfg(test)]
mod tests;
