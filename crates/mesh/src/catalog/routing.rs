//! Where the requests of one service go, in words of the mesh.
//!
//! ```text
//!   services x splits x targets ──> RoutePlan: host -> rules, the first that matches decides
//! ```
//! The plan is what the client's side does: it divides traffic and spares a request that is not
//! allowed the way. That the server's side checks again is not this plan's business.
//!
//! Only those whom a target names see a service in a way of their own. It is seen once as all others do, and
//! shared by their plans, so that a thousand plans of a thousand services do not take a million steps.
use super::access::{Access, access};
use super::plan::{Action, Host, RoutePlan, Rule, Seen, Share};
use super::split::{Part, Problem, divide};
use crate::expression;
use crate::names::{Destination, PortName, ServiceName};
use crate::topology::{
    AppProtocol, HttpMatch, MeshTopology, Revoked, Service, ServicePort, TrafficSplit,
    TrafficTarget,
};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, OnceLock};

/// Everything declared, read once: each split and target is found by the service it is about.
pub struct Declared {
    services: BTreeMap<ServiceName, Service>,
    /// By root, in the order of their names.
    splits: BTreeMap<ServiceName, Vec<TrafficSplit>>,
    /// By destination.
    targets: BTreeMap<ServiceName, Vec<TrafficTarget>>,
    /// By source: the services that look different to it than to those whom no target names.
    named: BTreeMap<ServiceName, BTreeSet<ServiceName>>,
    revoked: Arc<Revoked>,
    /// All services as those see them.
    to_strangers: OnceLock<Vec<Arc<Seen>>>,
}

impl Declared {
    pub fn read(topology: &dyn MeshTopology) -> Self {
        let names = topology.list_services();
        let services = names.into_iter().filter_map(|name| {
            let service = topology.get_service(&name)?;
            Some((name, service))
        });
        let mut splits: BTreeMap<_, Vec<TrafficSplit>> = BTreeMap::new();
        for split in topology.list_traffic_splits() {
            splits.entry(split.root.clone()).or_default().push(split);
        }
        let by_name = |one: &TrafficSplit, other: &TrafficSplit| one.name.cmp(&other.name);
        splits.values_mut().for_each(|splits| splits.sort_by(by_name));
        let mut targets: BTreeMap<_, Vec<TrafficTarget>> = BTreeMap::new();
        for target in topology.list_traffic_targets() {
            targets.entry(target.destination.clone()).or_default().push(target);
        }
        let named = named(&splits, &targets);
        Self {
            services: services.collect(),
            splits,
            targets,
            named,
            revoked: topology.revoked(),
            to_strangers: OnceLock::new(),
        }
    }

    /// Whether some target names it as a source: if not, its plan is that of all others of that sort.
    pub fn is_named(&self, source: &ServiceName) -> bool {
        self.named.contains_key(source)
    }

    /// The plan for proxies of `source`.
    pub fn plan(&self, source: &ServiceName) -> RoutePlan {
        let see = |service| Arc::new(self.see(None, service));
        let strangers = self.to_strangers.get_or_init(|| self.services.values().map(see).collect());
        let mut seen = strangers.clone();
        let own = self.named.get(source).into_iter().flatten();
        for service in own.filter_map(|name| self.services.get(name)) {
            let place = seen.binary_search_by(|seen| seen.service.cmp(&service.name));
            if let Ok(index) = place {
                seen[index] = Arc::new(self.see(Some(source), service));
            }
        }
        RoutePlan { seen }
    }

    /// One service as the source sees it; `None` is somebody whom no target names.
    fn see(&self, source: Option<&ServiceName>, service: &Service) -> Seen {
        let mut problems = self.problems_with(service);
        let ports = service.ports.iter();
        let hosts = ports.map(|port| self.host(source, service, port, &mut problems)).collect();
        let closed = self.closed(source, service);
        Seen { service: service.name.clone(), hosts, closed, problems }
    }

    /// The ports of a service that are closed to the source: by name, by label, and the first by none.
    fn closed(&self, source: Option<&ServiceName>, service: &Service) -> Vec<Destination> {
        let at = |port: Option<PortName>| Destination { service: service.name.clone(), port };
        let is_closed = |port| self.access(source, &service.name, port) == Access::Nothing;
        let first = is_closed(service.ports.first()).then(|| at(None));
        let ports = service.ports.iter().filter(|port| is_closed(Some(port)));
        let names = ports.flat_map(|port| [port.name.clone(), port.label.clone()]);
        first.into_iter().chain(names.map(|name| at(Some(name)))).collect()
    }

