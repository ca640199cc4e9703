//! The heart of the mesh: what was declared, joined with where things are.
//!
//! ```text
//!   MeshTopology ──────┐
//!   EndpointsProvider ─┤                       ┌─ list_endpoints(service of a proxy)
//!   EndpointsProvider ─┼──> ServiceCatalog ────┼─ route_plan(service of a proxy)
//!   SecretsProvider ───┤    (merge, in memory) └─ announcements: what to look at again
//!   connected proxies ─┘
//! ```
//! Nothing here knows how a proxy is told: no Envoy, no gRPC.
mod access;
mod inbound;
mod merge;
mod plan;
mod registration;
mod routing;
mod service_catalog;
mod split;
mod state;

pub use access::Access;
pub use inbound::{Admittance, Grant, InboundPlan};
pub use plan::{Action, Host, RoutePlan, Rule, Seen, Share};
pub use registration::Registration;
pub use routing::Declared;
pub use service_catalog::{CatalogParts, ServiceCatalog};
pub use split::Problem;

use crate::address::{Endpoint, Placed, WeightedService};
use crate::announce::Announcements;
use crate::names::{Destination, ProxyName, ServiceName};
use crate::secrets::CertificateBundle;
use std::collections::BTreeMap;
use std::sync::Arc;

/// What happened, so that listeners look again at just that.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Change {
    /// Instances of this service came, went or moved.
    Endpoints(ServiceName),
    /// Something was declared differently that concerns this service.
    Topology(ServiceName),
    /// The certificate of proxies of this name was replaced.
    Certificate(ProxyName),
}

/// The endpoints a proxy should know, and whether they differ from what it has seen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listing {
    pub endpoints: BTreeMap<Destination, Arc<[Endpoint]>>,
    /// Made of the content: equal listings have equal versions, on every replica.
    pub version: u64,
    pub changed: bool,
}

/// How an endpoints provider is doing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProviderStatus {
    pub name: String,
    /// Services whose endpoints are the last known ones, with the reason.
    pub stale: BTreeMap<ServiceName, String>,
}

/// What a control plane asks about the mesh. Every method answers from memory, at once.
#[async_trait::async_trait]
pub trait Catalog: Send + Sync + 'static {
    /// All endpoints that proxies of `service` should know; `seen` is the version of an earlier
    /// listing.
    fn list_endpoints(&self, service: &ServiceName, seen: Option<u64>) -> Listing;

    /// The endpoints of one port of a service, merged over all providers and self-announced proxies.
    fn endpoints_of(&self, destination: &Destination) -> Arc<[Endpoint]>;

    /// The services that take the traffic of the first port of `root`, with their endpoints.
    fn weighted_services(&self, root: &ServiceName) -> Vec<WeightedService>;

    fn is_declared(&self, service: &ServiceName) -> bool;

    /// Whether `source` may call `destination` at all, on whatever port.
    fn may_call(&self, source: &ServiceName, destination: &ServiceName) -> bool;

    /// Everything declared, read once, to make many plans from: the same until something is declared differently.
    fn declared(&self) -> Arc<Declared>;

    /// Where requests from `source` go.
    fn route_plan(&self, source: &ServiceName) -> RoutePlan {
        self.declared().plan(source)
    }

    /// What the instances of a service let through on a port; `None` if it has no such port.
    fn inbound_plan(&self, at: &Destination) -> Option<InboundPlan> {
        self.declared().inbound(at)
    }

    fn certificate(&self, proxy: &ProxyName) -> Option<CertificateBundle>;

    /// Adds a newly connected proxy to the self-announced endpoints of its service. It leaves when
    /// the registration is dropped.
    fn register_proxy(&self, service: &ServiceName, at: Placed) -> Registration;

    fn list_providers(&self) -> Vec<ProviderStatus>;

    fn announcements(&self) -> Announcements<Change>;

    /// Returns once every provider has been asked for every service: before that, an answer would
    /// look like the loss of all endpoints.
    async fn loaded(&self);
}
