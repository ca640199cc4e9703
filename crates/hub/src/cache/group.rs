//! One group of a cache: one way to read one kind.
use super::keys::CacheKey;
use super::shelf::{Bounds, Shelf, Ticket};
use crate::error::Error;
use crate::options::{ObjectName, Page};
use futures::FutureExt as _;
use futures::future::{BoxFuture, WeakShared};
use orrery_api::Encoded;
use orrery_store::Revision;
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use tokio::time::Instant;

/// What an entry takes beside the bytes of its objects: keys, lists and what ties them together.
const ENTRY_BYTES: usize = 256;

/// An answer that can be kept.
pub trait Answer: Clone + Send + Sync + 'static {
    /// How many bytes it takes; `None` if it must not be kept.
    fn weight(&self) -> Option<usize>;
}

impl Answer for Encoded {
    fn weight(&self) -> Option<usize> {
        Some(ENTRY_BYTES + self.bytes().len())
    }
}

impl Answer for Page<Encoded> {
    /// A list whose rest the upstream will have forgotten is of no use to those who come later.
    fn weight(&self) -> Option<usize> {
        let items: usize = self.items.iter().map(|item| ENTRY_BYTES + item.bytes().len()).sum();
        self.continue_from.is_none().then_some(ENTRY_BYTES + items)
    }
}

/// The figures of a group.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Figures {
    pub hits: u64,
    pub misses: u64,
    pub evictions: u64,
    pub entries: usize,
    pub bytes: usize,
}

/// Whoever awaits it drives it; it ends with the last who does.
type Flight<V> = WeakShared<BoxFuture<'static, Result<V, Error>>>;

/// Answers by key. Asked by many for one thing at once, it asks once. What went wrong is not kept.
pub struct Group<K, V> {
    shelf: Mutex<Shelf<K, V, Flight<V>>>,
    hits: AtomicU64,
    misses: AtomicU64,
}

impl<K: CacheKey, V: Answer> Group<K, V> {
    pub fn new(bounds: Bounds) -> Arc<Self> {
        let shelf = Mutex::new(Shelf::new(bounds));
        Arc::new(Self { shelf, hits: AtomicU64::new(0), misses: AtomicU64::new(0) })
    }

    /// What is kept for a key, or what `fill` brings; for one who knows of this mark.
    pub async fn read(
        self: &Arc<Self>,
        key: K,
        mark: Revision,
        fill: impl FnOnce() -> BoxFuture<'static, Result<V, Error>> + Send,
    ) -> Result<V, Error> {
        let flight = {
            let mut shelf = self.shelf.lock();
            let now = Instant::now();
            if let Some(found) = shelf.find(&key, mark, now) {
                self.hits.fetch_add(1, Ordering::Relaxed);
                return Ok(found);
            }
            self.misses.fetch_add(1, Ordering::Relaxed);
            match shelf.under_way(&key, mark).and_then(WeakShared::upgrade) {
                Some(joined) => joined,
                None => {
                    let ticket = shelf.begin(key.clone(), mark, now);
                    let filling = Filling { group: self.clone(), key: key.clone(), ticket };
                    let flight = filling.run(fill()).boxed().shared();
                    if let Some(shared) = flight.downgrade() {
                        shelf.attach(&key, ticket, shared);
                    }
                    flight
                }
            }
        };
        flight.await
    }

    /// An object has changed.
    pub fn forget(&self, name: &ObjectName) {
        let mut shelf = self.shelf.lock();
        match K::all_of(name) {
            Some(keys) => keys.iter().for_each(|key| shelf.forget_key(key)),
            None => shelf.forget(|key| key.concerns(name)),
        }
    }

    /// Anything may have changed.
    pub fn forget_all(&self) {
        self.shelf.lock().forget(|_| true);
    }

    pub fn figures(&self) -> Figures {
        let shelf = self.shelf.lock();
        Figures {
            hits: self.hits.load(Ordering::Relaxed),
            misses: self.misses.load(Ordering::Relaxed),
            evictions: shelf.evictions(),
            entries: shelf.len(),
            bytes: shelf.bytes(),
        }
    }
}

/// A fill under way. One that nobody waits for any more leaves nothing behind.
struct Filling<K: CacheKey, V: Answer> {
    group: Arc<Group<K, V>>,
    key: K,
    ticket: Ticket,
}

impl<K: CacheKey, V: Answer> Filling<K, V> {
    async fn run(self, fill: BoxFuture<'static, Result<V, Error>>) -> Result<V, Error> {
        let brought = fill.await?;
        let weighed = brought.weight().map(|bytes| (brought.clone(), bytes));
        self.group.shelf.lock().finish(&self.key, self.ticket, weighed);
        Ok(brought)
    }
}

impl<K: CacheKey, V: Answer> Drop for Filling<K, V> {
    fn drop(&mut self) {
        self.group.shelf.lock().leave(&self.key, self.ticket);
    }
}
