//! Looks at one object and does what its owners' state asks for.
use super::decide::{Owner, Verdict, decide};
use super::feed::place_of;
use super::graph::{Graph, Place};
use super::progress::{Progress, Waits, is_too_long, look_again};
use super::unread::Unread;
use async_trait::async_trait;
use orrery_api::{Encoded, Kind, ObjectMeta};
use orrery_hub::{Accessor, ApplyOptions, DeleteOptions, Error, Hub, Propagation, Revision};
use orrery_runtime::{Next, Reconciler};
use parking_lot::Mutex;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// How soon an object is looked at again that changed meanwhile.
const LOOK_AGAIN: Duration = Duration::from_millis(50);

/// The revision that every watch has come to that has begun.
const FIRST: Revision = Revision(1);

/// An object as it is stored now. Only its metadata are read: nothing else says who owns it.
struct Found {
    object: Encoded,
    meta: ObjectMeta,
}

impl Found {
    fn of(object: Encoded) -> Result<Self, Error> {
        let meta = object.meta().map_err(|error| unreadable(object.kind(), &error))?;
        Ok(Self { object, meta })
    }

    fn holds(&self, finalizer: &str) -> bool {
        self.meta.finalizers.iter().any(|held| held == finalizer)
    }

    fn revision(&self) -> Result<Revision, Error> {
        let ObjectMeta { name, resource_version, .. } = &self.meta;
        let revision = resource_version.parse();
        revision.map_err(|_| Error::Internal(format!("{name} has no revision after it was read")))
    }
}

fn unreadable(kind: &Kind, error: &dyn std::fmt::Display) -> Error {
    Error::Internal(format!("cannot read {}: {error}", kind.kind()))
}

pub struct Collector {
    hub: Hub,
    graph: Arc<Mutex<Graph>>,
    progress: Arc<Progress>,
    unread: Arc<Unread>,
    waits: Waits,
}

impl Collector {
    pub fn new(
        hub: Hub,
        graph: Arc<Mutex<Graph>>,
        progress: Arc<Progress>,
        unread: Arc<Unread>,
    ) -> Self {
        Self { hub, graph, progress, unread, waits: Waits::default() }
    }

    fn accessor(&self, place: &Place) -> Result<&Arc<dyn Accessor>, Error> {
        let kind = self.hub.scheme().by_full_name(&place.kind);
        let kind = kind.ok_or_else(|| Error::Internal(format!("{} is unknown", place.kind)))?;
        self.hub.accessor(kind)
    }

