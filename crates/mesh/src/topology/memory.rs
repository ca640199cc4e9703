//! A topology that lives in memory and can be changed at any time.
use super::{MeshTopology, Revoked, Service, TrafficSplit, TrafficTarget};
use crate::announce::{Announcements, Announcer};
use crate::names::ServiceName;
use parking_lot::RwLock;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Splits and targets are unique by project and name, as the resources they come from.
type Key = (String, String);

#[derive(Default, PartialEq)]
struct State {
    services: BTreeMap<ServiceName, Service>,
    splits: BTreeMap<Key, TrafficSplit>,
    targets: BTreeMap<Key, TrafficTarget>,
}

impl State {
    /// The services that something is declared differently of.
    fn differences(&self, other: &Self) -> BTreeSet<ServiceName> {
        fn differing<'a, K: Ord, V: PartialEq>(
            old: &'a BTreeMap<K, V>,
            new: &'a BTreeMap<K, V>,
        ) -> impl Iterator<Item = &'a V> {
            let one_way = |a: &'a BTreeMap<K, V>, b: &'a BTreeMap<K, V>| {
                a.iter()
                    .filter(move |(key, value)| b.get(key) != Some(value))
                    .map(|(_, value)| value)
            };
            one_way(old, new).chain(one_way(new, old))
        }
        let services = differing(&self.services, &other.services).map(|one| &one.name);
        let roots = differing(&self.splits, &other.splits).map(|one| &one.root);
        let targets = differing(&self.targets, &other.targets).map(|one| &one.destination);
        services.chain(roots).chain(targets).cloned().collect()
    }
}

/// Whoever watches the declarations writes here; tests do too.
#[derive(Default)]
pub struct MemoryTopology {
    state: RwLock<State>,
    revoked: RwLock<Arc<Revoked>>,
    announcer: Announcer<ServiceName>,
}

impl MemoryTopology {
    /// Everything at once: what is not given is not declared any more. Names of splits and targets
    /// must be unique within the project of the service they are about.
    pub fn replace(
        &self,
        services: Vec<Service>,
        splits: Vec<TrafficSplit>,
        targets: Vec<TrafficTarget>,
    ) {
        let key =
            |service: &ServiceName, name: &str| (service.project().to_owned(), name.to_owned());
        let next = State {
            services: services.into_iter().map(|one| (one.name.clone(), one)).collect(),
            splits: splits.into_iter().map(|one| (key(&one.root, &one.name), one)).collect(),
            targets: targets
                .into_iter()
                .map(|one| (key(&one.destination, &one.name), one))
                .collect(),
        };
        let changed = {
            let mut state = self.state.write();
            let changed = state.differences(&next);
            *state = next;
            changed
        };
        self.announcer.announce(changed);
    }

    /// All proxies that are disabled.
    pub fn revoke(&self, all: Revoked) {
        let mut revoked = self.revoked.write();
        let changed = revoked.differences(&all);
        *revoked = Arc::new(all);
        drop(revoked);
        self.announcer.announce(changed);
    }

    pub fn put_service(&self, service: Service) {
        let name = service.name.clone();
        let old = self.state.write().services.insert(name.clone(), service.clone());
        self.announcer.announce((old != Some(service)).then_some(name));
    }

    pub fn remove_service(&self, name: &ServiceName) {
        let old = self.state.write().services.remove(name);
        self.announcer.announce(old.map(|old| old.name));
    }

    pub fn put_split(&self, split: TrafficSplit) {
        let key = (split.root.project().to_owned(), split.name.clone());
        let old = self.state.write().splits.insert(key, split.clone());
        if old.as_ref() != Some(&split) {
            self.announcer.announce(old.map(|old| old.root).into_iter().chain([split.root]));
        }
    }

    pub fn remove_split(&self, project: &str, name: &str) {
        let old = self.state.write().splits.remove(&(project.to_owned(), name.to_owned()));
        self.announcer.announce(old.map(|old| old.root));
    }

    pub fn put_target(&self, target: TrafficTarget) {
        let key = (target.destination.project().to_owned(), target.name.clone());
        let old = self.state.write().targets.insert(key, target.clone());
        if old.as_ref() != Some(&target) {
            let old = old.map(|old| old.destination);
            self.announcer.announce(old.into_iter().chain([target.destination]));
        }
    }

