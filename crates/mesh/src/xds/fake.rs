//! A view and resources for tests.
use super::{Kind, Resource, View};
use bytes::Bytes;
use std::collections::BTreeMap;
use std::sync::Arc;

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
}
