//! Every storage of a server, found by its name while it runs.
use crate::accessor::Accessor;
use crate::cache::Cache;
use crate::options::ObjectName;
use orrery_api::Kind;
use std::sync::Arc;

/// A kind that another service keeps: where, how to reach it, and what is kept of it here.
pub struct Upstream {
    /// Where it is, for people.
    pub address: String,
    pub accessor: Arc<dyn Accessor>,
    pub cache: Option<Arc<Cache>>,
}

/// Where the objects of one kind are.
#[derive(Clone)]
pub struct Storage {
    pub(crate) accessor: Arc<dyn Accessor>,
    pub(crate) elsewhere: Option<Arc<Upstream>>,
}

impl Storage {
    pub fn kind(&self) -> &Arc<Kind> {
        self.accessor.kind()
    }

    /// What it is found by: the plural of its kind.
    pub fn name(&self) -> &str {
        self.kind().plural()
    }

    pub fn accessor(&self) -> &Arc<dyn Accessor> {
        &self.accessor
    }

    /// The service that keeps its objects, if that is not this server's store.
    pub fn upstream(&self) -> Option<&Upstream> {
        self.elsewhere.as_deref()
    }

    /// Its cache groups, where it has some.
    pub fn cache(&self) -> Option<&Arc<Cache>> {
        self.upstream()?.cache.as_ref()
    }

    /// The upstream says that an object has changed.
    pub fn changed(&self, name: &ObjectName) {
        if let Some(cache) = self.cache() {
            cache.changed(name);
        }
    }

    /// Changes may have been missed.
    pub fn forget_all(&self) {
        if let Some(cache) = self.cache() {
            cache.forget_all();
        }
    }

    fn is_called(&self, name: &str) -> bool {
        self.name() == name || self.kind().qualified_plural() == name
    }
}

/// The one storage of a name; where two groups have a kind of one plural, the group belongs to the name.
pub(crate) fn find<'a>(
    storages: impl Iterator<Item = &'a Storage>,
    name: &str,
) -> Option<&'a Storage> {
    let mut found = storages.filter(|storage| storage.is_called(name));
    let first = found.next();
    if found.next().is_some() { None } else { first }
}