    async fn find(&self, place: &Place) -> Result<Option<Found>, Error> {
        match self.accessor(place)?.get_encoded(place.name.clone().into()).await {
            Ok(object) => Found::of(object).map(Some),
            Err(Error::NotFound { .. } | Error::ProjectNotFound { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    async fn look(&self, place: &Place) -> Result<Next, Error> {
        let Some(found) = self.find(place).await? else {
            self.waits.end(place);
            return Ok(Next::AwaitChange);
        };
        match found.meta.deletion_timestamp {
            Some(_) if found.holds(Propagation::FOREGROUND_FINALIZER) => {
                self.wait_for_owned(place, &found).await
            }
            Some(_) if found.holds(Propagation::ORPHAN_FINALIZER) => {
                self.orphan_owned(place, &found).await
            }
            Some(_) => {
                self.waits.end(place);
                Ok(Next::AwaitChange)
            }
            None => self.judge(place, &found).await,
        }
    }

    /// An object that is not on its way: do its owners still hold it?
    async fn judge(&self, place: &Place, found: &Found) -> Result<Next, Error> {
        let mut owners = Vec::new();
        let (kind, meta) = (found.object.kind(), &found.meta);
        for owner in &meta.owner_references {
            let state = match place_of(&self.hub, kind, &meta.project, owner) {
                Some(place) => self.state_of(&place, &owner.uid).await?,
                None => Owner::Solid,
            };
            owners.push((owner.uid.clone(), state));
        }
        // An owner that waits for it waits for what it owns, too: that must be known.
        let waited_for = owners.iter().any(|(_, owner)| *owner == Owner::Waiting);
        if waited_for && !self.progress.all_begun() {
            let waited = self.waits.waited(place, &meta.uid, Instant::now());
            return Ok(self.wait(place, waited, FIRST, None));
        }
        self.waits.end(place);
        // In this order: what can be read again is in the graph before it is no longer here.
        let owns_others = self.unread.naming(&meta.uid).is_some()
            || !self.graph.lock().owned_by(&meta.uid).is_empty();
        match decide(&owners, owns_others) {
            Verdict::Keep => {}
            Verdict::Forget(lost) => {
                tracing::debug!(object = %place.name, ?lost, "forgetting owners that are gone");
                let forget = |meta: &mut ObjectMeta| {
                    meta.owner_references.retain(|owner| !lost.contains(&owner.uid));
                };
                self.rewrite(place, found, forget).await?;
            }
            Verdict::Delete(propagation) => {
                tracing::info!(kind = %place.kind, object = %place.name, "deleting: its owners are gone");
                let options = DeleteOptions {
                    name: place.name.clone(),
                    uid: Some(meta.uid.clone()),
                    revision: Some(found.revision()?),
                    propagation,
                    ..DeleteOptions::default()
                };
                self.accessor(place)?.delete(options).await?;
            }
        }
        Ok(Next::AwaitChange)
    }

    async fn state_of(&self, place: &Place, uid: &str) -> Result<Owner, Error> {
        let Some(owner) = self.find(place).await? else { return Ok(Owner::Gone) };
        if owner.meta.uid != uid {
            return Ok(Owner::Gone);
        }
        let waits = owner.meta.deletion_timestamp.is_some()
            && owner.holds(Propagation::FOREGROUND_FINALIZER);
        Ok(if waits { Owner::Waiting } else { Owner::Solid })
    }

    /// The objects it owns are asked to go when they are looked at; this one follows the last that
    /// blocks it.
    async fn wait_for_owned(&self, place: &Place, found: &Found) -> Result<Next, Error> {
        if let Some(wait) = self.wait_to_know_all_owned(place, found)? {
            return Ok(wait);
        }
        if self.graph.lock().is_blocked(place, &found.meta.uid) {
            return Ok(Next::AwaitChange);
        }
        self.release(place, found, Propagation::FOREGROUND_FINALIZER).await?;
        Ok(Next::AwaitChange)
    }

    async fn orphan_owned(&self, place: &Place, found: &Found) -> Result<Next, Error> {
        if let Some(wait) = self.wait_to_know_all_owned(place, found)? {
            return Ok(wait);
        }
        let owned = self.graph.lock().owned_by(&found.meta.uid);
        for place in owned {
            let Some(dependent) = self.find(&place).await? else { continue };
            let forget = |meta: &mut ObjectMeta| {
                meta.owner_references.retain(|owner| owner.uid != found.meta.uid);
            };
            self.rewrite(&place, &dependent, forget).await?;
        }
        self.release(place, found, Propagation::ORPHAN_FINALIZER).await?;
        Ok(Next::AwaitChange)
    }

    /// Nothing once every object that was created before the deletion began has been heard of, and none that cannot be
    /// read may be one of them.
    fn wait_to_know_all_owned(&self, place: &Place, found: &Found) -> Result<Option<Next>, Error> {
        let (uid, revision) = (&found.meta.uid, found.revision()?);
        // In this order: what cannot be read is noted before its watch says that it has come so far.
        let is_heard_of = self.progress.all_reached(revision);
        let unread = self.unread.naming(uid);
        if is_heard_of && unread.is_none() {
            self.waits.end(place);
            return Ok(None);
        }
        let waited = self.waits.waited(place, uid, Instant::now());
        if unread.is_none() && self.progress.is_long_enough(waited) {
            return Ok(None);
        }
        Ok(Some(self.wait(place, waited, revision, unread)))
    }

    /// Waits for watches that have not come so far, or for something that cannot be read. Says so once where that takes long.
    fn wait(
        &self,
        place: &Place,
        waited: Duration,
        revision: Revision,
        unread: Option<String>,
    ) -> Next {
        if is_too_long(waited) && self.waits.is_untold(place) {
            let (kind, object) = (&place.kind, &place.name);
            let watches = self.progress.behind(revision);
            tracing::warn!(kind, %object, ?watches, unread, "a deletion waits to know what belongs to the object");
        }
        Next::After(look_again(waited))
    }

    async fn release(&self, place: &Place, found: &Found, finalizer: &str) -> Result<(), Error> {
        let without = |meta: &mut ObjectMeta| meta.finalizers.retain(|held| held != finalizer);
        self.rewrite(place, found, without).await?;
        self.waits.end(place);
        Ok(())
    }

    async fn rewrite(
        &self,
        place: &Place,
        found: &Found,
        change: impl FnOnce(&mut ObjectMeta),
    ) -> Result<(), Error> {
        let object = found.object.object().cloned();
        let mut next = object.map_err(|error| unreadable(found.object.kind(), &error))?;
        next.update_meta(change);
        let options = ApplyOptions::replace_at(found.revision()?);
        self.accessor(place)?.apply(next, options).await.map(|_| ())
    }
}

#[async_trait]
impl Reconciler<Place> for Collector {
    type Error = Error;

    async fn reconcile(&self, place: &Place) -> Result<Next, Error> {
        match self.look(place).await {
            // It changed between the look and the deed, or someone else did the deed.
            Err(Error::Conflict { .. }) => Ok(Next::After(LOOK_AGAIN)),
            Err(Error::NotFound { .. } | Error::ProjectNotFound { .. }) => {
                Ok(Next::After(LOOK_AGAIN))
            }
            outcome => outcome,
        }
    }
}
