//! What can be asked of an accessor, and what it answers.
use crate::batch::Batch;
use crate::error::Error;
use bytes::Bytes;
use orrery_api::{Encoded, FieldSelector, LabelSelector, Object};
use orrery_store::{Op, Revision};
use std::sync::Arc;
use std::time::Duration;

/// Which object is meant. The project is a name in the hub view; empty for kinds without one.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ObjectName {
    pub project: String,
    pub name: String,
}

impl ObjectName {
    pub fn new(project: impl Into<String>, name: impl Into<String>) -> Self {
        Self { project: project.into(), name: name.into() }
    }

    /// The name of this very object.
    pub fn of(object: &Object) -> Self {
        Self::new(object.project(), object.name())
    }
}

impl std::fmt::Display for ObjectName {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.project.is_empty() {
            write!(f, "{}", self.name)
        } else {
            write!(f, "{}/{}", self.project, self.name)
        }
    }
}

#[derive(Clone, Debug, Default)]
pub struct GetOptions {
    pub name: ObjectName,
    /// Tell where the object came from, too.
    pub include_lineage: bool,
    /// Where the project has none of that name: one that is shared with it. Parts of the server that act on what
    /// is in a project leave it out; those that follow a reference ask for it.
    pub include_shared: bool,
    /// What the object was when its version had this name, for kinds that keep versions. It can be declared again as
    /// it is: it has no revision, and nothing that only the server or others write.
    pub version: Option<String>,
}

/// One version of an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Version {
    /// As its spec named it.
    pub name: String,
    /// Of the spec that it ended with.
    pub generation: i64,
    /// When the object left it, as RFC 3339; `None` for the one that it is at.
    pub until: Option<String>,
}

impl From<ObjectName> for GetOptions {
    fn from(name: ObjectName) -> Self {
        Self { name, ..Self::default() }
    }
}

#[derive(Clone, Debug, Default)]
pub struct StatusOptions {
    pub name: ObjectName,
    /// Tell where the object came from, too.
    pub include_lineage: bool,
    /// See [`GetOptions::include_shared`].
    pub include_shared: bool,
}

impl From<ObjectName> for StatusOptions {
    fn from(name: ObjectName) -> Self {
        Self { name, ..Self::default() }
    }
}

#[derive(Clone, Debug, Default)]
pub struct ListOptions {
    /// `None` means all projects.
    pub project: Option<String>,
    pub labels: LabelSelector,
    pub fields: FieldSelector,
    /// At most so many in one page; 0 means all.
    pub limit: usize,
    /// From the page before.
    pub continue_from: Option<String>,
    /// The list as it was at this revision, while history reaches back so far; `None` is now.
    pub at: Option<Revision>,
    /// Tell where the objects came from, too.
    pub include_lineage: bool,
    /// With a project: also what is shared with it, under names that it has no objects of its own for.
    pub include_shared: bool,
}

/// A part of a list.
#[derive(Clone, Debug)]
pub struct Page<T = Object> {
    pub items: Vec<T>,
    /// The revision that the whole list is true at; a watch goes on from here.
    pub revision: Revision,
    /// Hand it back for the next page; absent at the end.
    pub continue_from: Option<String>,
    /// How many come after this page, where that is known without looking at each of them.
    pub remaining: Option<u64>,
}

/// What must hold before an object is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Precondition {
    /// Create when absent, change when present.
    #[default]
    Any,
    Absent,
    Present,
    At(Revision),
}

/// Which part of an object is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Part {
    /// Metadata and spec; the status stays as it is.
    #[default]
    Main,
    /// The status; everything else stays as it is.
    Status,
    /// The number of copies, which is part of the spec; who set it so is remembered apart.
    Scale,
}

/// How what is given and what is there become one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Merge {
    /// What is given is what people declare; finalizers and owners, which others keep there, stay
    /// unless it names some.
    #[default]
    Declared,
    /// What is given is the whole object.
    Replace,
    /// What is given are the fields that the manager declares; fields of others stay. See
    /// [`crate::ownership`].
    Apply,
}

