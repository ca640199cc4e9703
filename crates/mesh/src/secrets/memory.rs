//! Certificates that live in memory and can be rotated at any time.
use super::{CertificateBundle, SecretsProvider};
use crate::announce::{Announcements, Announcer};
use crate::names::ProxyName;
use parking_lot::RwLock;
use std::collections::BTreeMap;

/// Whoever issues certificates writes here; tests do too.
#[derive(Default)]
pub struct MemorySecrets {
    bundles: RwLock<BTreeMap<ProxyName, CertificateBundle>>,
    announcer: Announcer<ProxyName>,
}

impl MemorySecrets {
    pub fn set(&self, proxy: &ProxyName, bundle: CertificateBundle) {
        let old = self.bundles.write().insert(proxy.clone(), bundle.clone());
        self.announcer.announce((old != Some(bundle)).then(|| proxy.clone()));
    }

    pub fn remove(&self, proxy: &ProxyName) {
        let old = self.bundles.write().remove(proxy);
        self.announcer.announce(old.map(|_| proxy.clone()));
    }
}

impl SecretsProvider for MemorySecrets {
    fn certificate(&self, proxy: &ProxyName) -> Option<CertificateBundle> {
        self.bundles.read().get(proxy).cloned()
    }

    fn announcements(&self) -> Announcements<ProxyName> {
        self.announcer.listen()
    }
}
