//! Certificates that live in memory and can be rotated at any time.
use super::{CertificateBundle, SecretsProvider};
use crate::announce::{Announcements, Announcer};
use crate::names::ServiceName;
use parking_lot::RwLock;
use std::collections::BTreeMap;

/// Whoever issues certificates writes here; tests do too.
#[derive(Default)]
pub struct MemorySecrets {
    bundles: RwLock<BTreeMap<ServiceName, CertificateBundle>>,
    announcer: Announcer<ServiceName>,
}

impl MemorySecrets {
    pub fn set(&self, service: &ServiceName, bundle: CertificateBundle) {
        let old = self.bundles.write().insert(service.clone(), bundle.clone());
        self.announcer.announce((old != Some(bundle)).then(|| service.clone()));
    }

    pub fn remove(&self, service: &ServiceName) {
        let old = self.bundles.write().remove(service);
        self.announcer.announce(old.map(|_| service.clone()));
    }
}

impl SecretsProvider for MemorySecrets {
    fn certificate(&self, service: &ServiceName) -> Option<CertificateBundle> {
        self.bundles.read().get(service).cloned()
    }

    fn announcements(&self) -> Announcements<ServiceName> {
        self.announcer.listen()
    }
}