#[derive(Clone, Debug, Default)]
pub struct ApplyOptions {
    pub precondition: Precondition,
    pub part: Part,
    pub merge: Merge,
    /// Who writes, and owns the fields it sets. Empty for parts of the server, which own none;
    /// mandatory with [`Merge::Apply`].
    pub manager: String,
    /// With [`Merge::Apply`]: take fields from other managers instead of refusing to change them.
    pub force: bool,
    /// A new object begins with the status that is given: for parts of the server, which know how
    /// what they make begins. Whoever else creates an object does not say how it fares.
    pub with_status: bool,
    /// The object says itself where it came from. Otherwise a new object comes from nowhere, and one that
    /// is there already from where it came.
    pub include_lineage: bool,
    /// Check everything, store nothing.
    pub dry_run: bool,
    /// What else must hold in the store at the moment of writing: a parent that is still there, a
    /// lease that is still held.
    pub guards: Vec<Op>,
    /// Collects the write instead of committing it by itself.
    pub batch: Option<Batch>,
    /// Whether whoever writes may make this of the object; asked when it is known what becomes of it.
    pub admit: Option<Admit>,
}

/// Judges what an object becomes, beside what was there before. Cheap to clone.
#[derive(Clone)]
pub struct Admit(Arc<Judge>);

type Judge = dyn Fn(&Object, Option<&Object>) -> Result<(), Error> + Send + Sync;

impl Admit {
    pub fn new(
        judge: impl Fn(&Object, Option<&Object>) -> Result<(), Error> + Send + Sync + 'static,
    ) -> Self {
        Self(Arc::new(judge))
    }

    pub fn judge(&self, next: &Object, old: Option<&Object>) -> Result<(), Error> {
        (self.0)(next, old)
    }
}

impl std::fmt::Debug for Admit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Admit")
    }
}

impl ApplyOptions {
    /// Must be absent.
    pub fn create() -> Self {
        Self { precondition: Precondition::Absent, merge: Merge::Replace, ..Self::default() }
    }

    /// The whole object, at the revision it was read at.
    pub fn replace_at(revision: Revision) -> Self {
        Self { precondition: Precondition::At(revision), merge: Merge::Replace, ..Self::default() }
    }

    /// The fields that a manager declares.
    pub fn declared_by(manager: impl Into<String>) -> Self {
        Self { merge: Merge::Apply, manager: manager.into(), ..Self::default() }
    }

    /// Only the status, whatever else changed meanwhile.
    pub fn status() -> Self {
        Self { precondition: Precondition::Present, part: Part::Status, ..Self::default() }
    }
}

/// What an apply did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    Created,
    Changed,
    /// Nothing differed, so nothing was written.
    Unchanged,
    /// The last finalizer of a deleted object was taken away, and it is gone.
    Gone,
}

#[derive(Clone, Debug)]
pub struct Applied<T = Object> {
    pub object: T,
    pub outcome: Outcome,
}

impl From<Applied> for Applied<Encoded> {
    fn from(applied: Applied) -> Self {
        Self { object: applied.object.into(), outcome: applied.outcome }
    }
}

#[derive(Clone, Debug, Default)]
pub struct DeleteOptions {
    pub name: ObjectName,
    /// Delete only this very object.
    pub uid: Option<String>,
    /// Delete only at this revision.
    pub revision: Option<Revision>,
    /// What becomes of the objects that belong to it. `None` leaves it to the finalizers that the
    /// object has already; without any, they follow it in the background.
    pub propagation: Option<Propagation>,
    /// Check everything, store nothing.
    pub dry_run: bool,
    /// What else must hold in the store at the moment of writing.
    pub guards: Vec<Op>,
    /// Collects the write instead of committing it by itself.
    pub batch: Option<Batch>,
}

/// What becomes of the objects that name a deleted one as their owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Propagation {
    /// The owner goes at once, they follow.
    Background,
    /// They go first, and the owner waits for those that block it.
    Foreground,
    /// They stay and forget their owner.
    Orphan,
}

impl Propagation {
    /// Held by an object that waits until what it owns is gone.
    pub const FOREGROUND_FINALIZER: &'static str = "foregroundDeletion";
    /// Held by an object that waits until what it owns has forgotten it.
    pub const ORPHAN_FINALIZER: &'static str = "orphan";

    /// The finalizer that carries the wish until it is done.
    pub fn finalizer(self) -> Option<&'static str> {
        match self {
            Self::Background => None,
            Self::Foreground => Some(Self::FOREGROUND_FINALIZER),
            Self::Orphan => Some(Self::ORPHAN_FINALIZER),
        }
    }
}

