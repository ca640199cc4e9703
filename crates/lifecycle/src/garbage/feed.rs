//! Tells the graph what happens to the objects of one kind.
use super::graph::{Graph, Link, Observed, Place};
use super::progress::Progress;
use super::unread::Unread;
use bytes::Bytes;
use futures::StreamExt;
use orrery_api::{Encoded, Kind, ObjectError};
use orrery_hub::{
    Accessor, Concern, Error, Hub, ObjectName, Propagation, Revision, Unreadable, WatchEvent,
    WatchOptions,
};
use orrery_proto::meta::v1::OwnerReference;
use orrery_runtime::{Backoff, KeyQueue};
use parking_lot::Mutex;
use std::collections::BTreeSet;
use std::fmt::Display;
use std::sync::Arc;
use std::time::Duration;
use tokio::task::coop::consume_budget;
use tokio_util::sync::CancellationToken;

/// How long nothing happens before a watch says how far it has come. Deletions in the foreground and
/// of orphans wait for it, and people wait for them.
const BOOKMARK_INTERVAL: Duration = Duration::from_millis(500);

/// How long an object that came or changed may wait until somebody looks whether it has lost its owners. What follows
/// from the end of an owner does not wait.
const LOOK_WITHIN: Duration = Duration::from_millis(250);

pub struct Feed {
    pub hub: Hub,
    pub accessor: Arc<dyn Accessor>,
    pub graph: Arc<Mutex<Graph>>,
    pub queue: KeyQueue<Place>,
    pub progress: Arc<Progress>,
    pub unread: Arc<Unread>,
    pub index: usize,
}

impl Feed {
    /// Runs until it is told to stop. When the watch breaks it begins anew.
    pub async fn run(self, stop: CancellationToken) -> Result<(), Error> {
        let mut failures = 0;
        loop {
            let outcome = tokio::select! {
                () = stop.cancelled() => return Ok(()),
                outcome = self.follow(&mut failures) => outcome,
            };
            let Err(error) = outcome else { continue };
            failures = failures.saturating_add(1);
            let wait = Backoff::RECONCILE.delay(failures, rand::random());
            let kind = self.accessor.kind().kind();
            tracing::warn!(kind, %error, ?wait, "watch for garbage broke, beginning anew");
            tokio::select! {
                () = stop.cancelled() => return Ok(()),
                () = tokio::time::sleep(wait) => {}
            }
        }
    }

    async fn follow(&self, failures: &mut u32) -> Result<(), Error> {
        self.progress.reset(self.index);
        self.unread.begin(self.accessor.kind().full_name());
        let options = WatchOptions {
            bookmark_interval: Some(BOOKMARK_INTERVAL),
            // The graph holds what has owners.
            concern: Some(Concern::new(|object| !is_quiet(object).unwrap_or(false))),
            unreadable: Some(self.unreadable()),
            ..WatchOptions::default()
        };
        let mut events = self.accessor.watch_encoded(options).await?;
        let mut initial = Some(BTreeSet::new());
        while let Some(event) = events.next().await {
            match event? {
                WatchEvent::Added(object) | WatchEvent::Modified(object) => {
                    let place = self.tell(&object, true)?;
                    if let (Some(seen), Some(place)) = (&mut initial, place) {
                        seen.insert(place);
                    }
                }
                WatchEvent::Deleted(object) => drop(self.tell(&object, false)?),
                WatchEvent::Bookmark(revision) => {
                    if let Some(seen) = initial.take() {
                        self.begin(&seen);
                        *failures = 0;
                    }
                    self.progress.reached(self.index, revision);
                }
            }
            // There may be very many, and none of them is waited for: others have their turn in between.
            consume_budget().await;
        }
        Ok(())
    }

    /// What cannot be read at all is known by its key.
    fn unreadable(&self) -> Unreadable {
        let (kind, unread) = (self.accessor.kind().clone(), self.unread.clone());
        Unreadable::new(move |key, found| match found {
            Some(found) => note(&unread, &kind, key, found.value, found.error),
            None => unread.remove(kind.full_name(), key),
        })
    }

    /// What vanished while nobody watched is told as such; and since owners may have, too, whatever
    /// has one is looked at.
    fn begin(&self, seen: &BTreeSet<Place>) {
        self.unread.begun(self.accessor.kind().full_name());
        let mut graph = self.graph.lock();
        let mut touched = BTreeSet::from_iter(graph.all());
        for place in graph.of_kind(self.accessor.kind().full_name()) {
            if let Some(last) = graph.get(&place).filter(|_| !seen.contains(&place)).cloned() {
                touched.extend(graph.observe(place, Observed { present: false, ..last }));
            }
        }
        drop(graph);
        touched.into_iter().for_each(|place| self.queue.add(place));
    }

