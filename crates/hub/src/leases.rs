//! Leases: who may act alone.
use crate::error::Error;
use crate::hub::Hub;
use crate::refusal::from_store;
use orrery_store::{Lease, ListRequest};
use std::time::Duration;

/// Where the store keeps leases.
pub(crate) const LEASES: &str = "leases/";

impl Hub {
    /// Takes a lease; `None` when another holds it.
    pub async fn acquire(
        &self,
        name: &str,
        holder: &str,
        ttl: Duration,
    ) -> Result<Option<Lease>, Error> {
        self.store().engine().acquire(name, holder, ttl).await.map_err(from_store)
    }

    /// Keeps a lease for another of its terms; false when it is lost.
    pub async fn renew(&self, lease: &Lease) -> Result<bool, Error> {
        self.store().engine().renew(lease).await.map_err(from_store)
    }

    /// Gives a lease back, so that another need not wait for its end.
    pub async fn resign(&self, lease: Lease) -> Result<(), Error> {
        self.store().engine().resign(lease).await.map_err(from_store)
    }

    /// The leases whose names begin so that are held: the rest of their names, and who holds them.
    pub async fn holders(&self, begins: &str) -> Result<Vec<(String, String)>, Error> {
        let prefix = format!("{LEASES}{begins}");
        let found = self.store().engine().list(ListRequest::prefix(prefix.as_str())).await;
        let held = found.map_err(from_store)?.entries.into_iter().map(|entry| {
            let holder = String::from_utf8_lossy(&entry.value).into_owned();
            (entry.key[prefix.len()..].to_owned(), holder)
        });
        Ok(held.collect())
    }

    /// Whether anybody holds the lease.
    pub async fn is_held(&self, name: &str) -> Result<bool, Error> {
        // The cache holds objects only.
        let entry = self.store().engine().get(&format!("{LEASES}{name}")).await;
        Ok(entry.map_err(from_store)?.is_some())
    }
}
