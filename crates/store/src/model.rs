//! The words of the store: revisions, entries, expectations and operations, and their limits.

use std::{fmt, num::ParseIntError, str::FromStr, sync::Arc};

use bytes::Bytes;
use uuid::Uuid;

/// The largest value. etcd refuses requests over 1.5 MiB, and one object must always fit in one.
pub const VALUE_BYTES_MAX: usize = 1 << 20;

/// The most operations in one commit. etcd allows 128, and an engine adds a few of its own.
pub const OPERATIONS_MAX: usize = 100;

/// The most bytes of keys and values in one commit, so that it fits into one request to etcd even
/// though keys are sent again with the conditions.
pub const COMMIT_BYTES_MAX: usize = VALUE_BYTES_MAX + (128 << 10);

/// The most different first segments (what comes before and with the first `/`) that the writes
/// of one commit may have. The etcd engine keeps a marker in each.
pub const SEGMENTS_MAX: usize = 8;

/// The longest key. Long enough for group, kind, project id and a name of 253 characters several
/// times over; short enough that a key is never a place to hide data.
pub const KEY_BYTES_MAX: usize = 1024;

/// The number of a commit. Revisions only grow; between two commits of ours there may be gaps,
/// because etcd counts the commits of others and a restore jumps forward.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Revision(pub u64);

impl Revision {
    /// Before every commit. No engine hands it out: an empty store is at revision 1.
    pub const ZERO: Self = Self(0);

    /// The first revision that can follow this one.
    #[must_use]
    pub fn next(self) -> Self {
        Self(self.0 + 1)
    }
}

impl fmt::Display for Revision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl FromStr for Revision {
    type Err = ParseIntError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        text.parse().map(Self)
    }
}

/// Which life of the data this is. A restore starts a new one, so that a client can tell that the
/// revisions it remembers belong to a history that is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Incarnation(pub Uuid);

impl Incarnation {
    pub(crate) fn fresh() -> Self {
        Self(Uuid::new_v4())
    }
}

impl fmt::Display for Incarnation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// One key with its value and the commits that created and last changed it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    pub key: Arc<str>,
    pub value: Bytes,
    pub created: Revision,
    pub modified: Revision,
}

impl Entry {
    pub(crate) fn head(&self) -> Head {
        Head { created: self.created, modified: self.modified }
    }
}

/// What an expectation looks at: the two revisions of an entry without its value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Head {
    pub created: Revision,
    pub modified: Revision,
}

/// What must hold for an operation to be accepted. There is no unconditional write: whoever does
/// not care about the old value says `Present` and owns that decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Expect {
    /// The key does not exist.
    Absent,
    /// The key exists, at whatever revision.
    Present,
    /// The key exists and its last change was this commit.
    At(Revision),
    /// The key exists and is still in the life that began with this commit; it may have changed
    /// since. This is the fencing token of a lease and the proof that a parent is the same one.
    CreatedAt(Revision),
}

impl Expect {
    pub(crate) fn holds(self, actual: Option<Head>) -> bool {
        match self {
            Self::Absent => actual.is_none(),
            Self::Present => actual.is_some(),
            Self::At(revision) => actual.is_some_and(|head| head.modified == revision),
            Self::CreatedAt(revision) => actual.is_some_and(|head| head.created == revision),
        }
    }
}

impl fmt::Display for Expect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Absent => f.write_str("absent"),
            Self::Present => f.write_str("present"),
            Self::At(revision) => write!(f, "at revision {revision}"),
            Self::CreatedAt(revision) => write!(f, "created at revision {revision}"),
        }
    }
}

/// One part of a commit. All expectations of a commit are judged against the state before it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Op {
    Put { key: Arc<str>, value: Bytes, expect: Expect },
    Delete { key: Arc<str>, expect: Expect },
    Check { key: Arc<str>, expect: Expect },
}

impl Op {
    pub fn create(key: impl Into<Arc<str>>, value: impl Into<Bytes>) -> Self {
        Self::put(key, value, Expect::Absent)
    }

    pub fn update(key: impl Into<Arc<str>>, value: impl Into<Bytes>, at: Revision) -> Self {
        Self::put(key, value, Expect::At(at))
    }

    pub fn put(key: impl Into<Arc<str>>, value: impl Into<Bytes>, expect: Expect) -> Self {
        Self::Put { key: key.into(), value: value.into(), expect }
    }

    pub fn delete(key: impl Into<Arc<str>>, at: Revision) -> Self {
        Self::Delete { key: key.into(), expect: Expect::At(at) }
    }

    pub fn check(key: impl Into<Arc<str>>, expect: Expect) -> Self {
        Self::Check { key: key.into(), expect }
    }

    pub fn key(&self) -> &Arc<str> {
        match self {
            Self::Put { key, .. } | Self::Delete { key, .. } | Self::Check { key, .. } => key,
        }
    }

    pub fn expect(&self) -> Expect {
        match self {
            Self::Put { expect, .. } | Self::Delete { expect, .. } | Self::Check { expect, .. } => {
                *expect
            }
        }
    }

    /// How many bytes it brings along.
    pub(crate) fn bytes(&self) -> usize {
        match self {
            Self::Put { key, value, .. } => key.len() + value.len(),
            Self::Delete { key, .. } | Self::Check { key, .. } => key.len(),
        }
    }

    /// Whether this operation makes a change of its own, as a `Check` does not.
    pub fn writes(&self) -> bool {
        match self {
            Self::Put { .. } | Self::Delete { .. } => true,
            Self::Check { .. } => false,
        }
    }
}

/// What comes before the first `/` of a key, with it; empty for a key without one.
pub(crate) fn segment(key: &str) -> &str {
    key.find('/').map_or("", |at| &key[..=at])
}
