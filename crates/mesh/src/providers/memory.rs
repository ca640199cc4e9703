//! A provider that lives in memory and can be changed, and made to fail, at any time.
use super::{EndpointsProvider, ProviderError};
use crate::address::{Endpoint, Placed};
use crate::announce::{Announcements, Announcer};
use crate::names::ServiceName;
use parking_lot::RwLock;
use std::collections::BTreeMap;

/// Whoever watches instances writes here; tests do too.
pub struct MemoryProvider {
    name: String,
    endpoints: RwLock<BTreeMap<ServiceName, Vec<Placed>>>,
    failure: RwLock<Option<String>>,
    announcer: Announcer<ServiceName>,
}

impl MemoryProvider {
    pub fn new(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            endpoints: RwLock::default(),
            failure: RwLock::default(),
            announcer: Announcer::default(),
        }
    }

    /// Replaces all endpoints of a service with one port; none takes the service away.
    pub fn set(&self, service: &ServiceName, endpoints: Vec<Endpoint>) {
        self.set_ports(service, endpoints.into_iter().map(Placed::from).collect());
    }

    /// The same for one with several.
    pub fn set_ports(&self, service: &ServiceName, endpoints: Vec<Placed>) {
        let mut all = self.endpoints.write();
        let old = match endpoints.is_empty() {
            true => all.remove(service),
            false => all.insert(service.clone(), endpoints.clone()),
        };
        drop(all);
        let changed = old.unwrap_or_default() != endpoints;
        self.announcer.announce(changed.then(|| service.clone()));
    }

    /// With a reason, every question fails with it; `None` heals. Nothing is announced: a real
    /// provider that loses its source cannot tell either.
    pub fn fail(&self, reason: Option<&str>) {
        *self.failure.write() = reason.map(str::to_owned);
    }
}

#[async_trait::async_trait]
impl EndpointsProvider for MemoryProvider {
    fn name(&self) -> &str {
        &self.name
    }

    async fn list_endpoints(&self, service: &ServiceName) -> Result<Vec<Placed>, ProviderError> {
        if let Some(reason) = self.failure.read().clone() {
            return Err(ProviderError { provider: self.name.clone(), reason });
        }
        Ok(self.endpoints.read().get(service).cloned().unwrap_or_default())
    }

    fn announcements(&self) -> Announcements<ServiceName> {
        self.announcer.listen()
    }
}
