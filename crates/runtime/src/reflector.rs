//! Keeps a view equal to what an accessor holds.
use crate::backoff::Backoff;
use crate::view::{Change, IndexBy, View};
use futures::StreamExt;
use orrery_api::{Encoded, ObjectError};
use orrery_hub::{Concern, Error, ObjectName, Resources, WatchEvent, WatchOptions, WatchStream};
use std::sync::Arc;
use tokio::sync::watch;
use tokio::task::coop::consume_budget;
use tokio_util::sync::CancellationToken;

type Handler<T> = Box<dyn Fn(&Change<T>) + Send + Sync>;

/// Reads what is wanted of an object, if it is wanted at all. Whether it is must not depend on its project's name or on
/// its revision.
type Read<T> = fn(&Encoded) -> Result<Option<T>, ObjectError>;

/// What a view keeps of objects, and whether two of them are the same to it.
struct Pick<T> {
    read: Read<T>,
    same: fn(&T, &T) -> bool,
}

impl<T: 'static> Pick<T> {
    /// What cannot be read is told, so that somebody says so.
    fn concern(&self) -> Concern {
        let read = self.read;
        Concern::new(move |object| !matches!(read(object), Ok(None)))
    }
}

/// Watches a kind for ever. When the watch breaks it begins anew, and what vanished in between is
/// told as such: handlers never miss the end of an object.
pub struct Reflector<T> {
    resources: Resources<T>,
    view: Arc<View<T>>,
    handlers: Vec<Handler<T>>,
    /// Reads what the view keeps, where that is not all of it.
    pick: Option<Pick<T>>,
    synced: watch::Sender<bool>,
}

impl<T: prost::Message + prost::Name + Default> Reflector<T> {
    pub fn new(resources: Resources<T>) -> Self {
        Self::with_view(resources, View::new(None))
    }

    /// With an index over the view.
    pub fn indexed(resources: Resources<T>, index_by: IndexBy<T>) -> Self {
        Self::with_view(resources, View::new(Some(index_by)))
    }

    fn with_view(resources: Resources<T>, view: View<T>) -> Self {
        let (synced, _) = watch::channel(false);
        Self { resources, view: Arc::new(view), handlers: Vec::new(), pick: None, synced }
    }

    /// Keeps only a part of some objects: with a hundred thousand of them, it matters. Handlers are told when
    /// that part changes, comes or goes, and hear nothing of the rest.
    #[must_use]
    pub fn picking(mut self, read: Read<T>) -> Self
    where
        T: PartialEq,
    {
        self.pick = Some(Pick { read, same: T::eq });
        self
    }

    pub fn view(&self) -> Arc<View<T>> {
        self.view.clone()
    }

    /// Becomes true when everything that was there at the start has been told.
    pub fn synced(&self) -> watch::Receiver<bool> {
        self.synced.subscribe()
    }

    /// Calls `handler` after each change of the view, in order. It must not block.
    pub fn on_change(&mut self, handler: impl Fn(&Change<T>) + Send + Sync + 'static) {
        self.handlers.push(Box::new(handler));
    }
}

impl<T: prost::Message + prost::Name + Default + 'static> Reflector<T> {
    /// Runs until it is told to stop.
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
            let kind = self.resources.kind().kind();
            tracing::warn!(kind, %error, ?wait, "watch broke, beginning anew");
            tokio::select! {
                () = stop.cancelled() => return Ok(()),
                () = tokio::time::sleep(wait) => {}
            }
        }
    }

    /// Follows one watch from its beginning to its end.
    async fn follow(&self, failures: &mut u32) -> Result<(), Error> {
        let concern = self.pick.as_ref().map(Pick::concern);
        let options = WatchOptions { concern, ..WatchOptions::default() };
        let mut events = self.resources.accessor().watch_encoded(options).await?;
        self.take_initial(&mut events).await?;
        self.synced.send_replace(true);
        *failures = 0;
        while let Some(event) = events.next().await {
            self.take(event?)?;
            consume_budget().await;
        }
        Ok(())
    }

    /// Takes in everything that is there, and takes out what is not there any more.
    async fn take_initial(&self, events: &mut WatchStream<Encoded>) -> Result<(), Error> {
        // Nothing at the first start: then nobody needs to remember what came.
        let mut before = self.view.names();
        while let Some(event) = events.next().await {
            let event = event?;
            if let WatchEvent::Bookmark(revision) = event {
                before.into_iter().for_each(|vanished| self.tell(vanished, None));
                self.view.advance(revision);
                return Ok(());
            }
            let name = self.take(event)?;
            if let (Some(name), false) = (name, before.is_empty()) {
                before.remove(&name);
            }
            // There may be very many, and none of them is waited for: others have their turn in between.
            consume_budget().await;
        }
        Err(Error::Unavailable("the watch ended before it had begun".into()))
    }

    fn take(&self, event: WatchEvent<Encoded>) -> Result<Option<ObjectName>, Error> {
        let (object, present) = match event {
            WatchEvent::Added(object) | WatchEvent::Modified(object) => (object, true),
            WatchEvent::Deleted(object) => (object, false),
            WatchEvent::Bookmark(revision) => {
                self.view.advance(revision);
                return Ok(None);
            }
        };
        // An object from a watch always says its revision.
        let revision = object.resource_version().map_err(unreadable::<T>)?;
        let revision = revision.parse().unwrap_or_default();
        let (project, name) = (object.project(), object.name());
        let name =
            ObjectName::new(project.map_err(unreadable::<T>)?, name.map_err(unreadable::<T>)?);
        let new = if present { self.read(&object)? } else { None };
        self.tell(name.clone(), new);
        self.view.advance(revision);
        Ok(Some(name))
    }

    /// Views that keep all of it share one copy.
    fn read(&self, object: &Encoded) -> Result<Option<Arc<T>>, Error> {
        match &self.pick {
            None => object.typed_shared().map(Some).map_err(unreadable::<T>),
            Some(pick) => (pick.read)(object).map(|it| it.map(Arc::new)).map_err(unreadable::<T>),
        }
    }

    fn tell(&self, name: ObjectName, new: Option<Arc<T>>) {
        if self.pick.as_ref().is_some_and(|pick| self.is_known(pick, &name, new.as_deref())) {
            return;
        }
        let change = self.view.set(name, new);
        for handler in &self.handlers {
            handler(&change);
        }
    }

    /// Whether the view holds the same already.
    fn is_known(&self, pick: &Pick<T>, name: &ObjectName, new: Option<&T>) -> bool {
        match (self.view.get(name), new) {
            (Some(old), Some(new)) => (pick.same)(&old, new),
            (None, None) => true,
            (Some(_), None) | (None, Some(_)) => false,
        }
    }
}

fn unreadable<T: prost::Name>(error: ObjectError) -> Error {
    Error::Internal(format!("cannot read {}: {error}", T::NAME))
}

/// Returns when all these views hold what was there at the start, or when it is time to stop.
pub async fn until_synced(synced: Vec<watch::Receiver<bool>>, stop: &CancellationToken) {
    for mut synced in synced {
        tokio::select! {
            () = stop.cancelled() => return,
            _ = synced.wait_for(|synced| *synced) => {}
        }
    }
}

#[cfg(test)]
mod tests;