    /// Everything declared that has no effect, whoever calls. Sorted, each once.
    pub fn problems(&self) -> Vec<Problem> {
        let mut problems = Vec::new();
        for service in self.services.values() {
            problems.extend(self.problems_with(service));
            for split in self.splits_of(service, true) {
                self.divide(service, &[split], &mut problems);
            }
            self.divide(service, &self.splits_of(service, false), &mut problems);
        }
        problems.sort();
        problems.dedup();
        problems
    }

    /// A bad rule would have the proxy refuse the good ones along with it.
    fn problems_with(&self, service: &Service) -> Vec<Problem> {
        let name = &service.name;
        let bad = self.unreadable(service).into_iter();
        bad.map(|regex| Problem::BadRegex { service: name.clone(), regex: regex.to_owned() })
            .collect()
    }

    pub fn service(&self, name: &ServiceName) -> Option<&Service> {
        self.services.get(name)
    }

    /// Those of one project, in the order of their names.
    pub fn services_of<'a>(&'a self, project: &'a str) -> impl Iterator<Item = &'a Service> {
        self.services.values().filter(move |service| service.name.project() == project)
    }

    /// The proxies that are disabled.
    pub fn revoked(&self) -> &Arc<Revoked> {
        &self.revoked
    }

    pub fn targets_of(&self, service: &ServiceName) -> &[TrafficTarget] {
        self.targets.get(service).map(Vec::as_slice).unwrap_or_default()
    }

    fn all_splits_of(&self, service: &Service) -> &[TrafficSplit] {
        self.splits.get(&service.name).map(Vec::as_slice).unwrap_or_default()
    }

    /// What the first port of a service is divided into, whoever asks.
    pub fn shares(&self, root: &ServiceName) -> Vec<Share> {
        let Some(root) = self.services.get(root) else { return Vec::new() };
        let parts = self.divide(root, &self.splits_of(root, false), &mut Vec::new());
        match root.ports.first() {
            Some(port) => self.at_port(parts, port),
            None => Vec::new(),
        }
    }

    /// A backend takes traffic on the port of the root, which it has: [`divide`] saw to that.
    fn at_port(&self, parts: Vec<Part>, port: &ServicePort) -> Vec<Share> {
        let share = |part: Part| {
            let destination = self.services.get(&part.service)?.destination(port);
            Some(Share { destination, weight: part.weight })
        };
        parts.into_iter().filter_map(share).collect()
    }

    fn host(
        &self,
        source: Option<&ServiceName>,
        service: &Service,
        port: &ServicePort,
        problems: &mut Vec<Problem>,
    ) -> Host {
        let rules = match self.access(source, &service.name, Some(port)) {
            Access::Nothing => vec![Rule { matches: Vec::new(), action: Action::Deny }],
            Access::Everything => self.forwards(source, service, port, problems),
            Access::Only(mut allowed) => {
                allowed.retain(is_readable);
                let forwards = self.forwards(source, service, port, problems);
                let mut rules = both(&allowed, &forwards);
                rules.push(Rule { matches: Vec::new(), action: Action::Deny });
                rules
            }
        };
        Host {
            destination: service.destination(port),
            port: port.clone(),
            encrypted: service.encrypted,
            traffic: service.traffic.clone(),
            rules,
        }
    }

    /// Splits with matches first, in the order of their names; then what is left. Where there are no
    /// requests, nothing matches.
    fn forwards(
        &self,
        source: Option<&ServiceName>,
        service: &Service,
        port: &ServicePort,
        problems: &mut Vec<Problem>,
    ) -> Vec<Rule> {
        let mut rules = Vec::new();
        let matching = self.splits_of(service, true).into_iter();
        for split in matching.filter(|_| port.protocol.has_requests()) {
            let action = self.action(source, service, port, &[split], problems);
            let usable = split.matches.iter().filter(|one| is_readable(one));
            rules.extend(
                usable.map(|one| Rule { matches: vec![one.clone()], action: action.clone() }),
            );
        }
        let unmatched = self.splits_of(service, false);
        let action = self.action(source, service, port, &unmatched, problems);
        rules.push(Rule { matches: Vec::new(), action });
        rules
    }

