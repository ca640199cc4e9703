//! Who may ask the instances of a service for what, as their own side enforces it.
use super::routing::Declared;
use crate::names::{Destination, ServiceName};
use crate::topology::{AppProtocol, HttpMatch, Revoked, Service};
use std::collections::BTreeSet;
use std::sync::Arc;

/// Callers of a port that no target governs that are told apart. Each costs every proxy of the port some tens of KiB.
const NEIGHBOURS_MAX: usize = 100;

/// What the proxy in front of an instance does with the traffic of one port.
///
/// A service that a target governs and that is not encrypted lets nobody through: without proof of
/// who asks, no grant can be met.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct InboundPlan {
    /// Callers must prove who they are.
    pub encrypted: bool,
    pub protocol: AppProtocol,
    pub admittance: Admittance,
    /// Where connections are passed on for anyone, callers that are told apart all the same: others of the same
    /// project, so that one of them can be cut off and the rest stay.
    pub neighbours: BTreeSet<ServiceName>,
    /// Proxies that do not get through whatever is allowed to their service; nobody where nobody proves anything.
    pub revoked: Arc<Revoked>,
}

/// Who gets through.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Admittance {
    /// No target governs the service.
    #[default]
    Anyone,
    /// Whoever has a grant; without any, nobody.
    Only(Vec<Grant>),
}

/// Some services may ask for something.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grant {
    /// Never empty.
    pub sources: BTreeSet<ServiceName>,
    /// `None` is everything; never an empty list.
    pub rules: Option<Vec<HttpMatch>>,
}

impl Declared {
    /// `None` for a port that the service does not have.
    pub fn inbound(&self, at: &Destination) -> Option<InboundPlan> {
        let protocol = self.protocol(at)?;
        let service = self.service(&at.service);
        let encrypted = service.is_some_and(|service| service.encrypted);
        let port = service.and_then(|service| match &at.port {
            None => service.ports.first(),
            Some(port) => service.port(port),
        });
        let targets = self.targets_of(&at.service);
        let revoked = if encrypted { Arc::clone(self.revoked()) } else { Arc::default() };
        let neighbours = BTreeSet::new();
        let plan =
            |admittance| InboundPlan { encrypted, protocol, admittance, neighbours, revoked };
        if targets.is_empty() {
            let neighbours = self.neighbours(&at.service, encrypted, protocol);
            return Some(InboundPlan { neighbours, ..plan(Admittance::Anyone) });
        }
        let open = targets.iter().filter(|target| target.opens(port));
        let grants = open.filter_map(|target| {
            let rules = target.rules.as_ref().filter(|_| protocol.has_requests());
            let rules = rules.map(|rules| usable(rules));
            let is_void = target.sources.is_empty() || rules.as_ref().is_some_and(Vec::is_empty);
            (!is_void).then(|| Grant { sources: target.sources.clone(), rules })
        });
        let mut grants: Vec<Grant> = grants.collect();
        let check = service.and_then(|service| service.traffic.health_check.as_ref());
        let path =
            check.and_then(|check| check.path.as_deref()).filter(|_| protocol.has_requests());
        grants.extend(path.and_then(|path| may_check(path, &grants)));
        Some(plan(Admittance::Only(grants)))
    }

    /// The oldest, so that a service that is declared takes nobody's place and cuts nobody's connections; who moves
    /// up when one goes loses none either. Not the service itself: its name is what clients of TLS that are no proxies
    /// speak when they dial it, and they do not have its certificate.
    fn neighbours(
        &self,
        service: &ServiceName,
        encrypted: bool,
        protocol: AppProtocol,
    ) -> BTreeSet<ServiceName> {
        if !encrypted || protocol.has_requests() {
            return BTreeSet::new();
        }
        let own = self.services_of(service.project());
        let mut others: Vec<&Service> = own.filter(|other| other.name != *service).collect();
        // Those of the same second stay in the order of their names.
        others.sort_by_key(|other| other.declared_s);
        others.into_iter().take(NEIGHBOURS_MAX).map(|other| other.name.clone()).collect()
    }
}

