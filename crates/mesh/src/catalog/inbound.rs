//! Who may ask the instances of a service for what, as their own side enforces it.
use super::routing::Declared;
use crate::names::ServiceName;
use crate::topology::HttpMatch;
use std::collections::BTreeSet;

/// What the proxy in front of an instance does with requests.
///
/// A service that a target governs and that is not encrypted lets nobody through: without proof of
/// who asks, no grant can be met.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct InboundPlan {
    /// Callers must prove who they are.
    pub encrypted: bool,
    pub admittance: Admittance,
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
    pub fn inbound(&self, service: &ServiceName) -> InboundPlan {
        let encrypted = self.service(service).is_some_and(|service| service.encrypted);
        let targets: Vec<_> = self.targets_of(service).collect();
        if targets.is_empty() {
            return InboundPlan { encrypted, admittance: Admittance::Anyone };
        }
        let grants = targets.into_iter().filter_map(|target| {
            let rules = target.rules.as_ref().map(|rules| usable(rules));
            let is_void = target.sources.is_empty() || rules.as_ref().is_some_and(Vec::is_empty);
            (!is_void).then(|| Grant { sources: target.sources.clone(), rules })
        });
        InboundPlan { encrypted, admittance: Admittance::Only(grants.collect()) }
    }
}

fn usable(rules: &[HttpMatch]) -> Vec<HttpMatch> {
    rules.iter().filter(|one| super::routing::is_readable(one)).cloned().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::topology::{MemoryTopology, TrafficTarget};

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
                rules: rules.map(|rules| rules.iter().map(path).collect()),
            });
        }
        let plan = Declared::read(&topology).inbound(&name("books"));
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
}
