//! Another key, while everything goes on.
//!
//! ```text
//!   1 make a key            this server holds it, and still seals with the old one
//!   2 introduce it          in the store, sealed with the old one; every server learns it
//!   3 agree on it           once every server says that it holds it
//!   4 wait                  until every server says that it seals with it
//!   5 seal everything again until nothing is left that another key sealed, not even in the history
//! ```
//! A failure between two steps leaves every server able to read everything.
use super::places::{Agreement, LEASES, RING, USE, words};
use super::{KeySource, Sealer, follow};
use orrery_hub::Error;
use orrery_seal::{KeyId, Keyring, is_sealed};
use orrery_store::{Engine, Entry, Expect, Lease, ListRequest, Op};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;
use tokio_util::task::TaskTracker;

/// How long the other servers may take to say that they hold a key.
const LEARN_TIMEOUT: Duration = Duration::from_secs(30);
const LOOK_AGAIN: Duration = Duration::from_millis(100);
/// One rotation at a time; whoever dies in the middle of one keeps others waiting for this long.
const LEASE: &str = "sealing";
const LEASE_TTL: Duration = Duration::from_secs(30);
/// Objects read at once.
const PAGE: usize = 100;
/// Rounds over everything; a second one is needed only for what was written during the first.
const ROUNDS_MAX: usize = 20;

/// What a rotation did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rotated {
    pub key: KeyId,
    pub previous: KeyId,
    /// Objects that were sealed again.
    pub resealed: u64,
}

/// Rotates the keys of a store.
#[derive(Clone)]
pub struct Rotation {
    /// As the values are kept.
    engine: Arc<dyn Engine>,
    sealer: Arc<Sealer>,
    server: String,
    /// What was begun, whether or not somebody waits for it.
    tasks: TaskTracker,
}

impl Rotation {
    pub fn new(engine: Arc<dyn Engine>, sealer: Arc<Sealer>, server: &str) -> Self {
        Self { engine, sealer, server: server.to_owned(), tasks: TaskTracker::new() }
    }

    pub fn engine(&self) -> &dyn Engine {
        &*self.engine
    }

    pub fn sealer(&self) -> &Sealer {
        &self.sealer
    }

    /// Seals everything with a new key, or with one that every server holds already. It goes on when
    /// whoever asked for it is gone: who changes a key that others know must not have to stay for it.
    pub async fn rotate(&self, wanted: Option<KeyId>) -> Result<Rotated, Error> {
        let rotation = self.clone();
        let running = self.tasks.spawn(async move {
            let outcome = rotation.rotate_here(wanted).await;
            match &outcome {
                Ok(Rotated { key, resealed, .. }) => {
                    tracing::info!(%key, resealed, "everything is sealed with this key");
                }
                Err(error) => tracing::warn!(%error, "the encryption key was not changed"),
            }
            outcome
        });
        running.await.unwrap_or_else(|error| Err(Error::Internal(error.to_string())))
    }

    async fn rotate_here(&self, wanted: Option<KeyId>) -> Result<Rotated, Error> {
        let lease = self.engine.acquire(LEASE, &self.server, LEASE_TTL).await.map_err(store)?;
        let lease = lease.ok_or_else(|| {
            Error::BadRequest("the key is being changed already; wait until that is done".into())
        })?;
        let outcome = self.rotate_alone(wanted, &lease).await;
        // A lease that is not given back ends by itself.
        let _ = self.engine.resign(lease).await;
        outcome
    }

    async fn rotate_alone(&self, wanted: Option<KeyId>, lease: &Lease) -> Result<Rotated, Error> {
        let ring = self.sealer.ring().ok_or_else(no_key)?;
        let previous = ring.current();
        let next = match wanted {
            Some(id) => ring.led_by(id).ok_or_else(|| not_held(id))?,
            None => self.fresh(&ring)?,
        };
        self.sealer.replace(ring.joined(&next)).map_err(|e| Error::Unavailable(e.to_string()))?;
        if wanted.is_none() {
            let text = next.to_text();
            let introduced = ring.seal(RING.as_bytes(), text.as_bytes());
            self.put(RING, introduced).await?;
        }
        let key = next.current();
        if let Some(who) = self.waited_for(|keys| keys.contains(&key)).await? {
            self.take_back().await?;
            return Err(Error::Unavailable(format!(
                "these servers do not hold key {key}: {who}; nothing was changed. Look at their logs"
            )));
        }
        self.put(USE, words([next.current()]).into_bytes()).await?;
        self.sealer.replace(next.clone()).map_err(|e| Error::Unavailable(e.to_string()))?;
        // What a server seals with the old key after the last round would stay so.
        if let Some(who) = self.waited_for(|keys| keys.first() == Some(&key)).await? {
            return Err(Error::Unavailable(format!(
                "these servers do not seal with key {key} yet: {who}; everything can be read. Look at \
                 their logs, then go on with: orrery secrets rotate-key --to-key {key}"
            )));
        }
        let resealed = self.reseal(&next, lease).await?;
        self.take_back().await?;
        self.forget_history().await?;
        Ok(Rotated { key: next.current(), previous, resealed })
    }

