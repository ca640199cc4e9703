//! Proxies that are to have the same config.
use super::StreamId;
use super::prepared::{Origin, Prepared};
use super::sides::GroupKey;
use super::snapshot::Snapshot;
use crate::names::ProxyName;
use crate::xds::Mailbox;
use parking_lot::{Mutex, RwLock};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use tokio::time::Instant;

/// One group. Its streams read the snapshot without taking any lock of the others.
pub struct Group {
    pub key: GroupKey,
    snapshot: RwLock<Arc<Snapshot>>,
}

impl Group {
    pub fn snapshot(&self) -> Arc<Snapshot> {
        Arc::clone(&self.snapshot.read())
    }
}

struct Members {
    group: Arc<Group>,
    mailboxes: BTreeMap<StreamId, Arc<Mailbox>>,
}

impl Members {
    /// Builds the snapshot again and wakes the streams for the kinds in which it differs.
    fn rebuild(&self, prepared: &mut Prepared, origin: Origin<'_>, since: Instant) {
        let fresh = Arc::new(prepared.build(&self.group.key, origin));
        let before = std::mem::replace(&mut *self.group.snapshot.write(), Arc::clone(&fresh));
        let changed = fresh.changed_since(&before);
        if !changed.is_empty() {
            let mailboxes = self.mailboxes.values();
            mailboxes.for_each(|mailbox| mailbox.config_changed(&changed, since));
        }
    }
}

#[derive(Default)]
struct State {
    groups: HashMap<GroupKey, Members>,
    prepared: Option<Prepared>,
}

#[derive(Default)]
pub struct Groups {
    state: Mutex<State>,
}

impl Groups {
    /// The first of a group has its snapshot built, under the lock: a change after that reading is
    /// announced after it, and the rebuild that follows finds the group.
    pub fn join(
        &self,
        origin: Origin<'_>,
        key: GroupKey,
        id: StreamId,
        mailbox: &Arc<Mailbox>,
    ) -> Arc<Group> {
        if key.sides.is_some() {
            // The first to ask has it issued, which takes as long as all the rest and needs no lock. From here on
            // it is there.
            origin.catalog.certificate(&key.name);
        }
        let mut state = self.state.lock();
        let State { groups, prepared } = &mut *state;
        let members = groups.entry(key.clone()).or_insert_with(|| {
            let known = prepared.take();
            let prepared = prepared.insert(Prepared::renew(known, origin));
            let snapshot = Arc::new(prepared.build(&key, origin));
            let group = Arc::new(Group { key, snapshot: RwLock::new(snapshot) });
            Members { group, mailboxes: BTreeMap::new() }
        });
        members.mailboxes.insert(id, Arc::clone(mailbox));
        Arc::clone(&members.group)
    }

    pub fn leave(&self, key: &GroupKey, id: StreamId) {
        let mut state = self.state.lock();
        if let Some(members) = state.groups.get_mut(key) {
            members.mailboxes.remove(&id);
            if members.mailboxes.is_empty() {
                state.groups.remove(key);
            }
        }
    }

    /// Builds every group's snapshot again: something is declared differently.
    pub fn rebuild(&self, origin: Origin<'_>, since: Instant) {
        let mut state = self.state.lock();
        let State { groups, prepared } = &mut *state;
        let known = prepared.take();
        let prepared = prepared.insert(Prepared::renew(known, origin));
        groups.values().for_each(|members| members.rebuild(prepared, origin, since));
        prepared.tidy();
    }

