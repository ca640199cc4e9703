//! Where the requests of one service go, in words of the mesh.
use super::split::Problem;
use crate::names::{Destination, ServiceName};
use crate::topology::{HttpMatch, ServicePort, TrafficSettings};
use std::collections::BTreeSet;
use std::sync::Arc;

/// All services as proxies of one of them see them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RoutePlan {
    /// Sorted by name. Most look the same to most, and are shared.
    pub seen: Vec<Arc<Seen>>,
}

/// One service as some source sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seen {
    pub service: ServiceName,
    pub hosts: Vec<Host>,
    /// What is closed to the source, whose addresses are none of its business: under every name that
    /// it has.
    pub closed: Vec<Destination>,
    pub problems: Vec<Problem>,
}

impl RoutePlan {
    pub fn hosts(&self) -> impl Iterator<Item = &Host> {
        self.seen.iter().flat_map(|seen| &seen.hosts)
    }

    /// Everything that some rule sends traffic to.
    pub fn destinations(&self) -> BTreeSet<&Destination> {
        self.hosts().flat_map(Host::destinations).collect()
    }

    /// The port of a service, by either of its names; `None` is the first.
    pub fn host(&self, wanted: &Destination) -> Option<&Host> {
        let is_port = |host: &&Host| match &wanted.port {
            None => host.destination.port.is_none(),
            Some(port) => host.port.is_called(port),
        };
        self.of(&wanted.service)?.hosts.iter().find(is_port)
    }

    /// Whether the source must not even learn where this is.
    pub fn is_closed(&self, at: &Destination) -> bool {
        self.of(&at.service).is_some_and(|seen| seen.closed.contains(at))
    }

    /// Whether the same is closed in another plan.
    pub fn closes_as(&self, other: &Self) -> bool {
        let mine = self.seen.iter().flat_map(|seen| &seen.closed);
        std::ptr::eq(self, other) || mine.eq(other.seen.iter().flat_map(|seen| &seen.closed))
    }

    /// Whether there is something to ask it for.
    pub fn takes_requests(&self, service: &ServiceName) -> bool {
        let hosts = self.of(service).into_iter().flat_map(|seen| &seen.hosts);
        hosts.into_iter().any(|host| host.port.protocol.has_requests())
    }

    /// Sorted, each once.
    pub fn problems(&self) -> BTreeSet<&Problem> {
        self.seen.iter().flat_map(|seen| &seen.problems).collect()
    }

    fn of(&self, service: &ServiceName) -> Option<&Seen> {
        let found = self.seen.binary_search_by(|seen| seen.service.cmp(service));
        found.ok().map(|index| &*self.seen[index])
    }
}

/// One port of a service as callers address it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Host {
    pub destination: Destination,
    pub port: ServicePort,
    pub encrypted: bool,
    pub traffic: TrafficSettings,
    /// Where there are no requests to tell apart, exactly one.
    pub rules: Vec<Rule>,
}

impl Host {
    pub fn destinations(&self) -> impl Iterator<Item = &Destination> {
        let shares = self.rules.iter().filter_map(|rule| match &rule.action {
            Action::Forward(shares) => Some(shares),
            Action::Deny => None,
        });
        shares.flatten().map(|share| &share.destination)
    }
}

/// A destination and its part of the traffic; never zero.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Share {
    pub destination: Destination,
    pub weight: u32,
}

/// A request that meets all matches gets the action.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    pub matches: Vec<HttpMatch>,
    pub action: Action,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Never empty.
    Forward(Vec<Share>),
    Deny,
}
