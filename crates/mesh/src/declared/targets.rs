//! Traffic targets: who may ask whom for what.
use super::{Declarations, Reading, Subject};
use crate::names::ServiceName;
use crate::topology::{HttpMatch, TrafficTarget};
use orrery_hub::ObjectName;
use orrery_proto::smi::access::v1alpha4::{TrafficTargetRule, TrafficTargetSpec};
use std::collections::BTreeSet;

/// What the rules of a target allow.
struct Allowed {
    /// `None` is every request.
    requests: Option<Vec<HttpMatch>>,
    /// `None` is every port.
    ports: Option<BTreeSet<i32>>,
}

impl Declarations {
    pub(super) fn read_targets(&self, reading: &mut Reading) {
        for (name, declared) in &self.targets {
            let Some(spec) = &declared.spec else { continue };
            self.read_target(name, spec, reading);
        }
    }

    /// Whatever of a target cannot be read allows nothing; it still governs its destination, because
    /// a mistake must not open a door.
    fn read_target(&self, name: &ObjectName, spec: &TrafficTargetSpec, reading: &mut Reading) {
        let mut findings = Vec::new();
        let destinations = self.destinations(name, spec, &mut findings);
        let sources = self.sources(name, spec, &mut findings);
        let allowed = self.allowed(name, spec, &mut findings);
        let is_single = destinations.len() == 1;
        for destination in destinations {
            let asked = self.ports_of(&destination);
            let is_about = |ports: &BTreeSet<i32>| asked.is_empty() || !ports.is_disjoint(&asked);
            let rules = match &allowed.ports {
                Some(ports) if !is_about(ports) => {
                    findings.push(format!(
                        "none of its ports is one of {destination}; it allows nothing"
                    ));
                    Some(Vec::new())
                }
                Some(_) | None => allowed.requests.clone(),
            };
            reading.targets.push(TrafficTarget {
                name: if is_single {
                    name.name.clone()
                } else {
                    format!("{}/{}", name.name, destination.name())
                },
                destination,
                sources: sources.clone(),
                rules,
            });
        }
        findings.into_iter().for_each(|text| reading.note(Subject::Target(name.clone()), text));
    }

    /// A target governs services of its own project: nobody opens or closes another's door.
    fn destinations(
        &self,
        name: &ObjectName,
        spec: &TrafficTargetSpec,
        findings: &mut Vec<String>,
    ) -> BTreeSet<ServiceName> {
        let Some(subject) = &spec.destination else { return BTreeSet::new() };
        let found = self.identities(&name.project, subject).unwrap_or_else(|why| {
            findings.push(format!("destination: {why}"));
            BTreeSet::new()
        });
        let (own, foreign): (BTreeSet<_>, BTreeSet<_>) =
            found.into_iter().partition(|service| service.project() == name.project);
        if let Some(foreign) = foreign.first() {
            findings.push(format!(
                "destination: {foreign} is in another project; a target governs its own project only"
            ));
        }
        let is_missing = |service: &&ServiceName| {
            !self.services.contains_key(&ObjectName::new(service.project(), service.name()))
        };
        if let Some(missing) = own.iter().find(is_missing) {
            findings.push(format!("destination: there is no service {missing} (yet)"));
        }
        own
    }

    fn sources(
        &self,
        name: &ObjectName,
        spec: &TrafficTargetSpec,
        findings: &mut Vec<String>,
    ) -> BTreeSet<ServiceName> {
        if spec.sources.is_empty() {
            findings.push("it names no source; it allows nobody".to_owned());
        }
        let mut sources = BTreeSet::new();
        for (index, subject) in spec.sources.iter().enumerate() {
            match self.identities(&name.project, subject) {
                Ok(found) => sources.extend(found),
                Err(why) => findings.push(format!("source {index}: {why}")),
            }
        }
        sources
    }

    /// Groups of routes say which requests, TCP routes and the destination's port on which ports. With
    /// TCP routes alone every request is allowed there.
    fn allowed(
        &self,
        name: &ObjectName,
        spec: &TrafficTargetSpec,
        findings: &mut Vec<String>,
    ) -> Allowed {
        let mut requests = Vec::new();
        let (mut is_http, mut has_whole_route) = (false, false);
        let port = spec.destination.as_ref().and_then(|destination| destination.port);
        let mut ports: BTreeSet<i32> = port.into_iter().collect();
        let mut is_limited = port.is_some();
        let mut is_tcp = false;
        if spec.rules.is_empty() {
            findings.push("it names no rule; it allows nothing".to_owned());
        }
        for rule in &spec.rules {
            match self.rule(name, rule) {
                Ok(Rule::Requests(found)) => {
                    is_http = true;
                    requests.extend(found);
                }
                Ok(Rule::Ports(found)) => {
                    is_tcp = true;
                    has_whole_route |= found.is_empty();
                    is_limited |= !found.is_empty();
                    ports.extend(found);
                }
                Ok(Rule::Datagrams) => {
                    findings
                        .push("UDP routes have no effect: datagrams are not proxied".to_owned());
                }
                Err(why) => {
                    // A group that is not there is still a limit: what is left must not be wider.
                    is_http |= rule.kind() == "HTTPRouteGroup";
                    findings.push(format!("{why}; that rule allows nothing"));
                }
            }
        }
        let requests = (is_http || !is_tcp).then_some(requests);
        Allowed { requests, ports: (is_limited && !has_whole_route).then_some(ports) }
    }

    fn rule(&self, target: &ObjectName, rule: &TrafficTargetRule) -> Result<Rule, String> {
        let name = ObjectName::new(&target.project, rule.name());
        let missing = || format!("there is no {} {:?} (yet)", rule.kind(), rule.name());
        match rule.kind() {
            "HTTPRouteGroup" => Ok(Rule::Requests(self.matches(&name, &rule.matches)?)),
            "TCPRoute" => {
                let route = self.tcp_routes.get(&name).ok_or_else(missing)?;
                let matches = route.spec.as_ref().and_then(|spec| spec.matches.as_ref());
                Ok(Rule::Ports(matches.into_iter().flat_map(|one| one.ports.clone()).collect()))
            }
            "UDPRoute" => self.udp_routes.get(&name).map(|_| Rule::Datagrams).ok_or_else(missing),
            other => Err(format!("it names a {other:?}, which is no kind of route")),
        }
    }

    /// Numbers that a service is known by, to callers and on its instances.
    fn ports_of(&self, service: &ServiceName) -> BTreeSet<i32> {
        let name = ObjectName::new(service.project(), service.name());
        let spec = self.services.get(&name).and_then(|service| service.spec.as_ref());
        let ports = spec.into_iter().flat_map(|spec| &spec.ports);
        ports.flat_map(|port| port.port.into_iter().chain(port.target_port)).collect()
    }
}

/// What one rule is about.
enum Rule {
    Requests(Vec<HttpMatch>),
    /// Empty is every port.
    Ports(BTreeSet<i32>),
    Datagrams,
}
