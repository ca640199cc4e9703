//! The contract every engine keeps. Its doc comments are the contract; [`crate::conformance`]
//! checks them.

use std::{fmt, sync::Arc, time::Duration};

use async_trait::async_trait;
use futures::stream::BoxStream;
use smallvec::SmallVec;

use crate::{
    error::Error,
    lease::Lease,
    model::{Entry, Incarnation, Op, Revision},
};

/// Changes in the order of their commits, for as long as the consumer wants them.
pub type Watch = BoxStream<'static, Result<Batch, Error>>;

/// Is given commits in their order, by the one who commits, who waits for it.
pub trait Follower: Send + Sync + 'static {
    /// Commits that are durable and that nobody knows of yet. With an error it wants no more.
    fn take(&self, batches: Vec<Batch>) -> Result<(), Error>;

    /// What was taken is acknowledged: whoever committed knows first, and others may be told.
    fn acknowledged(&self);
}

/// What came of a wish to follow, see [`Engine::follow`].
pub enum Following {
    /// Every commit is given from now on. The watch has no commits but says, as watches do, with which error it
    /// ended; without it nothing is given any more.
    On(Watch),
    /// That revision is too far back: a watch leads nearer.
    Behind,
    /// It has to be watched.
    Never,
}

/// What one commit changed under the watched prefix, never a part of it. Without changes it is a
/// bookmark: nothing else happened under the prefix up to this revision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Batch {
    pub revision: Revision,
    pub changes: Changes,
}

/// Most commits have one change, and very many are made and kept.
pub type Changes = SmallVec<[Change; 1]>;

impl Batch {
    pub fn is_bookmark(&self) -> bool {
        self.changes.is_empty()
    }

    /// The same commit as a watcher of `prefix` sees it.
    pub(crate) fn filtered(&self, prefix: &str) -> Self {
        let inside = self.changes.iter().filter(|change| change.key().starts_with(prefix));
        Self { revision: self.revision, changes: inside.cloned().collect() }
    }
}

/// One change of one key. Within a batch they are in the order of the commit's operations.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    Put(Entry),
    Delete { key: Arc<str>, revision: Revision },
}

impl Change {
    pub fn key(&self) -> &Arc<str> {
        match self {
            Self::Put(entry) => &entry.key,
            Self::Delete { key, .. } => key,
        }
    }
}

/// A page of the entries under a prefix, in byte order of their keys.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ListRequest {
    pub prefix: String,
    /// The revision to read at; `None` is now.
    pub at: Option<Revision>,
    /// Only keys after this one: the last key of the page before.
    pub after: Option<Arc<str>>,
    /// At most this many entries; zero is no limit.
    pub limit: usize,
}

impl ListRequest {
    pub fn prefix(prefix: impl Into<String>) -> Self {
        Self { prefix: prefix.into(), ..Self::default() }
    }
}

/// The answer to a [`ListRequest`]. Pass `revision` as `at` for the next page, or as `after` to
/// [`Engine::watch`] to follow on without gap.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listing {
    pub entries: Vec<Entry>,
    pub revision: Revision,
    /// Whether entries were left out because of the limit.
    pub more: bool,
}

/// A revisioned map from keys to bytes.
///
/// * Keys are non-empty UTF-8 without NUL, at most [`crate::KEY_BYTES_MAX`] long, ordered by
///   bytes. Keys under `leases/` belong to [`Engine::acquire`].
/// * Reads, commits and `current` are linearizable.
/// * An acknowledged commit survives the death of the process and of the machine (`memory` aside).
/// * A cancelled call leaves the engine whole; a cancelled commit may or may not have happened.
#[async_trait]
pub trait Engine: fmt::Debug + Send + Sync + 'static {
    /// Which life of the data this is; constant while open.
    fn incarnation(&self) -> Incarnation;

    /// Whether it still takes commits, as far as it knows without trying; if not, why it has stopped. Only
    /// opening it again helps then.
    fn health(&self) -> Result<(), Error> {
        Ok(())
    }

    /// Whether it takes commits now. Unlike [`Engine::health`] it may ask whoever keeps the data, and time or a
    /// person elsewhere may help.
    async fn ready(&self) -> Result<(), Error> {
        self.health()
    }

    /// A revision not older than any commit that wrote under `prefix` and was acknowledged before
    /// this call, and which a watch on `prefix` reaches without further commits.
    async fn current(&self, prefix: &str) -> Result<Revision, Error>;

    async fn get(&self, key: &str) -> Result<Option<Entry>, Error>;

    /// The entries under a prefix as they were at one revision, which is part of the answer.
    /// [`Error::Compacted`] if that revision is too old, [`Error::FutureRevision`] if too new.
    async fn list(&self, request: ListRequest) -> Result<Listing, Error>;

    /// Does all operations under one new revision, or none of them and says why.
    ///
    /// Expectations are judged against the state before the commit; the first that fails is the
    /// [`Error::Conflict`]. A key is put or deleted at most once per commit, checks aside. A
    /// commit that only checks makes no revision and answers one at which the checks held.
    async fn commit(&self, ops: Vec<Op>) -> Result<Revision, Error>;

    /// Every change under `prefix` after the revision `after`, in order, none skipped, none twice,
    /// a commit whole or not at all, and from time to time a bookmark. Ends with an error, after
    /// which the watch can be opened again from the last revision seen; with
    /// [`Error::Compacted`] the consumer lists again. Buffers nothing without bound for a slow
    /// consumer.
    async fn watch(&self, prefix: &str, after: Revision) -> Result<Watch, Error>;

    /// Like [`Engine::watch`], but each commit is given to the follower before it is acknowledged, and
    /// before [`Engine::current`] says that it is there. Only for an engine that commits in this process.
    fn follow(&self, _prefix: &str, _after: Revision, _follower: Arc<dyn Follower>) -> Following {
        Following::Never
    }

    /// Forgets the history before `up_to`: lists and watches from `up_to` on keep working, older
    /// ones get [`Error::Compacted`]. Current values are not touched.
    async fn compact(&self, up_to: Revision) -> Result<(), Error>;

    /// Takes the lease `name` for `holder` if nobody has it; `None` while another holds it.
    ///
    /// The lease is a key of its own, so its end can be watched under `leases/`, and it ends by
    /// itself unless renewed within `ttl`. Commits made under it carry [`Lease::fence`].
    async fn acquire(
        &self,
        name: &str,
        holder: &str,
        ttl: Duration,
    ) -> Result<Option<Lease>, Error>;

    /// Starts the time of a lease anew; `false` if it has ended.
    async fn renew(&self, lease: &Lease) -> Result<bool, Error>;

    /// Ends a lease at once. A lease that has ended already is no error.
    async fn resign(&self, lease: Lease) -> Result<(), Error>;

    /// Stops taking requests, finishes those under way and lets go of files and connections.
    async fn close(&self);
}
