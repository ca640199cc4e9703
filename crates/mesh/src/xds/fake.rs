//! A view and resources for tests.
use super::{Kind, Resource, View};
use bytes::Bytes;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The version of every stand-in.
pub const STAND_IN: u64 = u64::MAX / 2;

#[derive(Clone, Debug, Default)]
pub struct FakeView {
    pub resources: BTreeMap<(Kind, Arc<str>), Arc<Resource>>,
}

impl FakeView {
    pub fn put(&mut self, kind: Kind, name: &str, version: u64) {
        let resource = Resource { name: name.into(), version, any: Bytes::new() };
        self.resources.insert((kind, name.into()), Arc::new(resource));
    }

    pub fn remove(&mut self, kind: Kind, name: &str) {
        self.resources.remove(&(kind, name.into()));
    }

    pub fn version(&self, kind: Kind, name: &str) -> Option<u64> {
        self.get(kind, name).map(|resource| resource.version)
    }
}

impl View for FakeView {
    fn get(&self, kind: Kind, name: &str) -> Option<Arc<Resource>> {
        self.resources.get(&(kind, name.into())).cloned()
    }

    fn names(&self, kind: Kind) -> Vec<Arc<str>> {
        let of_kind = self.resources.keys().filter(|(one, _)| *one == kind);
        of_kind.map(|(_, name)| Arc::clone(name)).collect()
    }
    fn has_endpoints(&self, _cluster: &str) -> bool {
        true
    }

    /// Unlike any that was declared.
    fn stand_in(&self, cluster: &str) -> Option<Arc<Resource>> {
        let (name, version) = (cluster.into(), STAND_IN);
        Some(Arc::new(Resource { name, version, any: Bytes::new() }))
    }
}
