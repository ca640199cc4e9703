//! Keeps a view equal to what an accessor holds.
use crate::backoff::Backoff;
use crate::view::{Change, IndexBy, View};
use futures::StreamExt;
use orrery_api::{Encoded, ObjectError};
use orrery_hub::{Error, ObjectName, Resources, WatchEvent, WatchOptions, WatchStream};
use std::collections::BTreeSet;
use std::sync::Arc;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

type Handler<T> = Box<dyn Fn(&Change<T>) + Send + Sync>;

/// Watches a kind for ever. When the watch breaks it begins anew, and what vanished in between is
/// told as such: handlers never miss the end of an object.
pub struct Reflector<T> {
    resources: Resources<T>,
    view: Arc<View<T>>,
    handlers: Vec<Handler<T>>,
    /// Takes away what nobody asks the view for.
    trim: Option<fn(&mut T)>,
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
        Self { resources, view: Arc::new(view), handlers: Vec::new(), trim: None, synced }
    }

    /// Keeps only a part of each object: with a hundred thousand of them, it matters.
    #[must_use]
    pub fn trimmed(mut self, trim: fn(&mut T)) -> Self {
        self.trim = Some(trim);
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
        let mut events = self.resources.accessor().watch_encoded(WatchOptions::default()).await?;
        let seen = self.take_initial(&mut events).await?;
        for vanished in self.view.names().difference(&seen) {
            self.tell(vanished.clone(), None);
        }
        self.synced.send_replace(true);
        *failures = 0;
        while let Some(event) = events.next().await {
            self.take(event?)?;
        }
        Ok(())
    }

    async fn take_initial(
        &self,
        events: &mut WatchStream<Encoded>,
    ) -> Result<BTreeSet<ObjectName>, Error> {
        let mut seen = BTreeSet::new();
        while let Some(event) = events.next().await {
            let event = event?;
            if let WatchEvent::Bookmark(revision) = event {
                self.view.advance(revision);
                return Ok(seen);
            }
            seen.extend(self.take(event)?);
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
        let new = if present { Some(self.read(&object)?) } else { None };
        self.tell(name.clone(), new);
        self.view.advance(revision);
        Ok(Some(name))
    }

    /// Views that keep all of it share one copy.
    fn read(&self, object: &Encoded) -> Result<Arc<T>, Error> {
        let Some(trim) = self.trim else {
            return object.typed_shared().map_err(unreadable::<T>);
        };
        let mut read = object.typed().map_err(unreadable::<T>)?;
        trim(&mut read);
        Ok(Arc::new(read))
    }

    fn tell(&self, name: ObjectName, new: Option<Arc<T>>) {
        let change = self.view.set(name, new);
        for handler in &self.handlers {
            handler(&change);
        }
    }
}

fn unreadable<T: prost::Name>(error: ObjectError) -> Error {
    Error::Internal(format!("cannot read {}: {error}", T::NAME))
}

#[cfg(test)]
mod tests;
