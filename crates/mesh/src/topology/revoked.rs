//! Proxies that are disabled.
use crate::names::{ProxyName, ServiceName};
use std::collections::{BTreeMap, BTreeSet};

/// The names of proxies that nobody takes traffic from, or sends traffic to, whatever certificate proves them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Revoked {
    /// Never empty sets.
    names: BTreeMap<ServiceName, BTreeSet<ProxyName>>,
}

impl Revoked {
    pub fn is_empty(&self) -> bool {
        self.names.is_empty()
    }

    /// In order.
    pub fn names(&self) -> impl Iterator<Item = &ProxyName> {
        self.names.values().flatten()
    }

    /// Those of one service; `None` if there are none.
    pub fn of(&self, service: &ServiceName) -> Option<&BTreeSet<ProxyName>> {
        self.names.get(service)
    }

    /// What of it concerns one service.
    pub fn only(&self, service: &ServiceName) -> Self {
        let names = self.of(service).map(|names| (service.clone(), names.clone()));
        Self { names: names.into_iter().collect() }
    }

    /// The services of which other proxies are disabled than in `other`.
    pub(super) fn differences(&self, other: &Self) -> BTreeSet<ServiceName> {
        let services = self.names.keys().chain(other.names.keys());
        services.filter(|service| self.of(service) != other.of(service)).cloned().collect()
    }
}

impl FromIterator<ProxyName> for Revoked {
    fn from_iter<I: IntoIterator<Item = ProxyName>>(all: I) -> Self {
        let mut names: BTreeMap<_, BTreeSet<_>> = BTreeMap::new();
        for name in all {
            names.entry(name.service()).or_default().insert(name);
        }
        Self { names }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mk(names: &[&str]) -> Revoked {
        names.iter().map(|name| name.parse::<ProxyName>().unwrap()).collect()
    }

    #[test]
    fn names_are_found_by_their_service_and_compared_by_it() {
        let (web, bank): (ServiceName, ServiceName) =
            ("shop/web".parse().unwrap(), "shop/bank".parse().unwrap());
        let all = mk(&["web.shop", "web.shop.i-1", "bank.shop"]);
        assert_eq!(all.of(&web).map(BTreeSet::len), Some(2));
        assert_eq!(all.only(&bank), mk(&["bank.shop"]));
        assert_eq!(all.only(&"shop/books".parse().unwrap()), Revoked::default());
        assert_eq!(all.differences(&mk(&["bank.shop", "web.shop"])), [web.clone()].into());
        assert_eq!(all.differences(&Revoked::default()), [web, bank].into());
        assert!(all.differences(&all).is_empty());
    }
}