    pub fn remove_target(&self, project: &str, name: &str) {
        let old = self.state.write().targets.remove(&(project.to_owned(), name.to_owned()));
        self.announcer.announce(old.map(|old| old.destination));
    }
}

impl MeshTopology for MemoryTopology {
    fn list_services(&self) -> Vec<ServiceName> {
        self.state.read().services.keys().cloned().collect()
    }

    fn get_service(&self, name: &ServiceName) -> Option<Service> {
        self.state.read().services.get(name).cloned()
    }

    fn list_traffic_splits(&self) -> Vec<TrafficSplit> {
        self.state.read().splits.values().cloned().collect()
    }

    fn list_traffic_targets(&self) -> Vec<TrafficTarget> {
        self.state.read().targets.values().cloned().collect()
    }

    fn revoked(&self) -> Arc<Revoked> {
        Arc::clone(&self.revoked.read())
    }

    fn announcements(&self) -> Announcements<ServiceName> {
        self.announcer.listen()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::topology::TrafficSettings;

    fn name(text: &str) -> ServiceName {
        text.parse().unwrap()
    }

    fn mk_service(text: &str) -> Service {
        let ports = vec!["http".into()];
        Service {
            name: name(text),
            ports,
            encrypted: false,
            traffic: TrafficSettings::default(),
            declared_s: 0,
        }
    }

    fn mk_split(split: &str, root: &str) -> TrafficSplit {
        TrafficSplit {
            name: split.to_owned(),
            root: name(root),
            backends: Vec::new(),
            matches: Vec::new(),
        }
    }

    #[test]
    fn a_change_names_the_services_it_concerns() {
        let topology = MemoryTopology::default();
        let mut heard = topology.announcements();
        topology.put_service(mk_service("a"));
        assert_eq!(heard.take(), BTreeSet::from([name("a")]));
        topology.put_service(mk_service("a"));
        assert!(heard.take().is_empty(), "the same again is no change");
        topology.put_split(mk_split("s", "a"));
        assert_eq!(heard.take(), BTreeSet::from([name("a")]));
        topology.put_split(mk_split("s", "b"));
        assert_eq!(heard.take(), BTreeSet::from([name("a"), name("b")]), "the old root too");
        topology.remove_split("default", "s");
        assert_eq!(heard.take(), BTreeSet::from([name("b")]));
        topology.remove_service(&name("a"));
        topology.remove_service(&name("never-there"));
        assert_eq!(heard.take(), BTreeSet::from([name("a")]));
        assert!(topology.list_services().is_empty());
    }

    #[test]
    fn proxies_that_are_disabled_name_their_services() {
        let topology = MemoryTopology::default();
        let mut heard = topology.announcements();
        let revoke = |names: &[&str]| {
            topology.revoke(names.iter().map(|name| name.parse().unwrap()).collect());
        };
        revoke(&["a.default", "b.default"]);
        assert_eq!(heard.take(), BTreeSet::from([name("a"), name("b")]));
        topology.replace(vec![mk_service("a")], Vec::new(), Vec::new());
        assert_eq!(heard.take(), BTreeSet::from([name("a")]));
        assert_eq!(topology.revoked().names().count(), 2, "what is declared changes nothing of it");
        revoke(&["a.default"]);
        assert_eq!(heard.take(), BTreeSet::from([name("b")]));
        revoke(&["a.default"]);
        assert!(heard.take().is_empty());
    }

    #[test]
    fn a_replacement_names_only_what_differs() {
        let topology = MemoryTopology::default();
        let services = || vec![mk_service("a"), mk_service("b"), mk_service("c")];
        topology.replace(services(), vec![mk_split("s", "a"), mk_split("t", "b")], Vec::new());
        let mut heard = topology.announcements();
        topology.replace(services(), vec![mk_split("s", "c"), mk_split("t", "b")], Vec::new());
        assert_eq!(heard.take(), BTreeSet::from([name("a"), name("c")]));
        topology.replace(services(), vec![mk_split("s", "c"), mk_split("t", "b")], Vec::new());
        assert!(heard.take().is_empty());
        topology.replace(vec![mk_service("a")], Vec::new(), Vec::new());
        assert_eq!(heard.take(), BTreeSet::from([name("b"), name("c")]));
    }
}