    /// The same for proxies of these names only: their certificates were replaced, and that concerns nobody else.
    pub fn rebuild_named(&self, origin: Origin<'_>, names: &BTreeSet<ProxyName>, since: Instant) {
        let mut state = self.state.lock();
        let State { groups, prepared } = &mut *state;
        let known = prepared.take();
        let prepared = prepared.insert(Prepared::renew(known, origin));
        let meant = groups.values().filter(|members| names.contains(&members.group.key.name));
        meant.for_each(|members| members.rebuild(prepared, origin, since));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::announce::{Announcements, Announcer};
    use crate::catalog::{CatalogParts, ServiceCatalog};
    use crate::control::{Inbound, Sides};
    use crate::secrets::{CertificateBundle, SecretsProvider};
    use crate::topology::{MemoryTopology, Service, TrafficSettings};

    /// Issues when it is first asked for somebody, and may not be hurried then.
    struct Issuing {
        groups: Arc<Groups>,
        asked: Mutex<Vec<ProxyName>>,
    }

    impl SecretsProvider for Issuing {
        fn certificate(&self, proxy: &ProxyName) -> Option<CertificateBundle> {
            let mut asked = self.asked.lock();
            let is_first = !asked.contains(proxy);
            assert!(!(is_first && self.groups.state.is_locked()), "everybody waits for {proxy}");
            asked.push(proxy.clone());
            let text = format!("{proxy} {}", asked.len());
            let (certificate_chain, private_key, roots) = (text, String::new(), String::new());
            Some(CertificateBundle { certificate_chain, private_key, roots })
        }

        fn announcements(&self) -> Announcements<ProxyName> {
            Announcer::default().listen()
        }
    }

    struct World {
        groups: Arc<Groups>,
        secrets: Arc<Issuing>,
        topology: Arc<MemoryTopology>,
        catalog: Arc<ServiceCatalog>,
    }

    impl World {
        fn new() -> Self {
            let groups = Arc::new(Groups::default());
            let secrets = Arc::new(Issuing { groups: groups.clone(), asked: Mutex::default() });
            let topology = Arc::new(MemoryTopology::default());
            let catalog = ServiceCatalog::new(CatalogParts {
                topology: topology.clone(),
                providers: Vec::new(),
                secrets: secrets.clone(),
            });
            Self { groups, secrets, topology, catalog }
        }

        fn origin(&self) -> Origin<'_> {
            Origin { catalog: &*self.catalog, trust_domain: None }
        }

        fn join(&self, proxy: &str, id: u64) -> Arc<Group> {
            self.join_at(proxy, id, Sides::outbound(([127, 0, 0, 1], 1).into()))
        }

        fn join_at(&self, proxy: &str, id: u64, sides: Sides) -> Arc<Group> {
            let name: ProxyName = proxy.parse().unwrap();
            let key = GroupKey { service: name.service(), name, sides: Some(sides) };
            self.groups.join(self.origin(), key, StreamId(id), &Arc::default())
        }

        fn asked(&self) -> usize {
            self.secrets.asked.lock().len()
        }
    }

    #[test]
    fn certificates_are_issued_while_nobody_waits() {
        let world = World::new();
        for id in 0..3 {
            world.join(&format!("web.shop.i-{id}"), id);
        }
        assert!(3 <= world.asked());
    }

    #[test]
    fn a_certificate_concerns_the_proxies_of_its_name_and_nobody_else() {
        let world = World::new();
        let mine = world.join("web.shop.i-1", 1);
        let others: Vec<_> =
            (2..100).map(|id| world.join(&format!("web.shop.i-{id}"), id)).collect();
        let before = mine.snapshot();
        let of_others: Vec<_> = others.iter().map(|group| group.snapshot()).collect();
        let asked = world.asked();
        let names = ["web.shop.i-1".parse().unwrap(), "web.shop".parse().unwrap()].into();
        world.groups.rebuild_named(world.origin(), &names, Instant::now());
        assert!(!mine.snapshot().changed_since(&before).is_empty());
        assert_eq!(world.asked(), asked + 1);
        let is_left = others.iter().zip(&of_others);
        assert!(is_left.into_iter().all(|(group, was)| Arc::ptr_eq(&group.snapshot(), was)));
        world.groups.rebuild(world.origin(), Instant::now());
        assert_eq!(world.asked(), asked + 1 + 99, "what is declared concerns everybody");
    }

    /// Proxies say where they listen, and may say something else each time that they come.
    #[test]
    fn whoever_comes_and_goes_leaves_nothing_behind() {
        let world = World::new();
        world.topology.put_service(Service {
            name: "shop/web".parse().unwrap(),
            ports: vec!["80".into()],
            encrypted: true,
            traffic: TrafficSettings::default(),
            declared_s: 0,
        });
        let listening = |id: u16| {
            let at = |port| ([127, 0, 0, 1], port).into();
            let inbound = Inbound { port: None, listen: at(id), instance: at(1) };
            let sides = Sides { inbound: vec![inbound], ..Sides::outbound(at(2)) };
            world.join_at("web.shop", id.into(), sides)
        };
        let known = || world.groups.state.lock().prepared.as_ref().map_or(0, Prepared::known);
        let stay: Vec<_> = (1..200).map(listening).collect();
        assert!(stay.len() <= known());
        for id in 1000..3000 {
            world.groups.leave(&listening(id).key, StreamId(id.into()));
        }
        assert!(known() <= 2 * stay.len() + 2, "{}", known());
    }
}
