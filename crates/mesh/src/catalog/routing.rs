//! Where the requests of one service go, in words of the mesh.
//!
//! ```text
//!   services x splits x targets ──> RoutePlan: host -> rules, the first that matches decides
//! ```
//! The plan is what the client's side does: it divides traffic and spares a request that is not
//! allowed the way. That the server's side checks again is not this plan's business.
use super::access::{Access, access};
use super::split::{Problem, Share, divide};
use crate::names::ServiceName;
use crate::topology::{
    HttpMatch, MeshTopology, Service, TrafficSettings, TrafficSplit, TrafficTarget,
};
use std::collections::{BTreeMap, BTreeSet};

/// All hosts that proxies of one service know.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RoutePlan {
    pub hosts: Vec<Host>,
    /// Services that are closed to the source, whose addresses are none of its business.
    pub denied: BTreeSet<ServiceName>,
    /// Sorted, each once.
    pub problems: Vec<Problem>,
}

impl RoutePlan {
    /// Every service that some rule sends requests to.
    pub fn destinations(&self) -> BTreeSet<&ServiceName> {
        let rules = self.hosts.iter().flat_map(|host| &host.rules);
        let shares = rules.filter_map(|rule| match &rule.action {
            Action::Forward(shares) => Some(shares),
            Action::Deny => None,
        });
        shares.flatten().map(|share| &share.service).collect()
    }
}

/// One service as callers address it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Host {
    pub service: ServiceName,
    pub encrypted: bool,
    pub traffic: TrafficSettings,
    pub rules: Vec<Rule>,
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

/// Everything declared, read once.
pub struct Declared {
    services: BTreeMap<ServiceName, Service>,
    splits: Vec<TrafficSplit>,
    targets: Vec<TrafficTarget>,
}

impl Declared {
    pub fn read(topology: &dyn MeshTopology) -> Self {
        let names = topology.list_services();
        let services = names.into_iter().filter_map(|name| {
            let service = topology.get_service(&name)?;
            Some((name, service))
        });
        Self {
            services: services.collect(),
            splits: topology.list_traffic_splits(),
            targets: topology.list_traffic_targets(),
        }
    }

    /// The plan for proxies of `source`.
    pub fn plan(&self, source: &ServiceName) -> RoutePlan {
        let mut problems = Vec::new();
        let mut hosts = Vec::new();
        for service in self.services.values() {
            problems.extend(self.problems_with(service));
            if service.ports.is_empty() {
                continue;
            }
            hosts.push(self.host(source, service, &mut problems));
        }
        problems.sort();
        problems.dedup();
        let services = self.services.keys();
        let denied = services.filter(|name| !self.may_call(source, name)).cloned().collect();
        RoutePlan { hosts, denied, problems }
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
        let bad = self.bad_regexes(service).into_iter();
        let bad =
            bad.map(|regex| Problem::BadRegex { service: name.clone(), regex: regex.to_owned() });
        let portless = service.ports.is_empty().then(|| Problem::NoPorts(name.clone()));
        bad.chain(portless).collect()
    }

    pub fn service(&self, name: &ServiceName) -> Option<&Service> {
        self.services.get(name)
    }

    pub fn targets_of(&self, service: &ServiceName) -> impl Iterator<Item = &TrafficTarget> {
        self.targets.iter().filter(move |target| target.destination == *service)
    }

    /// The shares of a service, whoever asks.
    pub fn shares(&self, root: &ServiceName) -> Vec<Share> {
        let Some(root) = self.services.get(root) else { return Vec::new() };
        self.divide(root, &self.splits_of(root, false), &mut Vec::new())
    }

    fn host(&self, source: &ServiceName, service: &Service, problems: &mut Vec<Problem>) -> Host {
        let rules = match access(source, &service.name, &self.targets) {
            Access::Nothing => vec![Rule { matches: Vec::new(), action: Action::Deny }],
            Access::Everything => self.forwards(source, service, problems),
            Access::Only(mut allowed) => {
                allowed.retain(is_readable);
                let forwards = self.forwards(source, service, problems);
                let mut rules = both(&allowed, &forwards);
                rules.push(Rule { matches: Vec::new(), action: Action::Deny });
                rules
            }
        };
        Host {
            service: service.name.clone(),
            encrypted: service.encrypted,
            traffic: service.traffic.clone(),
            rules,
        }
    }

    /// Splits with matches first, in the order of their names; then what is left.
    fn forwards(
        &self,
        source: &ServiceName,
        service: &Service,
        problems: &mut Vec<Problem>,
    ) -> Vec<Rule> {
        let mut rules = Vec::new();
        for split in self.splits_of(service, true) {
            let action = self.action(source, service, &[split], problems);
            let usable = split.matches.iter().filter(|one| is_readable(one));
            rules.extend(
                usable.map(|one| Rule { matches: vec![one.clone()], action: action.clone() }),
            );
        }
        let action = self.action(source, service, &self.splits_of(service, false), problems);
        rules.push(Rule { matches: Vec::new(), action });
        rules
    }

    /// Backends that the source may not call take no share of its requests.
    fn action(
        &self,
        source: &ServiceName,
        service: &Service,
        splits: &[&TrafficSplit],
        problems: &mut Vec<Problem>,
    ) -> Action {
        let mut shares = self.divide(service, splits, problems);
        shares.retain(|share| self.may_call(source, &share.service));
        if shares.is_empty() { Action::Deny } else { Action::Forward(shares) }
    }

    pub fn may_call(&self, source: &ServiceName, destination: &ServiceName) -> bool {
        access(source, destination, &self.targets) != Access::Nothing
    }

    fn divide(
        &self,
        root: &Service,
        splits: &[&TrafficSplit],
        problems: &mut Vec<Problem>,
    ) -> Vec<Share> {
        divide(root, splits, &|name| self.services.get(name).cloned(), problems)
    }

    fn bad_regexes(&self, service: &Service) -> Vec<&str> {
        let splits = self.splits.iter().filter(|split| split.root == service.name);
        let targets = self.targets_of(&service.name);
        let matches = splits
            .flat_map(|split| &split.matches)
            .chain(targets.flat_map(|target| target.rules.iter().flatten()));
        matches.flat_map(regexes).filter(|regex| !is_regex(regex)).collect()
    }

    fn splits_of(&self, root: &Service, with_matches: bool) -> Vec<&TrafficSplit> {
        let of_root = self.splits.iter().filter(|split| split.root == root.name);
        let mut found: Vec<_> =
            of_root.filter(|split| split.matches.is_empty() != with_matches).collect();
        found.sort_by(|one, other| one.name.cmp(&other.name));
        found
    }
}

/// Whether a proxy could make sense of it.
pub fn is_readable(one: &HttpMatch) -> bool {
    regexes(one).all(is_regex)
}

fn regexes(one: &HttpMatch) -> impl Iterator<Item = &str> {
    one.path_regex.iter().chain(one.headers.values()).map(String::as_str)
}

fn is_regex(text: &str) -> bool {
    regex::Regex::new(text).is_ok()
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
