//! Keeps the topology equal to what is declared.
use super::watches::Views;
use crate::catalog::ServiceCatalog;
use crate::declared::{Declarations, Findings};
use crate::topology::MemoryTopology;
use orrery_runtime::until_synced;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{Notify, watch};
use tokio_util::sync::CancellationToken;

/// How long a start waits for other places: longer, and proxies wait in vain; shorter, and a slow
/// place looks like one that declares nothing.
const LOADING_MAX: Duration = Duration::from_secs(20);

/// Another place where things are declared, beside the hub.
#[async_trait::async_trait]
pub trait Source: Send + Sync + 'static {
    /// Everything it declares, from memory.
    fn declarations(&self) -> Declarations;

    /// To be woken from now on whenever that changes.
    fn wake(&self, changed: Arc<Notify>);

    /// Returns when it has told what it declares, or that it cannot.
    async fn loaded(&self);
}

pub struct Topologist {
    pub views: Views,
    /// What the hub declares comes first, then these in their order.
    pub sources: Vec<Arc<dyn Source>>,
    pub changed: Arc<Notify>,
    pub topology: Arc<MemoryTopology>,
    pub findings: watch::Sender<Findings>,
}

impl Topologist {
    /// Reads everything anew whenever something changed, and keeps the catalog running meanwhile. The
    /// catalog starts when everything is known: one that knew less would tell proxies of a loss.
    pub async fn run(
        self,
        synced: Vec<watch::Receiver<bool>>,
        catalog: Arc<ServiceCatalog>,
        stop: CancellationToken,
    ) {
        self.sources.iter().for_each(|source| source.wake(self.changed.clone()));
        until_synced(synced, &stop).await;
        let loading = futures::future::join_all(self.sources.iter().map(|source| source.loaded()));
        tokio::select! {
            () = stop.cancelled() => return,
            outcome = tokio::time::timeout(LOADING_MAX, loading) => {
                if outcome.is_err() {
                    tracing::warn!("not every cluster has told what it declares; going on without");
                }
            }
        }
        self.read();
        let reading = async {
            loop {
                self.changed.notified().await;
                self.read();
            }
        };
        tokio::select! {
            () = catalog.run(stop.clone()) => {}
            () = reading => {}
        }
    }

    fn read(&self) {
        let mut declared = self.views.declarations();
        self.sources.iter().for_each(|source| declared.add(&source.declarations()));
        let reading = declared.read();
        // First, so that whatever is newly declared is closed to them from the beginning.
        self.topology.revoke(self.views.revoked());
        self.topology.replace(reading.services, reading.splits, reading.targets);
        self.findings.send_if_modified(|findings| {
            let is_new = *findings != reading.findings;
            *findings = reading.findings;
            is_new
        });
    }
}
