//! Instances on virtual machines and scale sets of Azure, over its Resource Manager.
//!
//! ```text
//!   service ─Bindings─> resource URIs ─┬─ VM ──────────> its network interfaces ─┐
//!                                      └─ scale set ───> all of theirs, by pages ┴─> private addresses
//!                                         (uniform or flexible)                      of what is powered on
//! ```
//! There is nothing to watch there, so it is asked again every now and then. A subscription that is
//! throttled is left alone for as long as it says.
mod machines;
mod manager;
mod reply;
mod token;

pub use manager::Manager;
pub use token::Credentials;

use super::{EndpointsProvider, ProviderError};
use crate::address::{Endpoint, Ip, Placed, Port};
use crate::announce::{Announcements, Announcer};
use crate::names::{PortName, ServiceName};
use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// How often the same is asked again. Reads are limited to some thousands an hour for each subscription.
const POLL: Duration = Duration::from_secs(30);

/// Machines of a subscription that serve a service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Binding {
    /// As the Resource Manager names them, from `/subscriptions/` on.
    pub resource_uris: Vec<String>,
    pub port: Port,
    /// The port of the service that they serve there; the first when absent.
    pub name: Option<PortName>,
}

impl Binding {
    fn at(&self, ip: IpAddr) -> Placed {
        let endpoint = Endpoint { ip: Ip(ip), port: self.port };
        Placed { endpoint, port: self.name.clone(), is_first: self.name.is_none() }
    }
}

/// Which machines serve what: the AzureResource objects, wherever they are kept.
pub trait Bindings: Send + Sync + 'static {
    fn of(&self, provider: &str, service: &ServiceName) -> Vec<Binding>;

    /// Every service that has any.
    fn services(&self) -> BTreeSet<ServiceName>;

    fn announcements(&self) -> Announcements<ServiceName>;
}

/// One subscription, or whatever one set of credentials can see.
pub struct AzureProvider {
    /// As AzureResource objects name it.
    short: String,
    name: String,
    manager: Manager,
    bindings: Arc<dyn Bindings>,
    announcer: Announcer<ServiceName>,
}

impl AzureProvider {
    pub fn new(name: &str, manager: Manager, bindings: Arc<dyn Bindings>) -> Arc<Self> {
        Arc::new(Self {
            short: name.to_owned(),
            name: format!("azure/{name}"),
            manager,
            bindings,
            announcer: Announcer::default(),
        })
    }

    /// Has everything asked again from time to time, until told to stop.
    pub async fn run(self: Arc<Self>, stop: CancellationToken) {
        let mut bound = self.bindings.announcements();
        loop {
            tokio::select! {
                () = stop.cancelled() => return,
                names = bound.next() => self.announcer.announce(names),
                () = tokio::time::sleep(POLL) => self.announcer.announce(self.bindings.services()),
            }
        }
    }
}

#[async_trait::async_trait]
impl EndpointsProvider for AzureProvider {
    fn name(&self) -> &str {
        &self.name
    }

    async fn list_endpoints(&self, service: &ServiceName) -> Result<Vec<Placed>, ProviderError> {
        let mut found = BTreeSet::new();
        for binding in self.bindings.of(&self.short, service) {
            for uri in &binding.resource_uris {
                let addresses = self
                    .manager
                    .addresses(uri)
                    .await
                    .map_err(|reason| ProviderError { provider: self.name.clone(), reason })?;
                found.extend(addresses.into_iter().map(|ip| binding.at(ip)));
            }
        }
        Ok(found.into_iter().collect())
    }

    fn announcements(&self) -> Announcements<ServiceName> {
        self.announcer.listen()
    }
}
