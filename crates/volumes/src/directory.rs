//! Where the registry keeps its entries: a small trait, and the implementation in memory.
use crate::{Address, ControllerId};
use futures::{StreamExt, stream::BoxStream};
use parking_lot::RwLock;
use std::collections::BTreeMap;
use tokio::sync::broadcast;
use tokio_stream::wrappers::{BroadcastStream, errors::BroadcastStreamRecvError};

/// One registered controller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    pub id: ControllerId,
    pub address: Address,
}

/// What a controller says about itself when it registers. But for the books it is for people.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// What makes devices of volumes; empty if it does not say.
    pub backend: String,
    pub capacity: Option<Room>,
    /// How often it registers, if it says so.
    pub refresh_seconds: Option<i64>,
    /// Which books it keeps; empty if it does not say.
    pub books: String,
}

/// How much fits, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Room {
    pub total_bytes: i64,
    pub available_bytes: i64,
}

/// What happened to the directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    Put(Entry),
    Removed(ControllerId),
    /// Changes were missed; whoever needs the truth lists again.
    Missed,
}

#[derive(Debug, thiserror::Error)]
pub enum DirectoryError {
    /// The store behind the directory cannot be used now; the same call may succeed later.
    #[error("the registry's store is not available: {0}")]
    Unavailable(String),
    /// Somebody else has what this entry needs.
    #[error("{0}")]
    Taken(String),
}

/// The registry's entries. Implementations are shared by all replicas or say in their own words why
/// not; a `put` that returned is seen by every `get` of the same server that starts after it.
#[async_trait::async_trait]
pub trait ControllerDirectory: Send + Sync + 'static {
    /// Adds or replaces. Called for every refresh of a controller as well, so writing what is there
    /// already has to be cheap.
    async fn put(&self, entry: Entry) -> Result<(), DirectoryError>;

    /// Refuses a controller while another one of its id, with books of its own, is heard of: volumes would
    /// be looked for in the wrong place. Directories that remember nothing of them refuse nobody.
    async fn admit(&self, _id: &ControllerId, _books: &str) -> Result<(), DirectoryError> {
        Ok(())
    }

    /// A controller has registered, again or for the first time, and said this about itself.
    /// Directories that show nobody when a controller was last heard of need not remember.
    async fn heard(&self, _id: &ControllerId, _report: Report) -> Result<(), DirectoryError> {
        Ok(())
    }

    /// Removing what is not there succeeds.
    async fn remove(&self, id: &ControllerId) -> Result<(), DirectoryError>;

    /// On the path of every proxied call: answered from memory.
    async fn get(&self, id: &ControllerId) -> Result<Option<Entry>, DirectoryError>;

    /// All entries, sorted by id.
    async fn list(&self) -> Result<Vec<Entry>, DirectoryError>;

    /// What changes from now on. Ends when the directory is dropped.
    fn changes(&self) -> BoxStream<'static, Change>;
}

/// How many changes a slow reader may lag behind before it is told [`Change::Missed`]: a burst of
/// all controllers of a large site registering at once.
const CHANGES_BUFFERED: usize = 256;

/// Entries in memory, for a registry on its own and for tests.
pub struct MemoryDirectory {
    entries: RwLock<BTreeMap<ControllerId, Address>>,
    changes: broadcast::Sender<Change>,
}

impl Default for MemoryDirectory {
    fn default() -> Self {
        Self { entries: RwLock::default(), changes: broadcast::Sender::new(CHANGES_BUFFERED) }
    }
}

impl MemoryDirectory {
    /// Tells the readers, while the entries are still locked so that the order is that of the
    /// writes. Having no reader is no error.
    fn tell(&self, change: Change) {
        let _readers = self.changes.send(change);
    }
}

#[async_trait::async_trait]
impl ControllerDirectory for MemoryDirectory {
    async fn put(&self, entry: Entry) -> Result<(), DirectoryError> {
        let mut entries = self.entries.write();
        if entries.get(&entry.id) != Some(&entry.address) {
            entries.insert(entry.id.clone(), entry.address.clone());
            self.tell(Change::Put(entry));
        }
        Ok(())
    }

    async fn remove(&self, id: &ControllerId) -> Result<(), DirectoryError> {
        let mut entries = self.entries.write();
        if entries.remove(id).is_some() {
            self.tell(Change::Removed(id.clone()));
        }
        Ok(())
    }

    async fn get(&self, id: &ControllerId) -> Result<Option<Entry>, DirectoryError> {
        let found = self.entries.read().get(id).cloned();
        Ok(found.map(|address| Entry { id: id.clone(), address }))
    }

    async fn list(&self) -> Result<Vec<Entry>, DirectoryError> {
        let entries = self.entries.read();
        let entry = |(id, address): (&ControllerId, &Address)| Entry {
            id: id.clone(),
            address: address.clone(),
        };
        Ok(entries.iter().map(entry).collect())
    }

    fn changes(&self) -> BoxStream<'static, Change> {
        BroadcastStream::new(self.changes.subscribe())
            .map(|change| match change {
                Ok(change) => change,
                Err(BroadcastStreamRecvError::Lagged(_)) => Change::Missed,
            })
            .boxed()
    }
}

#[cfg(test)]
mod tests {
    use super::{Change, ControllerDirectory, Entry, MemoryDirectory};
    use crate::{Address, ControllerId};
    use futures::StreamExt;

    fn entry(id: &str, address: &str) -> Entry {
        Entry { id: ControllerId::parse(id).unwrap(), address: Address::parse(address).unwrap() }
    }

    /// proves: VOL-02
    #[tokio::test]
    async fn entries_are_added_replaced_removed_and_listed_in_order() {
        let directory = MemoryDirectory::default();
        let mut changes = directory.changes();
        for (id, address) in [("b", "h:1"), ("a", "h:2"), ("b", "h:3"), ("b", "h:3")] {
            directory.put(entry(id, address)).await.unwrap();
        }
        assert_eq!(directory.list().await.unwrap(), [entry("a", "h:2"), entry("b", "h:3")]);
        let b = ControllerId::parse("b").unwrap();
        directory.remove(&b).await.unwrap();
        directory.remove(&b).await.unwrap();
        assert_eq!(directory.get(&b).await.unwrap(), None);

        let seen: Vec<Change> = changes.by_ref().take(4).collect().await;
        let put = |id, address| Change::Put(entry(id, address));
        assert_eq!(seen, [put("b", "h:1"), put("a", "h:2"), put("b", "h:3"), Change::Removed(b)]);
    }
}
