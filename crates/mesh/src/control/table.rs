//! The endpoints of everything somebody asked for, each encoded once.
use crate::address::Endpoint;
use crate::catalog::Catalog;
use crate::envoy::load_assignment;
use crate::names::{Destination, ServiceName};
use crate::xds::Resource;
use parking_lot::RwLock;
use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, OnceLock};

/// A port of a service is called by its whole name, and by the short one within its project. The
/// assignment carries the name it was asked by, so there are up to two of them; the second is made when
/// it is asked for.
struct Entry {
    endpoints: Arc<[Endpoint]>,
    whole: Arc<Resource>,
    short: OnceLock<Arc<Resource>>,
}

impl Entry {
    fn of(catalog: &dyn Catalog, at: &Destination) -> Self {
        let endpoints = catalog.endpoints_of(at);
        let whole = Arc::new(load_assignment(&at.shared(), &endpoints));
        Self { endpoints, whole, short: OnceLock::new() }
    }

    fn short(&self, at: &Destination) -> &Arc<Resource> {
        let make = || Arc::new(load_assignment(&at.short().into(), &self.endpoints));
        self.short.get_or_init(make)
    }
}

#[derive(Default)]
pub struct Table {
    entries: RwLock<HashMap<ServiceName, BTreeMap<Destination, Entry>>>,
}

impl Table {
    /// The assignment of a port of a service under the name it was asked by.
    ///
    /// The catalog is read under the lock: a change after that reading is announced after it, and
    /// the refresh that follows finds the entry. So an entry is never older than the announcements.
    pub fn get(&self, catalog: &dyn Catalog, at: &Destination, asked: &str) -> Arc<Resource> {
        let pick = |entry: &Entry| {
            let is_whole = *asked == *entry.whole.name;
            Arc::clone(if is_whole { &entry.whole } else { entry.short(at) })
        };
        if let Some(entry) = self.entries.read().get(&at.service).and_then(|ports| ports.get(at)) {
            return pick(entry);
        }
        let mut entries = self.entries.write();
        let ports = entries.entry(at.service.clone()).or_default();
        pick(ports.entry(at.clone()).or_insert_with(|| Entry::of(catalog, at)))
    }

    /// Reads the catalog again; returns those of a service's ports whose endpoints differ from what
    /// went out before.
    pub fn refresh(&self, catalog: &dyn Catalog, service: &ServiceName) -> Vec<Destination> {
        let mut entries = self.entries.write();
        let Some(ports) = entries.get_mut(service) else { return Vec::new() };
        let mut changed = Vec::new();
        for (at, entry) in ports {
            let fresh = Entry::of(catalog, at);
            if fresh.whole.version != entry.whole.version {
                *entry = fresh;
                changed.push(at.clone());
            }
        }
        changed
    }

    /// Nobody asks for these any more.
    pub fn forget(&self, services: &[ServiceName]) {
        if !services.is_empty() {
            let mut entries = self.entries.write();
            services.iter().for_each(|service| drop(entries.remove(service)));
        }
    }
}
