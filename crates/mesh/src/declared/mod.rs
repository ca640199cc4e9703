//! From resources, wherever they are stored, to a topology.
//!
//! ```text
//!   hub, Kubernetes ──> Declarations ──read──> Reading: services, splits, targets
//!                                                 └──> findings: what has no effect, and why
//! ```
//! One pure function over everything that was declared. It knows the kinds; the topology that comes
//! out of it knows names only.
mod identities;
mod revoked;
mod services;
mod splits;
mod targets;

pub use revoked::revoked;
pub use services::validate as validate_service;

use crate::names::ServiceName;
use crate::topology::{HttpMatch, Service, TrafficSplit, TrafficTarget};
use orrery_api::{Object, ObjectError};
use orrery_hub::ObjectName;
use orrery_proto::mesh::v1::MeshService;
use orrery_proto::smi::access::v1alpha4 as access;
use orrery_proto::smi::specs::v1alpha4 as specs;
use orrery_proto::smi::split::v1alpha4 as split;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Proxies prove who they are with TLS, and there is none of that for datagrams: passing them on would
/// let everybody in.
const NO_DATAGRAMS: &str =
    "datagrams are not proxied: there is no proof of who sends them; it has no effect";

type All<T> = BTreeMap<ObjectName, Arc<T>>;

/// Everything that was declared.
#[derive(Clone, Default)]
pub struct Declarations {
    pub services: All<MeshService>,
    pub splits: All<split::TrafficSplit>,
    pub targets: All<access::TrafficTarget>,
    pub bindings: All<access::IdentityBinding>,
    pub http_routes: All<specs::HttpRouteGroup>,
    pub tcp_routes: All<specs::TcpRoute>,
    pub udp_routes: All<specs::UdpRoute>,
}

/// A resource that something is said of.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Subject {
    Service(ObjectName),
    Split(ObjectName),
    Target(ObjectName),
    UdpRoute(ObjectName),
}

/// What has no effect, by the resource that declares it.
pub type Findings = BTreeMap<Subject, Vec<String>>;

/// What the declarations mean.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reading {
    pub services: Vec<Service>,
    pub splits: Vec<TrafficSplit>,
    pub targets: Vec<TrafficTarget>,
    pub findings: Findings,
}

impl Declarations {
    /// Reads everything. What cannot be read is left out with a finding; the rest goes on.
    pub fn read(&self) -> Reading {
        let mut reading = Reading::default();
        self.read_services(&mut reading);
        self.read_splits(&mut reading);
        self.read_targets(&mut reading);
        for name in self.udp_routes.keys() {
            reading.note(Subject::UdpRoute(name.clone()), NO_DATAGRAMS.to_owned());
        }
        reading
    }

    /// Takes in one resource of the stored version; false for a kind that declares nothing here.
    pub fn put(&mut self, object: &Object) -> Result<bool, ObjectError> {
        fn put<T: prost::Message + prost::Name + Default>(
            all: &mut All<T>,
            object: &Object,
        ) -> Result<bool, ObjectError> {
            if object.kind().full_name() != T::full_name() {
                return Ok(false);
            }
            all.insert(ObjectName::of(object), Arc::new(object.typed()?));
            Ok(true)
        }
        Ok(put(&mut self.services, object)?
            || put(&mut self.splits, object)?
            || put(&mut self.targets, object)?
            || put(&mut self.bindings, object)?
            || put(&mut self.http_routes, object)?
            || put(&mut self.tcp_routes, object)?
            || put(&mut self.udp_routes, object)?)
    }

    /// Takes in what another source declares. What is declared twice counts as declared here.
    pub fn add(&mut self, other: &Self) {
        fn add<T>(mine: &mut All<T>, other: &All<T>) {
            for (name, one) in other {
                mine.entry(name.clone()).or_insert_with(|| Arc::clone(one));
            }
        }
        add(&mut self.services, &other.services);
        add(&mut self.splits, &other.splits);
        add(&mut self.targets, &other.targets);
        add(&mut self.bindings, &other.bindings);
        add(&mut self.http_routes, &other.http_routes);
        add(&mut self.tcp_routes, &other.tcp_routes);
        add(&mut self.udp_routes, &other.udp_routes);
    }

    /// The matches of a group of routes, all of them or those that are named.
    fn matches(&self, group: &ObjectName, named: &[String]) -> Result<Vec<HttpMatch>, String> {
        let found = self.http_routes.get(group).and_then(|group| group.spec.as_ref());
        let Some(spec) = found else {
            return Err(format!("there is no HTTPRouteGroup {:?} (yet)", group.name));
        };
        let unknown = named.iter().find(|name| spec.matches.iter().all(|one| one.name() != **name));
        if let Some(unknown) = unknown {
            return Err(format!("HTTPRouteGroup {:?} has no match {unknown:?}", group.name));
        }
        let is_meant = |one: &&specs::HttpMatch| {
            named.is_empty() || named.iter().any(|name| name == one.name())
        };
        Ok(spec.matches.iter().filter(is_meant).map(http_match).collect())
    }
}

impl Reading {
    fn note(&mut self, subject: Subject, text: String) {
        let known = self.findings.entry(subject).or_default();
        if !known.contains(&text) {
            known.push(text);
        }
    }
}

fn http_match(one: &specs::HttpMatch) -> HttpMatch {
    HttpMatch {
        path_regex: one.path_regex.clone().filter(|regex| !regex.is_empty()),
        methods: one.methods.iter().cloned().collect(),
        headers: one.headers.as_ref().and_then(crate::smi::headers).unwrap_or_default(),
    }
}

fn service_name(project: &str, name: &str) -> Result<ServiceName, String> {
    ServiceName::new(project, name).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests;