/// Whoever may ask for something may ask whether the instance is well: its proxy does so, and would find
/// every instance unwell. Nothing where the grants allow it anyhow.
fn may_check(path: &str, grants: &[Grant]) -> Option<Grant> {
    let limited = grants.iter().filter(|grant| grant.rules.is_some());
    let sources: BTreeSet<ServiceName> =
        limited.flat_map(|grant| &grant.sources).cloned().collect();
    let path = path.split(['?', '#']).next().unwrap_or(path);
    let rule = HttpMatch {
        path_regex: Some(format!("{}$", regex::escape(path))),
        methods: ["GET".to_owned()].into(),
        ..HttpMatch::default()
    };
    (!sources.is_empty()).then(|| Grant { sources, rules: Some(vec![rule]) })
}

fn usable(rules: &[HttpMatch]) -> Vec<HttpMatch> {
    rules.iter().filter(|one| super::routing::is_readable(one)).cloned().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::topology::{
        HealthCheck, MemoryTopology, MeshTopology as _, ServicePort, TrafficSettings, TrafficTarget,
    };
    use std::time::Duration;

    fn name(text: &str) -> ServiceName {
        text.parse().unwrap()
    }

    #[track_caller]
    fn check(targets: &[(&[&str], Option<&[&str]>)], expect: Option<&[usize]>) {
        let topology = MemoryTopology::default();
        for (index, (sources, rules)) in targets.iter().enumerate() {
            let path = |path: &&str| HttpMatch {
                path_regex: Some((*path).to_owned()),
                ..HttpMatch::default()
            };
            topology.put_target(TrafficTarget {
                name: format!("t{index}"),
                destination: name("books"),
                sources: sources.iter().map(|source| name(source)).collect(),
                ports: None,
                rules: rules.map(|rules| rules.iter().map(path).collect()),
                connections: false,
            });
        }
        let plan = Declared::read(&topology).inbound(&Destination::first(&name("books")));
        let plan = plan.expect("a service always has a first port");
        let rules = match plan.admittance {
            Admittance::Anyone => None,
            Admittance::Only(grants) => {
                Some(grants.iter().map(|one| one.rules.as_ref().map_or(0, Vec::len)).collect())
            }
        };
        assert_eq!(rules, expect.map(<[usize]>::to_vec));
    }

    /// proves: MSH-07
    #[test]
    fn empty_means_nobody_and_bad_rules_grant_nothing() {
        check(&[], None);
        check(&[(&[], None)], Some(&[]));
        check(&[(&["web"], None)], Some(&[0]));
        check(&[(&["web"], Some(&[]))], Some(&[]));
        check(&[(&["web"], Some(&["/("]))], Some(&[]));
        check(&[(&["web"], Some(&["/(", "/a"])), (&["bank"], None)], Some(&[1, 0]));
    }

    /// proves: MSH-07
    #[test]
    fn whoever_may_ask_for_something_may_check_the_health() {
        let topology = MemoryTopology::default();
        let check = HealthCheck {
            path: Some("/health.z?deep=1".to_owned()),
            interval: Duration::from_secs(1),
            timeout: Duration::from_secs(1),
            unhealthy_threshold: 1,
            healthy_threshold: 1,
        };
        let traffic = TrafficSettings { health_check: Some(check), ..TrafficSettings::default() };
        let ports = vec!["80".into()];
        topology.put_service(Service {
            name: name("books"),
            ports,
            encrypted: true,
            traffic,
            declared_s: 0,
        });
        let mut target = TrafficTarget {
            name: "t".to_owned(),
            destination: name("books"),
            sources: [name("web")].into(),
            ports: None,
            rules: Some(vec![HttpMatch {
                path_regex: Some("/api".into()),
                ..HttpMatch::default()
            }]),
            connections: false,
        };
        let grants = |target: &TrafficTarget| {
            topology.put_target(target.clone());
            let plan = Declared::read(&topology).inbound(&Destination::first(&name("books")));
            match plan.expect("it has that port").admittance {
                Admittance::Anyone => panic!("a target governs it"),
                Admittance::Only(grants) => grants,
            }
        };
        let found = grants(&target);
        let rule = &found[1].rules.as_ref().expect("only that")[0];
        assert_eq!(rule.path_regex.as_deref(), Some(r"/health\.z$"));
        assert_eq!((found.len(), &found[1].sources), (2, &target.sources));
        target.rules = None;
        assert_eq!(grants(&target).len(), 1, "it is allowed already");
        target.sources.clear();
        assert_eq!(grants(&target), [], "nobody is still nobody");
    }

    fn declare(topology: &MemoryTopology) {
        declare_at(topology, "books", 0);
    }

    fn declare_at(topology: &MemoryTopology, service: &str, declared_s: u64) {
        let ports = vec![
            "80".into(),
            ServicePort {
                protocol: AppProtocol::Tcp,
                label: "pg".into(),
                ..ServicePort::from("81")
            },
        ];
        topology.put_service(Service {
            name: name(service),
            ports,
            encrypted: true,
            traffic: TrafficSettings::default(),
            declared_s,
        });
    }

    /// proves: MSH-07
    #[test]
    fn connections_need_a_grant_of_their_own() {
        let topology = MemoryTopology::default();
        declare(&topology);
        let plan = |at: &str| {
            let at = Destination::within("default", at).unwrap();
            Declared::read(&topology).inbound(&at)
        };
        assert_eq!(plan("books:pg").map(|plan| plan.admittance), Some(Admittance::Anyone));
        assert_eq!(plan("books:82"), None);
        let target = |connections| TrafficTarget {
            name: "t".to_owned(),
            destination: name("books"),
            sources: [name("web")].into(),
            ports: Some(["81".into()].into()),
            rules: Some(vec![HttpMatch::default()]),
            connections,
        };
        topology.put_target(target(false));
        for at in ["books", "books:80", "books:81"] {
            let found = plan(at).map(|plan| plan.admittance);
            assert_eq!(found, Some(Admittance::Only(Vec::new())), "{at}");
        }
        topology.put_target(target(true));
        let grant = Grant { sources: [name("web")].into(), rules: None };
        let open = plan("books:pg").expect("it has that port");
        assert_eq!(open.admittance, Admittance::Only(vec![grant]));
        assert_eq!((open.encrypted, open.protocol), (true, AppProtocol::Tcp));
    }

    /// proves: MSH-07
    #[test]
    fn callers_are_told_apart_and_refused_where_they_prove_who_they_are() {
        let topology = MemoryTopology::default();
        topology.revoke(["web.default".parse().unwrap()].into_iter().collect());
        let plan = |at: &str, encrypted: bool, neighbour: &str| {
            declare(&topology);
            let books = topology.get_service(&name("books")).expect("declared");
            topology.put_service(Service { encrypted, ..books.clone() });
            topology.put_service(Service { name: name(neighbour), ..books });
            let at = Destination::within("default", at).unwrap();
            let plan = Declared::read(&topology).inbound(&at).expect("it has that port");
            let neighbours: Vec<String> = plan.neighbours.iter().map(ToString::to_string).collect();
            (neighbours.join(" "), plan.revoked.names().count())
        };
        assert_eq!(plan("books:pg", true, "office/web"), (String::new(), 1), "another project");
        assert_eq!(plan("books:pg", true, "web"), ("default/web".to_owned(), 1), "not itself");
        assert_eq!(plan("books", true, "web"), (String::new(), 1), "requests are asked one by one");
        assert_eq!(plan("books:pg", false, "web"), (String::new(), 0), "nobody proves anything");
        topology.put_target(TrafficTarget {
            name: "t".to_owned(),
            destination: name("books"),
            sources: [name("web")].into(),
            ports: None,
            rules: None,
            connections: true,
        });
        assert_eq!(plan("books:pg", true, "web"), (String::new(), 1), "grants name who may");
    }

    /// Who loses a place loses its connections with it.
    ///
    /// proves: MSH-07
    #[test]
    fn a_service_that_is_declared_takes_the_place_of_no_other() {
        let topology = MemoryTopology::default();
        declare(&topology);
        let neighbours = || {
            let at = Destination::within("default", "books:pg").unwrap();
            let plan = Declared::read(&topology).inbound(&at).expect("it has that port");
            plan.neighbours
        };
        let mut before = neighbours();
        for number in 0..2 * NEIGHBOURS_MAX {
            // Each is the first by name.
            declare_at(&topology, &format!("a-{}", 999 - number), number as u64 + 1);
            let after = neighbours();
            assert!(before.is_subset(&after), "{number}");
            before = after;
        }
        assert_eq!(before.len(), NEIGHBOURS_MAX);
        topology.remove_service(&name("a-999"));
        let after = neighbours();
        before.remove(&name("a-999"));
        assert!(before.is_subset(&after), "who goes takes nobody along");
        assert_eq!(after.len(), NEIGHBOURS_MAX, "and the oldest that had none has its place");
    }
}
