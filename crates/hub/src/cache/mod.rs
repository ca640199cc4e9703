//! A read-through cache of hub views, for kinds that another service keeps.
//!
//! ```text
//!   get, list ─> owner of the key? ─ here ──> marks ─> group: kept and good? ─ no ─> upstream, once for all who ask
//!                       │                                   └──── yes ─> answer
//!                       └─ another server ─> asks it; where it cannot: the upstream, and nothing is kept
//!   apply, delete ─> upstream ─> marks advance ─> answer
//!   upstream's watch ─> forget what the change concerns
//! ```
//! What is read is as new as the last write through any server that shares the store, because an answer with an older
//! mark is not used ([`Marks`]). Changes that others make at the upstream are heard of through its watch; while that
//! is down, an answer is used until it expires and no longer.
mod group;
mod keys;
mod layer;
mod marks;
mod replicas;
mod shelf;

pub use group::Figures;
pub use layer::Cached;
pub use replicas::{Alone, Missed, Replicas, owner_of};

use crate::accessor::Accessor;
use crate::error::Error;
use crate::options::{GetOptions, ListOptions, ObjectName, Page};
use futures::FutureExt as _;
use group::Group;
use keys::{CacheKey as _, GetKey, ListKey};
use marks::Marks;
use orrery_api::{Encoded, Kind};
use orrery_store::{Revision, Store};
use shelf::Bounds;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// How many objects of a kind are kept, whatever they weigh.
const OBJECTS_MAX: usize = 65_536;
/// How many lists: a change is held against each of them.
const LISTS_MAX: usize = 1024;

/// What is decided about the cache of a kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CacheOptions {
    /// For each of the two groups of a kind.
    pub bytes_max: usize,
    pub expiry: Duration,
}

/// The cache of one kind on this server: a group for gets and one for lists.
pub struct Cache {
    upstream: Arc<dyn Accessor>,
    gets: Arc<Group<GetKey, Encoded>>,
    lists: Arc<Group<ListKey, Page<Encoded>>>,
    marks: Marks,
    replicas: Arc<dyn Replicas>,
    /// Of the upstream; 0 before its changes are listened to.
    heard: AtomicU64,
}

impl Cache {
    pub fn new(
        upstream: Arc<dyn Accessor>,
        options: CacheOptions,
        store: &Store,
        replicas: Arc<dyn Replicas>,
    ) -> Arc<Self> {
        let CacheOptions { bytes_max, expiry } = options;
        let bounds = |entries_max| Bounds { entries_max, bytes_max, expiry };
        let marks = Marks::new(store.clone(), &upstream.kind().qualified_plural());
        let (gets, lists) = (Group::new(bounds(OBJECTS_MAX)), Group::new(bounds(LISTS_MAX)));
        Arc::new(Self { upstream, gets, lists, marks, replicas, heard: AtomicU64::new(0) })
    }

    pub fn kind(&self) -> &Arc<Kind> {
        self.upstream.kind()
    }

    /// The service itself, past everything that is kept.
    pub fn upstream(&self) -> &Arc<dyn Accessor> {
        &self.upstream
    }

    /// One object from what this server keeps, and else from the upstream: for this server where it is the owner, and
    /// for the others.
    pub async fn get_here(&self, options: GetOptions) -> Result<Encoded, Error> {
        let upstream = self.upstream.clone();
        let Some(key) = GetKey::of(&options) else { return upstream.get_encoded(options).await };
        let mark = match self.marks.of_object(&options.name).await {
            Ok(mark) => mark,
            Err(error) => {
                tracing::debug!(%error, "nobody can say what is current, asking the upstream");
                return upstream.get_encoded(options).await;
            }
        };
        let fill = move || async move { upstream.get_encoded(options).await }.boxed();
        self.gets.read(key, mark, fill).await
    }

    /// The same of a list.
    pub async fn list_here(&self, options: ListOptions) -> Result<Page<Encoded>, Error> {
        let upstream = self.upstream.clone();
        let Some(key) = ListKey::of(&options) else { return upstream.list_encoded(options).await };
        let mark = match self.marks.of_lists().await {
            Ok(mark) => mark,
            Err(error) => {
                tracing::debug!(%error, "nobody can say what is current, asking the upstream");
                return upstream.list_encoded(options).await;
            }
        };
        let fill = move || async move { upstream.list_encoded(options).await }.boxed();
        self.lists.read(key, mark, fill).await
    }

    async fn get(&self, options: GetOptions) -> Result<Encoded, Error> {
        let owner = GetKey::of(&options).and_then(|key| self.owner(&key.text()));
        let Some(server) = owner else { return self.get_here(options).await };
        match self.replicas.get(&server, self.kind(), options.clone()).await {
            Ok(found) => Ok(found),
            Err(Missed::Refused(error)) => Err(error),
            Err(Missed::Unreachable(why)) => {
                self.note_unreachable(&server, &why);
                self.upstream.get_encoded(options).await
            }
        }
    }

    async fn list(&self, options: ListOptions) -> Result<Page<Encoded>, Error> {
        let owner = ListKey::of(&options).and_then(|key| self.owner(&key.text()));
        let Some(server) = owner else { return self.list_here(options).await };
        match self.replicas.list(&server, self.kind(), options.clone()).await {
            Ok(found) => Ok(found),
            Err(Missed::Refused(error)) => Err(error),
            Err(Missed::Unreachable(why)) => {
                self.note_unreachable(&server, &why);
                self.upstream.list_encoded(options).await
            }
        }
    }

    fn owner(&self, key: &str) -> Option<String> {
        self.replicas.owner(&format!("{} {key}", self.kind().qualified_plural()))
    }

    fn note_unreachable(&self, server: &str, why: &str) {
        let kind = self.kind().kind();
        tracing::debug!(kind, server, why, "the server that keeps it cannot be asked");
    }

    /// An object was written through this server, or may have been. When this returns, no server uses what it kept
    /// from before.
    async fn written(&self, name: &ObjectName) -> Result<(), Error> {
        self.marks.advance(name).await?;
        self.changed(name);
        Ok(())
    }

    /// The upstream says that an object has changed.
    pub fn changed(&self, name: &ObjectName) {
        self.gets.forget(name);
        self.lists.forget(name);
    }

    /// Anything may have changed while nobody listened.
    pub fn forget_all(&self) {
        self.gets.forget_all();
        self.lists.forget_all();
    }

    /// Every change at the upstream up to this revision was told.
    pub fn set_heard(&self, revision: Revision) {
        self.heard.store(revision.0, Ordering::Release);
    }

    /// How far the changes at the upstream were told; 0 before anybody listens.
    pub fn heard(&self) -> Revision {
        Revision(self.heard.load(Ordering::Acquire))
    }

    /// What happened in each group, by its name.
    pub fn figures(&self) -> [(&'static str, Figures); 2] {
        [("get", self.gets.figures()), ("list", self.lists.figures())]
    }
}
