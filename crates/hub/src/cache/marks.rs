//! How far writes through any server have come, as the store that they share says.
//!
//! Whoever has written at the upstream advances the marks before it answers; whoever reads looks at them first. An
//! answer that was asked for before a write therefore has an older mark than the next reader knows of, wherever it is
//! kept and whoever believes to own it.
use crate::error::Error;
use crate::options::ObjectName;
use crate::refusal::from_store;
use orrery_store::{Error as StoreError, Op, Revision, Store};

/// Where marks are kept; nobody watches or lists them.
const CACHES: &str = "caches/";

/// How many marks the objects of a kind have: a write makes so small a part of what is kept useless.
const SLOTS: u64 = 64;

/// The marks of one kind.
pub struct Marks {
    store: Store,
    storage: String,
}

impl Marks {
    pub fn new(store: Store, storage: &str) -> Self {
        Self { store, storage: storage.to_owned() }
    }

    /// The mark that answers about one object must have.
    pub async fn of_object(&self, name: &ObjectName) -> Result<Revision, Error> {
        self.read(&self.object_key(name)).await
    }

    /// The mark that lists must have.
    pub async fn of_lists(&self) -> Result<Revision, Error> {
        self.read(&self.lists_key()).await
    }

    /// An object was written, or may have been.
    pub async fn advance(&self, name: &ObjectName) -> Result<(), Error> {
        let (object, lists) = (self.object_key(name), self.lists_key());
        futures::try_join!(self.advance_one(&object), self.advance_one(&lists))?;
        Ok(())
    }

    /// Lists are of no use any more.
    pub async fn advance_lists(&self) -> Result<(), Error> {
        self.advance_one(&self.lists_key()).await
    }

    async fn read(&self, key: &str) -> Result<Revision, Error> {
        let found = self.store.engine().get(key).await.map_err(from_store)?;
        Ok(found.map_or(Revision(0), |entry| entry.modified))
    }

    /// One who was faster has advanced it after it was read here, which is after the write.
    async fn advance_one(&self, key: &str) -> Result<(), Error> {
        let at = self.read(key).await?;
        let op = match at {
            Revision(0) => Op::create(key, "1"),
            at => Op::update(key, "1", at),
        };
        match self.store.commit(vec![op]).await {
            Ok(_) | Err(StoreError::Conflict { .. }) => Ok(()),
            Err(error) => Err(from_store(error)),
        }
    }

    fn lists_key(&self) -> String {
        format!("{CACHES}{}/lists", self.storage)
    }

    fn object_key(&self, name: &ObjectName) -> String {
        let slot = super::replicas::score(&name.to_string(), "") % SLOTS;
        format!("{CACHES}{}/objects/{slot:02}", self.storage)
    }
}
