//! From a service to the streams that need its endpoints.
use super::StreamId;
use crate::names::ServiceName;
use crate::xds::Mailbox;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

/// Kept both ways, so that a stream leaves as quickly as it came.
#[derive(Default)]
pub struct Index {
    watchers: HashMap<ServiceName, BTreeMap<StreamId, Arc<Mailbox>>>,
    watched: HashMap<StreamId, BTreeSet<ServiceName>>,
}

impl Index {
    /// From now on the stream needs exactly these. Returns the services that nobody needs any more.
    pub fn set(
        &mut self,
        id: StreamId,
        mailbox: &Arc<Mailbox>,
        services: BTreeSet<ServiceName>,
    ) -> Vec<ServiceName> {
        let old = self.watched.remove(&id).unwrap_or_default();
        let gone: Vec<_> = old.difference(&services).cloned().collect();
        for service in services.difference(&old) {
            let watchers = self.watchers.entry(service.clone()).or_default();
            watchers.insert(id, Arc::clone(mailbox));
        }
        if !services.is_empty() {
            self.watched.insert(id, services);
        }
        gone.into_iter().filter(|service| self.forget(id, service)).collect()
    }

    /// The stream is gone. Returns the services that nobody needs any more.
    pub fn remove(&mut self, id: StreamId) -> Vec<ServiceName> {
        let gone = self.watched.remove(&id).unwrap_or_default();
        gone.into_iter().filter(|service| self.forget(id, service)).collect()
    }

    pub fn watchers(&self, service: &ServiceName) -> Vec<Arc<Mailbox>> {
        let watchers = self.watchers.get(service).into_iter();
        watchers.flat_map(BTreeMap::values).cloned().collect()
    }

    /// True if it was the last watcher.
    fn forget(&mut self, id: StreamId, service: &ServiceName) -> bool {
        let Some(watchers) = self.watchers.get_mut(service) else { return false };
        watchers.remove(&id);
        let was_last = watchers.is_empty();
        if was_last {
            self.watchers.remove(service);
        }
        was_last
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Whatever comes and goes, a service has exactly the watchers that asked for it last.
        #[test]
        fn both_ways_agree(
            steps in proptest::collection::vec(
                (0_u64..4, proptest::option::of(proptest::collection::btree_set(0_u8..5, 0..4))),
                0..40,
            )
        ) {
            let name = |number: u8| -> ServiceName { format!("s{number}").parse().unwrap() };
            let mut index = Index::default();
            let mut model: BTreeMap<u64, BTreeSet<u8>> = BTreeMap::new();
            for (id, services) in steps {
                match services {
                    Some(services) => {
                        let named = services.iter().copied().map(name).collect();
                        index.set(StreamId(id), &Arc::default(), named);
                        model.insert(id, services);
                    }
                    None => {
                        index.remove(StreamId(id));
                        model.remove(&id);
                    }
                }
                for service in 0..5 {
                    let expect = model.values().filter(|all| all.contains(&service)).count();
                    prop_assert_eq!(index.watchers(&name(service)).len(), expect);
                }
            }
            for id in model.keys() {
                index.remove(StreamId(*id));
            }
            prop_assert!(index.watchers.is_empty() && index.watched.is_empty());
        }
    }
}
