//! The cache in front of an engine, seen as an engine, so that it keeps the same promises.

use std::{collections::HashMap, sync::Arc, time::Duration};

use async_trait::async_trait;
use futures::{StreamExt, stream};
use parking_lot::Mutex;
use tokio::time::timeout;

use super::World;
use crate::{
    engine::{Batch, Change, Changes, Engine, ListRequest, Listing, Watch},
    error::Error,
    lease::Lease,
    model::{Entry, Incarnation, Op, Revision},
    store::{Event, EventBatch, Store, StoreOptions, Watcher},
};

/// A world in which every engine has a [`Store`] in front.
pub struct Cached<W> {
    world: W,
    stores: Mutex<HashMap<Incarnation, Store>>,
}

impl<W: World> Cached<W> {
    pub fn new(world: W) -> Self {
        Self { world, stores: Mutex::default() }
    }

    async fn start(&self, engine: Arc<dyn Engine>) -> Arc<dyn Engine> {
        let incarnation = engine.incarnation();
        let store = store_on(engine).await;
        self.stores.lock().insert(incarnation, store.clone());
        Arc::new(Front(store))
    }
}

#[async_trait]
impl<W: World> World for Cached<W> {
    async fn fresh(&self) -> Arc<dyn Engine> {
        self.start(self.world.fresh().await).await
    }

    async fn beside(&self, front: &Arc<dyn Engine>) -> Arc<dyn Engine> {
        let store = self.stores.lock().get(&front.incarnation()).cloned();
        let engine = Arc::clone(store.expect("this world made it").engine());
        Arc::new(Front(store_on(self.world.beside(&engine).await).await))
    }

    fn durable(&self) -> bool {
        self.world.durable()
    }

    async fn reopen(&self, front: Arc<dyn Engine>) -> Arc<dyn Engine> {
        let store = self.stores.lock().remove(&front.incarnation());
        let store = store.expect("this world made it");
        drop(front);
        store.stop().await;
        let engine = Arc::clone(store.engine());
        drop(store);
        self.start(self.world.reopen(engine).await).await
    }
}

/// How often a store is started on an engine that cannot be reached for a moment.
const STARTS_MAX: usize = 50;

async fn store_on(engine: Arc<dyn Engine>) -> Store {
    for attempt in 0..STARTS_MAX {
        match Store::start(engine.clone(), StoreOptions::default()).await {
            Ok(store) => return store,
            // A member that died a moment ago: a server would be started again.
            Err(error) if error.retryable() => tracing::debug!(%error, attempt, "starting again"),
            Err(error) => panic!("a store starts on an engine: {error}"),
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    panic!("a store starts on an engine within {STARTS_MAX} attempts");
}

#[derive(Debug)]
struct Front(Store);

#[async_trait]
impl Engine for Front {
    fn incarnation(&self) -> Incarnation {
        self.0.incarnation()
    }

    async fn current(&self, _prefix: &str) -> Result<Revision, Error> {
        Ok(self.0.snapshot().await?.revision())
    }

    async fn get(&self, key: &str) -> Result<Option<Entry>, Error> {
        Ok(self.0.get(key).await?.map(|entry| entry.as_ref().clone()))
    }

    async fn list(&self, request: ListRequest) -> Result<Listing, Error> {
        let snapshot = match request.at {
            Some(at) => self.0.snapshot_at(at).await?,
            None => self.0.snapshot().await?,
        };
        let limit = if request.limit == 0 { usize::MAX } else { request.limit };
        let after = request.after.as_deref().unwrap_or_default();
        let mut rest = snapshot.range_after(&request.prefix, after);
        let entries = rest.by_ref().take(limit).map(|entry| entry.as_ref().clone()).collect();
        Ok(Listing { entries, revision: snapshot.revision(), more: rest.next().is_some() })
    }

    async fn commit(&self, ops: Vec<Op>) -> Result<Revision, Error> {
        self.0.commit(ops).await
    }

    async fn watch(&self, prefix: &str, after: Revision) -> Result<Watch, Error> {
        let front = Following { watcher: self.0.watch(prefix, after)?, told: after };
        Ok(stream::unfold(Some(front), Following::step).boxed())
    }

    async fn compact(&self, up_to: Revision) -> Result<(), Error> {
        self.0.compact(up_to).await
    }

    async fn acquire(
        &self,
        name: &str,
        holder: &str,
        ttl: Duration,
    ) -> Result<Option<Lease>, Error> {
        self.0.engine().acquire(name, holder, ttl).await
    }

    async fn renew(&self, lease: &Lease) -> Result<bool, Error> {
        self.0.engine().renew(lease).await
    }

    async fn resign(&self, lease: Lease) -> Result<(), Error> {
        self.0.engine().resign(lease).await
    }

    async fn close(&self) {
        self.0.stop().await;
    }
}

/// A watcher that says where it is whenever nothing happens.
struct Following {
    watcher: Watcher,
    told: Revision,
}

/// How long nothing must happen before a bookmark.
const IDLE: Duration = Duration::from_millis(5);

impl Following {
    async fn step(following: Option<Self>) -> Option<(Result<Batch, Error>, Option<Self>)> {
        let mut following = following?;
        let item = following.next().await;
        let rest = item.is_ok().then_some(following);
        Some((item, rest))
    }

    async fn next(&mut self) -> Result<Batch, Error> {
        loop {
            match timeout(IDLE, self.watcher.next()).await {
                Ok(batch) => {
                    let batch = plain(batch?.as_ref());
                    self.told = batch.revision;
                    return Ok(batch);
                }
                Err(_) if self.told < self.watcher.bookmark() => {
                    self.told = self.watcher.bookmark();
                    return Ok(Batch { revision: self.told, changes: Changes::new() });
                }
                Err(_) => {}
            }
        }
    }
}

fn plain(batch: &EventBatch) -> Batch {
    let change = |event: &Event| match event {
        Event::Put { entry, .. } => Change::Put(entry.as_ref().clone()),
        Event::Delete { previous, revision } => {
            Change::Delete { key: Arc::clone(&previous.key), revision: *revision }
        }
    };
    Batch { revision: batch.revision, changes: batch.events.iter().map(change).collect() }
}
