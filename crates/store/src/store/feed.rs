//! How commits come into the cache.
//!
//! An engine of this process gives them before it acknowledges them, so that whoever committed finds its commit
//! here; nobody is woken for that. Any other engine is watched by a task, which resumes the watch when it ends.

use std::{ops::ControlFlow, sync::Arc, time::Duration};

use futures::StreamExt;
use tokio_util::sync::CancellationToken;

use super::{Shared, StoreOptions, load};
use crate::{
    engine::{Batch, Engine, Follower, Following, Watch},
    error::Error,
    model::Revision,
};

/// How many commits that are ready are applied under one lock: whoever reads waits for it.
const BATCHES_PER_LOCK: usize = 16;

/// The pause before a watch that failed is opened again, doubled up to the longest.
const PAUSE_SHORTEST: Duration = Duration::from_millis(20);
const PAUSE_LONGEST: Duration = Duration::from_secs(1);

pub(super) struct Feed {
    engine: Arc<dyn Engine>,
    options: StoreOptions,
    shared: Arc<Shared>,
}

impl Feed {
    pub fn new(engine: Arc<dyn Engine>, options: StoreOptions, shared: Arc<Shared>) -> Self {
        Self { engine, options, shared }
    }

    pub async fn run(self, stop: CancellationToken) {
        let error = match stop.run_until_cancelled(self.follow()).await {
            Some(error) => {
                tracing::error!(%error, "the cache stops following the store; only a restart helps");
                let _ = self.shared.failed.set(error.clone());
                error
            }
            None => super::stopped(),
        };
        self.shared.state.write().end(&error);
        self.shared.ended.cancel();
    }

    /// Follows until an error that opening the watch again does not cure.
    async fn follow(&self) -> Error {
        let (mut pause, mut told) = (PAUSE_SHORTEST, None);
        loop {
            let before = self.applied();
            let error = match self.open(before).await {
                Ok(Opened { watch, behind }) => self.consume(watch, behind).await,
                Err(error) => Some(error),
            };
            let Some(error) = error else { continue };
            if self.applied() != before {
                (pause, told) = (PAUSE_SHORTEST, None);
            }
            match self.recover(error).await {
                ControlFlow::Break(error) => return error,
                ControlFlow::Continue(trouble) => tell(&mut told, trouble),
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(PAUSE_LONGEST);
        }
    }

    async fn open(&self, after: Revision) -> Result<Opened, Error> {
        let prefix = &self.options.prefix;
        let behind = match self.engine.follow(prefix, after, Arc::clone(&self.shared) as _) {
            Following::On(watch) => return Ok(Opened { watch, behind: false }),
            Following::Behind => true,
            Following::Never => false,
        };
        Ok(Opened { watch: self.engine.watch(prefix, after).await?, behind })
    }

    /// Takes in what a watch brings until it ends, and says why; or until the engine can be followed instead.
    async fn consume(&self, watch: Watch, behind: bool) -> Option<Error> {
        let mut chunks = watch.ready_chunks(BATCHES_PER_LOCK);
        while let Some(chunk) = chunks.next().await {
            let (batches, error) = split(chunk);
            self.shared.apply(batches);
            self.shared.tell();
            if error.is_some() {
                return error;
            }
            if behind && self.caught_up().await {
                return None;
            }
        }
        Some(Error::Unreachable { reason: "the watch ended".to_owned() })
    }

    async fn caught_up(&self) -> bool {
        let current = self.engine.current(&self.options.prefix).await;
        current.is_ok_and(|current| current <= self.applied())
    }

    /// Whether to open the watch again after this error, and what kept it from being open.
    async fn recover(&self, error: Error) -> ControlFlow<Error, Option<Error>> {
        if let Error::FutureRevision { requested, current } = error {
            // What was read and told since then never happened: nobody can be led back from there.
            return ControlFlow::Break(Error::unavailable(format!(
                "it went back from revision {requested} to {current}, as when an older copy is restored; restart this server"
            )));
        }
        let error = if matches!(error, Error::Compacted { .. }) {
            match self.reload().await {
                Ok(()) => return ControlFlow::Continue(None),
                Err(error) => error,
            }
        } else {
            error
        };
        if error.retryable() {
            tracing::debug!(%error, "the watch on the store ended, opening it again");
            return ControlFlow::Continue(None);
        }
        // Whoever keeps the data elsewhere refuses us now, because of a password for example; somebody mends that.
        // Only an engine that has stopped for good says so.
        let elsewhere = matches!(error, Error::Unavailable { .. }) && self.engine.health().is_ok();
        if elsewhere { ControlFlow::Continue(Some(error)) } else { ControlFlow::Break(error) }
    }

    /// Lists anew after the engine compacted away what this cache had not seen yet.
    async fn reload(&self) -> Result<(), Error> {
        let engine = self.engine.as_ref();
        let loaded = load::loaded_at(engine, &self.options, None).await?;
        let revision = loaded.revision;
        tracing::warn!(%revision, "the store's history was compacted before the cache read it");
        self.shared.state.write().reset(loaded);
        self.shared.applied.send_replace(revision);
        Ok(())
    }

    fn applied(&self) -> Revision {
        *self.shared.applied.borrow()
    }
}

/// Tells the log of a trouble once, not each time that it is tried again.
fn tell(told: &mut Option<Error>, trouble: Option<Error>) {
    if let Some(error) = &trouble
        && *told != trouble
    {
        tracing::error!(%error, "the cache cannot follow the store, and tries until it can");
    }
    *told = trouble.or(told.take());
}

/// A way by which commits come.
struct Opened {
    watch: Watch,
    /// Whether the engine can be followed once the watch has led near enough.
    behind: bool,
}

impl Shared {
    /// Takes in commits that follow on those before.
    fn apply(&self, batches: Vec<Batch>) {
        let mut batches = batches.into_iter();
        while 0 < batches.len() {
            let mut state = self.state.write();
            batches.by_ref().take(BATCHES_PER_LOCK).for_each(|batch| state.apply(batch));
            let revision = state.revision();
            drop(state);
            self.applied.send_replace(revision);
        }
    }

    /// Wakes the watchers of what was taken in.
    fn tell(&self) {
        let (moved, gone) = self.state.write().moved();
        moved.iter().for_each(|group| group.wake());
        drop(gone);
    }
}

impl Follower for Shared {
    fn take(&self, batches: Vec<Batch>) -> Result<(), Error> {
        self.apply(batches);
        Ok(())
    }

    fn acknowledged(&self) {
        self.tell();
    }
}

fn split(chunk: Vec<Result<Batch, Error>>) -> (Vec<Batch>, Option<Error>) {
    let mut batches = Vec::with_capacity(chunk.len());
    for item in chunk {
        match item {
            Ok(batch) => batches.push(batch),
            Err(error) => return (batches, Some(error)),
        }
    }
    (batches, None)
}
