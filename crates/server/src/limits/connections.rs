//! Connections of one peer.
use super::Limits;
use parking_lot::Mutex;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;
use std::collections::HashMap;
use std::sync::Arc;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Who holds how many connections. Clones share it.
#[derive(Clone, Debug)]
pub struct Connections {
    room: Arc<Semaphore>,
    per_peer_max: usize,
    peers: Arc<Mutex<HashMap<String, usize>>>,
    open: Gauge,
    refused: Counter,
}

impl Connections {
    pub fn new(limits: &Limits, registry: &mut Registry) -> Self {
        let (open, refused) = (Gauge::default(), Counter::default());
        registry.register(
            "orrery_server_connections",
            "Connections on the shared port",
            open.clone(),
        );
        let help = "Connections that were closed because a peer had too many";
        registry.register("orrery_server_connections_refused", help, refused.clone());
        Self {
            room: Arc::new(Semaphore::new(limits.connections)),
            per_peer_max: limits.connections_per_peer,
            peers: Arc::default(),
            open,
            refused,
        }
    }

    /// Waits until there is room for one more. The semaphore is never closed.
    pub async fn room(&self) -> Option<OwnedSemaphorePermit> {
        self.room.clone().acquire_owned().await.ok()
    }

    /// One more connection of a peer, by its address or by its identity; none if it has too many.
    pub fn take(&self, peer: &str) -> Option<Held> {
        let mut peers = self.peers.lock();
        let held = peers.entry(peer.to_owned()).or_default();
        if self.per_peer_max <= *held {
            self.refused.inc();
            return None;
        }
        *held += 1;
        drop(peers);
        self.open.inc();
        Some(Held { connections: self.clone(), peer: peer.to_owned() })
    }
}

/// A connection, counted until it is dropped.
#[derive(Debug)]
pub struct Held {
    connections: Connections,
    peer: String,
}

impl Held {
    /// The same connection, under the identity that it has shown; none if that has too many.
    pub fn known_as(self, identity: &str) -> Option<Self> {
        let connections = self.connections.clone();
        drop(self);
        connections.take(identity)
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.connections.open.dec();
        let mut peers = self.connections.peers.lock();
        if let Some(held) = peers.get_mut(&self.peer) {
            *held -= 1;
            if *held == 0 {
                peers.remove(&self.peer);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_peer_with_too_many_is_refused_and_others_are_not() {
        let limits = Limits { connections_per_peer: 2, ..Limits::default() };
        let connections = Connections::new(&limits, &mut Registry::default());
        let one = connections.take("10.0.0.1").expect("the first");
        let _two = connections.take("10.0.0.1").expect("the second");
        assert!(connections.take("10.0.0.1").is_none());
        assert!(connections.take("10.0.0.2").is_some());
        let named = one.known_as("agent edge-1").expect("it has none under this name");
        assert!(connections.take("10.0.0.1").is_some(), "it counts under its name now");
        drop(named);
        assert_eq!(connections.refused.get(), 1);
    }
}
