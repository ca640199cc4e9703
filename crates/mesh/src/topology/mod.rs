//! What people declared about the mesh: services, traffic splits, policies.
//!
//! This module knows names and nothing else. It has no idea of addresses, of endpoints, of proxies
//! or of clouds; a test over its source holds it to that.
mod memory;

pub use memory::MemoryTopology;

use crate::announce::Announcements;
use crate::names::{PortName, ServiceName};
use std::collections::{BTreeMap, BTreeSet};
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

    /// Names each service whose declaration, splits or policies changed.
    fn announcements(&self) -> Announcements<ServiceName>;
}

/// A service as declared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Service {
    pub name: ServiceName,
    /// A service without ports takes no traffic.
    pub ports: BTreeSet<PortName>,
    /// Callers and instances prove to each other who they are.
    pub encrypted: bool,
    pub traffic: TrafficSettings,
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

/// Repeats a request that failed before anything was answered.
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
    /// What the sources may ask for; `None` is everything, an empty list is nothing.
    pub rules: Option<Vec<HttpMatch>>,
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