impl From<ObjectName> for DeleteOptions {
    fn from(name: ObjectName) -> Self {
        Self { name, ..Self::default() }
    }
}

#[derive(Clone, Debug)]
pub struct Deleted {
    /// As it was last, or as it waits for its finalizers.
    pub object: Object,
    pub gone: bool,
}

#[derive(Clone, Debug, Default)]
pub struct WatchOptions {
    /// `None` means all projects.
    pub project: Option<String>,
    /// Only the object of this name.
    pub name: Option<String>,
    pub labels: LabelSelector,
    pub fields: FieldSelector,
    /// Changes after this revision. `None`: first everything that is there, then a bookmark.
    pub after: Option<Revision>,
    /// How long nothing happens before a bookmark; `None` leaves it to the hub.
    pub bookmark_interval: Option<Duration>,
    /// Tell where the objects came from, too.
    pub include_lineage: bool,
    /// With a project: also what is shared with it, see [`ListOptions::include_shared`].
    pub include_shared: bool,
    /// Which changes the watcher could do without. `None`: it wants to hear of all.
    pub concern: Option<Concern>,
    /// Who hears of objects that cannot be read and are of the concern, which the watch then passes over. `None`: it ends at
    /// the first of them, as it does in any case for kinds whose objects are stored as several resources.
    pub unreadable: Option<Unreadable>,
}

/// Hears of objects that cannot be read, by their keys in the store: of each when it is met, and once more when it is gone, or
/// can be read and whoever watches has taken what it is now. That an unreadable one is gone ends the watch all the same: nobody can say which one it was.
#[derive(Clone)]
pub struct Unreadable(Arc<Hears>);

type Hears = dyn Fn(&str, Option<Unread<'_>>) + Send + Sync;

/// What stands where an object should be, and why it is none.
#[derive(Clone, Copy, Debug)]
pub struct Unread<'a> {
    pub value: &'a Bytes,
    pub error: &'a Error,
}

impl Unreadable {
    pub fn new(hears: impl Fn(&str, Option<Unread<'_>>) + Send + Sync + 'static) -> Self {
        Self(Arc::new(hears))
    }

    pub fn tell(&self, key: &str, unread: Option<Unread<'_>>) {
        (self.0)(key, unread);
    }
}

impl std::fmt::Debug for Unreadable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Unreadable")
    }
}

/// What a watcher looks for in objects. Where it is in an object neither before a change nor after it, the change may be
/// passed over; a bookmark says then how far the watch has come. It is asked of objects as they are stored: with the
/// id of their project, and without a revision.
#[derive(Clone)]
pub struct Concern(Arc<dyn Fn(&Encoded) -> bool + Send + Sync>);

impl Concern {
    pub fn new(is_in: impl Fn(&Encoded) -> bool + Send + Sync + 'static) -> Self {
        Self(Arc::new(is_in))
    }

    pub fn is_in(&self, object: &Encoded) -> bool {
        (self.0)(object)
    }
}

impl std::fmt::Debug for Concern {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Concern")
    }
}

impl<T> Page<T> {
    /// The same page of what `change` makes of its items.
    pub fn try_map<U, E>(self, change: impl FnMut(T) -> Result<U, E>) -> Result<Page<U>, E> {
        let Self { items, revision, continue_from, remaining } = self;
        let items = items.into_iter().map(change).collect::<Result<_, _>>()?;
        Ok(Page { items, revision, continue_from, remaining })
    }
}

/// One change that a watcher sees.
#[derive(Clone, Debug)]
pub enum WatchEvent<T = Object> {
    Added(T),
    Modified(T),
    /// The object as it was last, at the revision of its deletion.
    Deleted(T),
    /// Everything up to here has been seen.
    Bookmark(Revision),
}

impl<T> WatchEvent<T> {
    /// The same change of what `change` makes of its object.
    pub fn try_map<U, E>(self, change: impl FnOnce(T) -> Result<U, E>) -> Result<WatchEvent<U>, E> {
        Ok(match self {
            Self::Added(object) => WatchEvent::Added(change(object)?),
            Self::Modified(object) => WatchEvent::Modified(change(object)?),
            Self::Deleted(object) => WatchEvent::Deleted(change(object)?),
            Self::Bookmark(revision) => WatchEvent::Bookmark(revision),
        })
    }
}