    /// Where it stands, unless the graph knows nothing of it.
    fn tell(&self, object: &Encoded, present: bool) -> Result<Option<Place>, Error> {
        let kind = object.kind();
        let unreadable = |error| Error::Internal(format!("cannot read {}: {error}", kind.kind()));
        // Most objects have no owners and stay: what nobody knew of before means nothing to anybody.
        let quiet = is_quiet(object).map_err(unreadable)?;
        if present && quiet && !self.knows(object).map_err(unreadable)? {
            self.read(object).map_err(unreadable)?;
            self.reached(object.resource_version().map_err(unreadable)?);
            return Ok(None);
        }
        let meta = match object.meta() {
            Err(error) if present => return self.pass_over(object, &error).map_err(unreadable),
            // Nobody can say what it was: the watch begins anew, and it is gone.
            meta => meta.map_err(unreadable)?,
        };
        let link = |owner: &OwnerReference| Link {
            uid: owner.uid.clone(),
            place: place_of(&self.hub, kind, &meta.project, owner),
            blocks: owner.block_owner_deletion(),
        };
        let wishes = [Propagation::FOREGROUND_FINALIZER, Propagation::ORPHAN_FINALIZER];
        let observed = Observed {
            owners: meta.owner_references.iter().map(link).collect(),
            waits: meta.deletion_timestamp.is_some()
                && meta.finalizers.iter().any(|held| wishes.contains(&held.as_str())),
            uid: meta.uid,
            present,
        };
        let name = ObjectName::new(meta.project, meta.name);
        let place = Place { kind: kind.full_name().to_owned(), name };
        let stays = present && meta.deletion_timestamp.is_none();
        let touched = self.graph.lock().observe(place.clone(), observed);
        // In this order: at every moment one of the two holds those that it names.
        self.read(object).map_err(unreadable)?;
        for touched in touched {
            match stays && touched == place {
                true => self.queue.add_within(touched, LOOK_WITHIN),
                false => self.queue.add(touched),
            }
        }
        self.reached(&meta.resource_version);
        Ok(Some(place))
    }

    /// An object whose metadata cannot be read. The graph knows of it what it knew before.
    fn pass_over(
        &self,
        object: &Encoded,
        error: &ObjectError,
    ) -> Result<Option<Place>, ObjectError> {
        let place = place_at(object)?;
        note(&self.unread, object.kind(), &place.name.to_string(), object.bytes(), error);
        self.reached(object.resource_version()?);
        Ok(Some(place))
    }

    /// It can be read, whether that could be done before or not.
    fn read(&self, object: &Encoded) -> Result<(), ObjectError> {
        if !self.unread.is_empty() {
            let Place { kind, name } = place_at(object)?;
            self.unread.remove(&kind, &name.to_string());
        }
        Ok(())
    }

    fn knows(&self, object: &Encoded) -> Result<bool, ObjectError> {
        if self.graph.lock().is_empty() {
            return Ok(false);
        }
        let place = place_at(object)?;
        Ok(self.graph.lock().get(&place).is_some())
    }

    fn reached(&self, revision: &str) {
        if let Ok(revision) = revision.parse::<Revision>() {
            // The initial state comes in the order of names: only its bookmark says how far it is.
            if self.progress.begun(self.index) {
                self.progress.reached(self.index, revision);
            }
        }
    }
}

/// Takes note of an object that cannot be read, and says so once.
fn note(unread: &Unread, kind: &Kind, name: &str, bytes: &Bytes, error: &dyn Display) {
    if unread.add(kind.full_name(), name, bytes) {
        let kind = kind.kind();
        tracing::warn!(kind, object = name, %error, "cannot read an object: deletions of what it names as its owner wait");
    }
}

/// Where an object stands.
fn place_at(object: &Encoded) -> Result<Place, ObjectError> {
    let name = ObjectName::new(object.project()?, object.name()?);
    Ok(Place { kind: object.kind().full_name().to_owned(), name })
}

/// Whether it has no owners, and stays.
fn is_quiet(object: &Encoded) -> Result<bool, ObjectError> {
    Ok(!object.has_owners()? && !object.is_going()?)
}

/// Where an owner stands: in the project of what it owns, or in none. `None` when nobody can tell.
pub fn place_of(hub: &Hub, kind: &Kind, project: &str, owner: &OwnerReference) -> Option<Place> {
    let scheme = hub.scheme();
    let owners = scheme.resolve(&owner.api_version, &owner.kind).ok()?;
    let owners = scheme.hub_kind(&owners);
    let project = match (owners.cluster_scoped(), kind.cluster_scoped()) {
        (true, _) => "",
        (false, false) => project,
        (false, true) => return None,
    };
    let name = ObjectName::new(project, owner.name.as_str());
    Some(Place { kind: owners.full_name().to_owned(), name })
}
