//! Keeps the topology equal to what is declared.
use super::watches::Views;
use crate::catalog::ServiceCatalog;
use crate::declared::{Declarations, Findings};
use crate::topology::MemoryTopology;
use std::sync::Arc;
use tokio::sync::{Notify, watch};
use tokio_util::sync::CancellationToken;

/// Another place where things are declared, beside the hub.
pub trait Source: Send + Sync + 'static {
    /// Everything it declares, from memory.
    fn declarations(&self) -> Declarations;

    /// To be woken from now on whenever that changes.
    fn wake(&self, changed: Arc<Notify>);
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
        for mut synced in synced {
            tokio::select! {
                () = stop.cancelled() => return,
                _ = synced.wait_for(|synced| *synced) => {}
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
        self.topology.replace(reading.services, reading.splits, reading.targets);
        self.findings.send_if_modified(|findings| {
            let is_new = *findings != reading.findings;
            *findings = reading.findings;
            is_new
        });
    }
}