    /// Backends that the source may not call take no share of its requests.
    fn action(
        &self,
        source: Option<&ServiceName>,
        service: &Service,
        port: &ServicePort,
        splits: &[&TrafficSplit],
        problems: &mut Vec<Problem>,
    ) -> Action {
        let mut parts = self.divide(service, splits, problems);
        parts.retain(|part| self.access(source, &part.service, Some(port)) != Access::Nothing);
        let shares = self.at_port(parts, port);
        if shares.is_empty() { Action::Deny } else { Action::Forward(shares) }
    }

    /// Whether any port is open to the source.
    pub fn may_call(&self, source: &ServiceName, destination: &ServiceName) -> bool {
        let ports = self.services.get(destination).map(|service| service.ports.as_slice());
        match ports.unwrap_or_default() {
            [] => self.access(Some(source), destination, None) != Access::Nothing,
            ports => {
                let is_open =
                    |port| self.access(Some(source), destination, Some(port)) != Access::Nothing;
                ports.iter().any(is_open)
            }
        }
    }

    fn access(
        &self,
        source: Option<&ServiceName>,
        destination: &ServiceName,
        port: Option<&ServicePort>,
    ) -> Access {
        access(source, port, self.targets_of(destination))
    }

    /// What is spoken on a port of a service, by either of its names; `None` is the first. A service of
    /// which nothing is declared takes requests; a port that it does not have is `None`.
    pub fn protocol(&self, at: &Destination) -> Option<AppProtocol> {
        let Some(service) = self.services.get(&at.service) else {
            return at.port.is_none().then(AppProtocol::default);
        };
        match &at.port {
            None => Some(service.ports.first().map(|port| port.protocol).unwrap_or_default()),
            Some(port) => service.port(port).map(|port| port.protocol),
        }
    }

    fn divide(
        &self,
        root: &Service,
        splits: &[&TrafficSplit],
        problems: &mut Vec<Problem>,
    ) -> Vec<Part> {
        divide(root, splits, &|name| self.services.get(name).cloned(), problems)
    }

    fn unreadable(&self, service: &Service) -> Vec<&str> {
        let targets = self.targets_of(&service.name).iter();
        let matches = self
            .all_splits_of(service)
            .iter()
            .flat_map(|split| &split.matches)
            .chain(targets.flat_map(|target| target.rules.iter().flatten()));
        matches.flat_map(unreadable).collect()
    }

    fn splits_of(&self, root: &Service, with_matches: bool) -> Vec<&TrafficSplit> {
        let all = self.all_splits_of(root).iter();
        all.filter(|split| split.matches.is_empty() != with_matches).collect()
    }
}

/// A source looks different at what it is named for, and at what is divided among that.
fn named(
    splits: &BTreeMap<ServiceName, Vec<TrafficSplit>>,
    targets: &BTreeMap<ServiceName, Vec<TrafficTarget>>,
) -> BTreeMap<ServiceName, BTreeSet<ServiceName>> {
    let mut roots: BTreeMap<&ServiceName, BTreeSet<&ServiceName>> = BTreeMap::new();
    for split in splits.values().flatten() {
        for backend in &split.backends {
            roots.entry(&backend.service).or_default().insert(&split.root);
        }
    }
    let mut named: BTreeMap<ServiceName, BTreeSet<ServiceName>> = BTreeMap::new();
    for target in targets.values().flatten() {
        let above = roots.get(&target.destination).into_iter().flatten().copied();
        let different: Vec<&ServiceName> = above.chain([&target.destination]).collect();
        for source in &target.sources {
            named.entry(source.clone()).or_default().extend(different.iter().copied().cloned());
        }
    }
    named
}

/// Whether a proxy could make sense of it.
pub fn is_readable(one: &HttpMatch) -> bool {
    unreadable(one).next().is_none()
}

/// Expressions and names of headers that no proxy reads.
fn unreadable(one: &HttpMatch) -> impl Iterator<Item = &str> {
    let regexes = one.path_regex.iter().chain(one.headers.values());
    let regexes = regexes.filter(|regex| expression::problem(regex).is_some());
    let names = one.headers.keys().filter(|name| !expression::is_header(name));
    regexes.chain(names).map(String::as_str)
}

/// Requests that meet one of `allowed` and a forward's own matches.
fn both(allowed: &[HttpMatch], forwards: &[Rule]) -> Vec<Rule> {
    let pairs = forwards.iter().flat_map(|rule| allowed.iter().map(move |one| (rule, one)));
    pairs
        .map(|(rule, one)| Rule {
            matches: rule.matches.iter().chain([one]).cloned().collect(),
            action: rule.action.clone(),
        })
        .collect()
}

#[cfg(test)]
mod tests;
