//! Which machines concern what: an index over several names at once, and who wants to hear of them.
use crate::drivers::DriverKey;
use orrery_hub::ObjectName;
use orrery_runtime::KeyQueue;
use parking_lot::RwLock;
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// What a machine has to do with.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Relation {
    Class(ObjectName),
    /// By identity.
    Set(String),
    /// A node that is or may become its own.
    Node(String),
    Project(String),
}

#[derive(Debug, Default)]
pub struct Related {
    by: RwLock<HashMap<Relation, BTreeSet<ObjectName>>>,
}

impl Related {
    pub fn machines(&self, relation: &Relation) -> Vec<ObjectName> {
        self.by.read().get(relation).into_iter().flatten().cloned().collect()
    }

    /// A machine had these relations and has those now.
    pub fn update(&self, machine: &ObjectName, old: &[Relation], new: &[Relation]) {
        let mut by = self.by.write();
        for relation in old.iter().filter(|it| !new.contains(it)) {
            if let Some(machines) = by.get_mut(relation) {
                machines.remove(machine);
                if machines.is_empty() {
                    by.remove(relation);
                }
            }
        }
        for relation in new.iter().filter(|it| !old.contains(it)) {
            by.entry(relation.clone()).or_default().insert(machine.clone());
        }
    }
}

/// Those who take care of machines at the moment.
#[derive(Default)]
pub struct Listeners {
    next: AtomicU64,
    all: RwLock<HashMap<u64, Listener>>,
}

struct Listener {
    /// Only machines of this driver; all without.
    key: Option<DriverKey>,
    queue: KeyQueue<ObjectName>,
}

/// Hears of machines until it is dropped.
pub struct Listening {
    id: u64,
    listeners: Arc<Listeners>,
}

impl Drop for Listening {
    fn drop(&mut self) {
        self.listeners.all.write().remove(&self.id);
    }
}

impl Listeners {
    pub fn listen(
        self: &Arc<Self>,
        key: Option<DriverKey>,
        queue: KeyQueue<ObjectName>,
    ) -> Listening {
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        self.all.write().insert(id, Listener { key, queue });
        Listening { id, listeners: self.clone() }
    }

    /// Something about a machine changed. `key` is the driver of its class, where that is known.
    pub fn tell(&self, key: Option<&DriverKey>, machine: &ObjectName) {
        for listener in self.all.read().values() {
            if listener.key.is_none() || listener.key.as_ref() == key {
                listener.queue.add(machine.clone());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_index_follows() {
        let related = Related::default();
        let name = ObjectName::new("p", "m");
        let node = |text: &str| Relation::Node(text.into());
        related.update(&name, &[], &[node("a"), node("b")]);
        related.update(&name, &[node("a"), node("b")], &[node("b"), node("c")]);
        let counts = ["a", "b", "c"].map(|text| related.machines(&node(text)).len());
        assert_eq!(counts, [0, 1, 1]);
        assert_eq!(related.machines(&node("c")), [name]);
    }
}
