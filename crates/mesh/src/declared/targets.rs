//! Traffic targets: who may ask whom for what.
use super::{Declarations, Reading, Subject};
use crate::names::{PortName, ServiceName};
use crate::topology::{HttpMatch, TrafficTarget};
use orrery_hub::ObjectName;
use orrery_proto::mesh::v1::MeshPort;
use orrery_proto::smi::access::v1alpha4::{TrafficTargetRule, TrafficTargetSpec};
use std::collections::BTreeSet;

/// What the rules of a target allow.
struct Allowed {
    /// `None` is every request.
    requests: Option<Vec<HttpMatch>>,
    /// The port that the destination names; `None` is every port.
    port: Option<i32>,
    /// The ports that TCP routes name; `None` is every port.
    routed: Option<BTreeSet<i32>>,
    /// Whether there is a rule about connections.
    connections: bool,
}

impl Allowed {
    /// By the number that callers know, or the one that instances listen on.
    fn is_about(&self, port: &MeshPort) -> bool {
        let numbers = || [port.port, port.target_port].into_iter().flatten();
        let is_named = self.port.is_none_or(|named| numbers().any(|number| number == named));
        let is_routed = |routed: &BTreeSet<i32>| numbers().any(|number| routed.contains(&number));
        is_named && self.routed.as_ref().is_none_or(is_routed)
    }
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
            let (ports, rules) = self.opened(&destination, &allowed, &mut findings);
            reading.targets.push(TrafficTarget {
                name: if is_single {
                    name.name.clone()
                } else {
                    format!("{}/{}", name.name, destination.name())
                },
                destination,
                sources: sources.clone(),
                ports,
                rules,
                connections: allowed.connections,
            });
        }
        findings.into_iter().for_each(|text| reading.note(Subject::Target(name.clone()), text));
    }

    /// The ports of a destination that are opened, and the requests that are allowed there.
    fn opened(
        &self,
        destination: &ServiceName,
        allowed: &Allowed,
        findings: &mut Vec<String>,
    ) -> (Option<BTreeSet<PortName>>, Option<Vec<HttpMatch>>) {
        let declared = self.ports_of(destination);
        let meant: Vec<&MeshPort> = declared.iter().filter(|port| allowed.is_about(port)).collect();
        if meant.is_empty() && !declared.is_empty() {
            findings.push(format!("none of its ports is one of {destination}; it allows nothing"));
            return (Some(BTreeSet::new()), Some(Vec::new()));
        }
        let is_closed = |port: &&&MeshPort| port.protocol() == "tcp" && !allowed.connections;
        if let Some(port) = meant.iter().find(is_closed) {
            findings.push(format!(
                "port {} of {destination} takes connections, which only a TCPRoute allows; it stays closed",
                port.port()
            ));
        }
        let names = || meant.iter().map(|port| PortName(port.port().to_string())).collect();
        let is_limited = allowed.port.is_some() || allowed.routed.is_some();
        ((is_limited && !declared.is_empty()).then(names), allowed.requests.clone())
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

    /// Groups of routes say which requests, TCP routes and the destination's port on which ports; all must
    /// hold. With TCP routes alone every request is allowed there, and every connection.
    fn allowed(
        &self,
        name: &ObjectName,
        spec: &TrafficTargetSpec,
        findings: &mut Vec<String>,
    ) -> Allowed {
        let mut requests = Vec::new();
        let (mut is_http, mut is_tcp, mut has_whole_route) = (false, false, false);
        // `None` while no TCP route was named.
        let mut routed: Option<BTreeSet<i32>> = None;
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
                    routed.get_or_insert_default().extend(found);
                }
                Ok(Rule::Datagrams) => {
                    findings
                        .push("UDP routes have no effect: datagrams are not proxied".to_owned());
                }
                Err(why) => {
                    // What is not there is still a limit: what is left must not be wider.
                    is_http |= rule.kind() == "HTTPRouteGroup";
                    if rule.kind() == "TCPRoute" {
                        routed.get_or_insert_default();
                    }
                    findings.push(format!("{why}; that rule allows nothing"));
                }
            }
        }
        Allowed {
            requests: (is_http || !is_tcp).then_some(requests),
            port: spec.destination.as_ref().and_then(|destination| destination.port),
            routed: routed.filter(|_| !has_whole_route),
            connections: is_tcp,
        }
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

    fn ports_of(&self, service: &ServiceName) -> Vec<MeshPort> {
        let name = ObjectName::new(service.project(), service.name());
        let spec = self.services.get(&name).and_then(|service| service.spec.as_ref());
        spec.map(|spec| spec.ports.clone()).unwrap_or_default()
    }
}

/// What one rule is about.
enum Rule {
    Requests(Vec<HttpMatch>),
    /// Empty is every port.
    Ports(BTreeSet<i32>),
    Datagrams,
}
