//! The endpoints of every service somebody asked for, each encoded once.
use crate::address::Endpoint;
use crate::catalog::Catalog;
use crate::envoy::load_assignment;
use crate::names::ServiceName;
use crate::xds::Resource;
use parking_lot::RwLock;
use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

/// A service is called by its whole name, and by the short one within its project. The assignment
/// carries the name it was asked by, so there are up to two of them; the second is made when it is
/// asked for.
struct Entry {
    endpoints: Arc<[Endpoint]>,
    whole: Arc<Resource>,
    short: OnceLock<Arc<Resource>>,
}

impl Entry {
    fn of(catalog: &dyn Catalog, service: &ServiceName) -> Self {
        let endpoints = catalog.endpoints_of(service);
        let whole = Arc::new(load_assignment(&service.shared(), &endpoints));
        Self { endpoints, whole, short: OnceLock::new() }
    }

    fn short(&self, service: &ServiceName) -> &Arc<Resource> {
        let make = || Arc::new(load_assignment(&service.name().into(), &self.endpoints));
        self.short.get_or_init(make)
    }
}

#[derive(Default)]
pub struct Table {
    entries: RwLock<HashMap<ServiceName, Entry>>,
}

impl Table {
    /// The assignment of a service under the name it was asked by.
    ///
    /// The catalog is read under the lock: a change after that reading is announced after it, and
    /// the refresh that follows finds the entry. So an entry is never older than the announcements.
    pub fn get(&self, catalog: &dyn Catalog, service: &ServiceName, asked: &str) -> Arc<Resource> {
        let pick = |entry: &Entry| {
            let is_whole = asked == service.as_str();
            Arc::clone(if is_whole { &entry.whole } else { entry.short(service) })
        };
        if let Some(entry) = self.entries.read().get(service) {
            return pick(entry);
        }
        let mut entries = self.entries.write();
        pick(entries.entry(service.clone()).or_insert_with(|| Entry::of(catalog, service)))
    }

    /// Reads the catalog again; true if the endpoints differ from what went out before.
    pub fn refresh(&self, catalog: &dyn Catalog, service: &ServiceName) -> bool {
        let mut entries = self.entries.write();
        let Some(entry) = entries.get_mut(service) else { return false };
        let fresh = Entry::of(catalog, service);
        let changed = fresh.whole.version != entry.whole.version;
        if changed {
            *entry = fresh;
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
