//! What people declared about the mesh: services, traffic splits, policies.
//!
//! This module knows names and nothing else. It has no idea of addresses, of endpoints, of proxies
//! or of clouds; a test over its source holds it to that.
mod memory;
mod revoked;

pub use memory::MemoryTopology;
pub use revoked::Revoked;

use crate::announce::Announcements;
use crate::names::{Destination, PortName, ServiceName};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

/// The topology of the whole mesh, wherever it is stored.
///
/// All methods answer from memory; an implementation that reads from elsewhere keeps a copy and
/// announces the services that a change concerns.
pub trait MeshTopology: Send + Sync + 'static {
    fn list_services(&self) -> Vec<ServiceName>;

    fn get_service(&self, name: &ServiceName) -> Option<Service>;

    fn list_traffic_splits(&self) -> Vec<TrafficSplit>;

    fn list_traffic_targets(&self) -> Vec<TrafficTarget>;

    /// The proxies that are disabled.
    fn revoked(&self) -> Arc<Revoked>;

    /// Names each service whose declaration, splits or policies changed, or of which other proxies are disabled.
    fn announcements(&self) -> Announcements<ServiceName>;
}

/// A service as declared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Service {
    pub name: ServiceName,
    /// As declared, each once; a service without ports takes no traffic. The first is meant where none
    /// is named.
    pub ports: Vec<ServicePort>,
    /// Callers and instances prove to each other who they are.
    pub encrypted: bool,
    pub traffic: TrafficSettings,
    /// Since when it is declared, in seconds since 1970; 0 where nobody knows. Where there is not room for all, the
    /// oldest come first, so that nobody who comes takes a place from another.
    pub declared_s: u64,
}

impl Service {
    /// A port by either of its names.
    pub fn port(&self, name: &PortName) -> Option<&ServicePort> {
        self.ports.iter().find(|port| port.is_called(name))
    }

    /// How proxies know one of its ports: the first by the service alone.
    pub fn destination(&self, port: &ServicePort) -> Destination {
        let is_first = self.ports.first().is_some_and(|first| first.name == port.name);
        let port = (!is_first).then(|| port.name.clone());
        Destination { service: self.name.clone(), port }
    }
}

/// A port of a service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServicePort {
    /// What declarations compare: the number, as they know it.
    pub name: PortName,
    /// What it was called; those who run instances speak of it by that.
    pub label: PortName,
    pub protocol: AppProtocol,
}

impl ServicePort {
    pub fn is_called(&self, name: &PortName) -> bool {
        self.name == *name || self.label == *name
    }
}

/// One that takes requests.
impl From<&str> for ServicePort {
    fn from(name: &str) -> Self {
        Self { name: name.into(), label: name.into(), protocol: AppProtocol::Http }
    }
}

/// What is spoken on a port.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum AppProtocol {
    #[default]
    Http,
    /// From the first byte, as gRPC needs it.
    Http2,
    /// Anything: connections are passed on as they are.
    Tcp,
}

impl AppProtocol {
    /// Whether there are requests that can be told apart.
    pub fn has_requests(self) -> bool {
        match self {
            Self::Http | Self::Http2 => true,
            Self::Tcp => false,
        }
    }
}

/// How calls to a service behave. Absent means: as the proxy does by itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TrafficSettings {
    /// The whole request, answers included.
    pub timeout: Option<Duration>,
    pub connect_timeout: Option<Duration>,
    pub retries: Option<Retries>,
    pub outlier_detection: Option<OutlierDetection>,
    pub health_check: Option<HealthCheck>,
}

/// Asks every instance again and again whether it is well.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HealthCheck {
    /// Over HTTP; `None` is content with a connection.
    pub path: Option<String>,
    pub interval: Duration,
    pub timeout: Duration,
    pub unhealthy_threshold: u32,
    pub healthy_threshold: u32,
}

/// Repeats a request that failed before it was worked on, and one that took longer than an attempt may.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Retries {
    pub attempts: u32,
    pub per_try_timeout: Option<Duration>,
}

/// Takes an instance out for a while after so many failures in a row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OutlierDetection {
    pub consecutive_failures: u32,
    pub ejection_time: Duration,
}

/// Divides the traffic to `root` among the backends, by weight.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TrafficSplit {
    /// Unique within the project of the root.
    pub name: String,
    pub root: ServiceName,
    pub backends: Vec<Backend>,
    /// Only requests that match one of these are divided; without any, all are.
    pub matches: Vec<HttpMatch>,
}

/// One share of a split.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Backend {
    pub service: ServiceName,
    pub weight: u32,
}

/// Who may call a service. Once one target names a destination, everybody else is kept out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TrafficTarget {
    /// Unique within the project of the destination.
    pub name: String,
    pub destination: ServiceName,
    /// Empty means nobody.
    pub sources: BTreeSet<ServiceName>,
    /// The ports that it opens to them; `None` is every port.
    pub ports: Option<BTreeSet<PortName>>,
    /// What the sources may ask for where there are requests; `None` is everything, an empty list is
    /// nothing.
    pub rules: Option<Vec<HttpMatch>>,
    /// Whether they may connect to ports that take anything.
    pub connections: bool,
}

impl TrafficTarget {
    /// Whether it opens this port to its sources; `None` is a port of which nothing is known.
    pub fn opens(&self, port: Option<&ServicePort>) -> bool {
        let Some(port) = port else { return self.ports.is_none() };
        let is_meant = self.ports.as_ref().is_none_or(|ports| ports.contains(&port.name));
        is_meant && (port.protocol.has_requests() || self.connections)
    }
}

/// What a request looks like: all that is given must hold.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HttpMatch {
    /// A regular expression that the path must meet from its start; more may follow.
    pub path_regex: Option<String>,
    /// Empty means any, and so does `*`.
    pub methods: BTreeSet<String>,
    /// Regular expressions for the whole value of a header.
    pub headers: BTreeMap<String, String>,
}
