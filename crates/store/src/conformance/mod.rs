//! One suite for all engines: what [`Engine`] promises, checked from outside.
//!
//! Each area is a function that takes a [`World`] and panics with the promise that was broken.
//! Nothing here knows which engine it talks to; revisions may have gaps and begin anywhere.

mod cached;
mod concurrency;
mod leases;
mod linear;
mod model;
mod reads;
mod util;
mod watches;
mod writes;

use std::sync::Arc;

use async_trait::async_trait;

pub use self::{
    cached::Cached,
    concurrency::{concurrency, concurrency_with_faults},
    leases::leases,
    linear::{Call, History, Outcome},
    model::model,
    reads::reads,
    watches::watches,
    writes::writes,
};
use crate::engine::Engine;

/// Where engines under test come from.
#[async_trait]
pub trait World: Send + Sync {
    /// An engine without entries.
    async fn fresh(&self) -> Arc<dyn Engine>;

    /// Another engine on the same data, as a second server has it; the same one where the data
    /// belong to one process.
    async fn beside(&self, engine: &Arc<dyn Engine>) -> Arc<dyn Engine> {
        Arc::clone(engine)
    }

    /// Whether data outlives the engine that wrote it.
    fn durable(&self) -> bool;

    /// Closes an engine and opens its data again. Asked only of a durable world.
    async fn reopen(&self, engine: Arc<dyn Engine>) -> Arc<dyn Engine>;
}

/// Every area, one after the other.
pub async fn suite(world: &dyn World) {
    writes(world).await;
    reads(world).await;
    watches(world).await;
    leases(world).await;
    concurrency(world, 1).await;
    model(world, 1).await;
}
