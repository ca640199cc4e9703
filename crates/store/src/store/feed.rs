//! The one task that writes the cache: it follows the engine's watch and resumes it when it ends.

use std::{ops::ControlFlow, sync::Arc, time::Duration};

use futures::StreamExt;
use tokio_util::sync::CancellationToken;

use super::{Shared, StoreOptions, load};
use crate::{
    engine::{Batch, Engine, Watch},
    error::Error,
    model::Revision,
};

/// How many commits that are ready are applied under one lock.
const BATCHES_PER_LOCK: usize = 64;

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
            let error = match self.engine.watch(&self.options.prefix, before).await {
                Ok(watch) => self.consume(watch).await,
                Err(error) => error,
            };
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

    async fn consume(&self, watch: Watch) -> Error {
        let mut chunks = watch.ready_chunks(BATCHES_PER_LOCK);
        while let Some(chunk) = chunks.next().await {
            let (batches, error) = split(chunk);
            self.apply(batches);
            if let Some(error) = error {
                return error;
            }
        }
        Error::Unreachable { reason: "the watch ended".to_owned() }
    }

    fn apply(&self, batches: Vec<Batch>) {
        let mut state = self.shared.state.write();
        for batch in batches {
            state.apply(batch);
        }
        let revision = state.revision();
        drop(state);
        self.shared.applied.send_replace(revision);
    }

    /// Whether to open the watch again after this error, and what kept it from being open.
    async fn recover(&self, error: Error) -> ControlFlow<Error, Option<Error>> {
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
