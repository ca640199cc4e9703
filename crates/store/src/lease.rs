//! Leases: who may act alone, and the proof of it inside a commit.
//!
//! A lease is a key under `leases/`. Whoever created it holds it, and the revision of its creation
//! is the fencing token: a commit that carries [`Lease::fence`] fails once the key was deleted or
//! created anew, whatever its author still believes.
//!
//! [`LocalLeases`] serves the engines that live in one process. It keeps deadlines in memory only:
//! when the process dies, so do all its holders, and the keys left over are removed on opening.

use std::{
    collections::HashMap,
    sync::{Arc, Weak},
    time::Duration,
};

use parking_lot::Mutex;
use tokio::time::{Instant, sleep_until};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use crate::{
    engine::{Engine, ListRequest},
    error::Error,
    model::{Expect, Op, Revision},
};

/// Where lease keys live in every engine.
pub(crate) const LEASES: &str = "leases/";

/// A lease that was acquired. It may have ended since: only a fenced commit tells for certain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lease {
    pub(crate) key: Arc<str>,
    pub(crate) created: Revision,
    pub(crate) ttl: Duration,
    /// etcd's own number for the lease; zero elsewhere.
    pub(crate) id: i64,
}

impl Lease {
    /// The key that exists for as long as the lease is held.
    pub fn key(&self) -> &Arc<str> {
        &self.key
    }

    /// How long the lease lasts without being renewed.
    pub fn ttl(&self) -> Duration {
        self.ttl
    }

    /// The revision at which the lease was taken: larger for every later holder.
    pub fn token(&self) -> Revision {
        self.created
    }

    /// The check that makes a commit fail unless this very lease is still held.
    pub fn fence(&self) -> Op {
        Op::check(Arc::clone(&self.key), Expect::CreatedAt(self.created))
    }

    pub(crate) fn removal(&self) -> Op {
        Op::Delete { key: Arc::clone(&self.key), expect: Expect::CreatedAt(self.created) }
    }
}

pub(crate) fn key_of(name: &str) -> Arc<str> {
    format!("{LEASES}{name}").into()
}

struct Held {
    created: Revision,
    deadline: Instant,
    ended: CancellationToken,
}

/// Leases of an engine that only this process can reach.
#[derive(Debug)]
pub(crate) struct LocalLeases {
    engine: Weak<dyn Engine>,
    held: Arc<Mutex<HashMap<Arc<str>, Held>>>,
    tasks: TaskTracker,
    stop: CancellationToken,
}

impl std::fmt::Debug for Held {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Held({})", self.created)
    }
}

impl LocalLeases {
    pub fn new(engine: Weak<dyn Engine>) -> Self {
        let stop = CancellationToken::new();
        Self { engine, held: Arc::default(), tasks: TaskTracker::new(), stop }
    }

    /// Removes what a process that died left behind.
    pub async fn clear(engine: &dyn Engine) -> Result<(), Error> {
        for entry in engine.list(ListRequest::prefix(LEASES)).await?.entries {
            engine.commit(vec![Op::delete(entry.key, entry.modified)]).await?;
        }
        Ok(())
    }

    pub async fn acquire(
        &self,
        name: &str,
        holder: &str,
        ttl: Duration,
    ) -> Result<Option<Lease>, Error> {
        let engine = self.engine()?;
        let key = key_of(name);
        let create = Op::create(Arc::clone(&key), holder.to_owned().into_bytes());
        match engine.commit(vec![create]).await {
            Ok(created) => {
                let lease = Lease { key, created, ttl, id: 0 };
                self.hold(lease.clone());
                Ok(Some(lease))
            }
            Err(Error::Conflict { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    pub fn renew(&self, lease: &Lease) -> bool {
        match self.held.lock().get_mut(&lease.key) {
            Some(held) if held.created == lease.created && Instant::now() < held.deadline => {
                held.deadline = Instant::now() + lease.ttl;
                true
            }
            Some(_) | None => false,
        }
    }

    pub async fn resign(&self, lease: Lease) -> Result<(), Error> {
        self.forget(&lease);
        remove(self.engine()?.as_ref(), &lease).await
    }

    pub async fn close(&self) {
        self.stop.cancel();
        self.tasks.close();
        self.tasks.wait().await;
    }

    fn engine(&self) -> Result<Arc<dyn Engine>, Error> {
        self.engine.upgrade().ok_or_else(|| Error::unavailable("the engine is closed"))
    }

    fn hold(&self, lease: Lease) {
        let ended = self.stop.child_token();
        let deadline = Instant::now() + lease.ttl;
        let held = Held { created: lease.created, deadline, ended: ended.clone() };
        self.held.lock().insert(Arc::clone(&lease.key), held);
        let (engine, held) = (self.engine.clone(), Arc::clone(&self.held));
        self.tasks.spawn(async move {
            let _ = ended.run_until_cancelled(expire(engine, held, lease)).await;
        });
    }

    fn forget(&self, lease: &Lease) {
        let mut held = self.held.lock();
        if held.get(&lease.key).is_some_and(|held| held.created == lease.created)
            && let Some(held) = held.remove(&lease.key)
        {
            held.ended.cancel();
        }
    }
}

/// Waits until the lease was not renewed in time, then deletes its key.
async fn expire(engine: Weak<dyn Engine>, held: Arc<Mutex<HashMap<Arc<str>, Held>>>, lease: Lease) {
    loop {
        let Some(deadline) = held.lock().get(&lease.key).map(|held| held.deadline) else { return };
        if deadline <= Instant::now() {
            break;
        }
        sleep_until(deadline).await;
    }
    held.lock().remove(&lease.key);
    let Some(engine) = engine.upgrade() else { return };
    if let Err(error) = remove(engine.as_ref(), &lease).await {
        tracing::warn!(key = %lease.key, %error, "cannot remove the key of an ended lease");
    }
}

async fn remove(engine: &dyn Engine, lease: &Lease) -> Result<(), Error> {
    match engine.commit(vec![lease.removal()]).await {
        Ok(_) | Err(Error::Conflict { .. }) => Ok(()),
        Err(error) => Err(error),
    }
}