    fn fresh(&self, ring: &Keyring) -> Result<Keyring, Error> {
        match self.sealer.source {
            KeySource::File { .. } | KeySource::Fresh => Ok(ring.rotated()),
            KeySource::Given(_) | KeySource::None => Err(Error::BadRequest(
                "the key of this server comes from the environment; add a new key to \
                 ORRERY_ENCRYPTION_KEY of every server, start them again, and name it: \
                 orrery secrets rotate-key --to-key ID"
                    .into(),
            )),
        }
    }

    /// Waits until every server that has a lease says of its keys what is asked for; those that did
    /// not in time.
    async fn waited_for(&self, good: impl Fn(&[KeyId]) -> bool) -> Result<Option<String>, Error> {
        let until = Instant::now() + LEARN_TIMEOUT;
        loop {
            let waiting = self.without(&good).await?;
            if waiting.is_empty() {
                return Ok(None);
            }
            if until <= Instant::now() {
                return Ok(Some(waiting.join(", ")));
            }
            tokio::time::sleep(LOOK_AGAIN).await;
        }
    }

    async fn without(&self, good: impl Fn(&[KeyId]) -> bool) -> Result<Vec<String>, Error> {
        let leases = self.engine.list(ListRequest::prefix(LEASES)).await.map_err(store)?;
        let agreement = Agreement::read(&*self.engine).await.map_err(store)?;
        let there = leases.entries.iter().filter_map(|entry| entry.key.strip_prefix(LEASES));
        let is_good = |server: &str| {
            let said = agreement.servers.get(server);
            server == self.server || said.is_some_and(|(ids, _)| good(ids))
        };
        Ok(there.filter(|server| !is_good(server)).map(str::to_owned).collect())
    }

    /// Seals again what another key sealed, or none; how many there were.
    async fn reseal(&self, ring: &Keyring, lease: &Lease) -> Result<u64, Error> {
        let mut resealed = 0;
        for _ in 0..ROUNDS_MAX {
            let mut left = 0;
            for prefix in self.sealer.prefixes() {
                let (done, raced) = self.reseal_under(prefix, ring, lease).await?;
                resealed += done;
                left += raced;
            }
            if left == 0 {
                return Ok(resealed);
            }
        }
        Err(Error::Unavailable("objects change faster than they are sealed; try again".into()))
    }

    /// How many were sealed again, and how many changed meanwhile.
    async fn reseal_under(
        &self,
        prefix: &str,
        ring: &Keyring,
        lease: &Lease,
    ) -> Result<(u64, u64), Error> {
        let mut request = ListRequest { limit: PAGE, ..ListRequest::prefix(prefix) };
        let (mut done, mut raced) = (0, 0);
        loop {
            let page = self.engine.list(request.clone()).await.map_err(store)?;
            self.engine.renew(lease).await.map_err(store)?;
            for entry in page.entries.iter().filter(|entry| !ring.is_current(&entry.value)) {
                match self.reseal_one(entry, ring).await? {
                    true => done += 1,
                    false => raced += 1,
                }
            }
            request.after = page.entries.last().map(|entry| entry.key.clone());
            // The next page is of another moment; what changed in between comes in the next round.
            if !page.more {
                return Ok((done, raced));
            }
        }
    }

    async fn reseal_one(&self, entry: &Entry, ring: &Keyring) -> Result<bool, Error> {
        let context = entry.key.as_bytes();
        let sealed = if is_sealed(&entry.value) {
            let plain = ring.open(context, &entry.value);
            let plain = plain.map_err(|e| Error::Internal(format!("{}: {e}", entry.key)))?;
            ring.seal(context, &plain)
        } else {
            ring.seal(context, &entry.value)
        };
        let put = Op::put(entry.key.clone(), sealed, Expect::At(entry.modified));
        match self.engine.commit(vec![put]).await {
            Ok(_) => Ok(true),
            Err(orrery_store::Error::Conflict { .. }) => Ok(false),
            Err(error) => Err(store(error)),
        }
    }

    async fn put(&self, key: &str, value: Vec<u8>) -> Result<(), Error> {
        let there = self.engine.get(key).await.map_err(store)?;
        let expect = there.map_or(Expect::Absent, |entry| Expect::At(entry.modified));
        self.engine.commit(vec![Op::put(key, value, expect)]).await.map_err(store)?;
        Ok(())
    }

    /// The history still holds what the old key sealed, and a server that starts reads it. Watchers
    /// that are behind list again.
    async fn forget_history(&self) -> Result<(), Error> {
        let now = self.engine.current("").await.map_err(store)?;
        self.engine.compact(now).await.map_err(store)
    }

    /// Nothing that the old key opens stays in the store.
    async fn take_back(&self) -> Result<(), Error> {
        if let Some(entry) = self.engine.get(RING).await.map_err(store)? {
            let delete = Op::delete(RING, entry.modified);
            self.engine.commit(vec![delete]).await.map_err(store)?;
        }
        follow::forget_the_gone(&*self.engine, &self.server).await.map_err(store)
    }
}

fn no_key() -> Error {
    let text = "this server has no encryption key; start it with --encryption-key-file";
    Error::BadRequest(text.to_owned())
}

fn not_held(id: KeyId) -> Error {
    Error::BadRequest(format!(
        "this server does not hold key {id}; `orrery secrets status` lists them"
    ))
}

pub(super) fn store(error: orrery_store::Error) -> Error {
    if let orrery_store::Error::Uncertain { reason } = error {
        return Error::Uncertain(reason);
    }
    Error::Unavailable(error.to_string())
}
