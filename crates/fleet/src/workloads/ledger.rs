//! How much of each node is spoken for.
use super::placement::Amounts;
use orrery_hub::ObjectName;
use orrery_proto::apps::v1::{WorkloadInstance, WorkloadInstanceSpec};
use orrery_runtime::Change;
use parking_lot::Mutex;
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// What copies have asked of their nodes. It is fed by the watch over copies, and told of copies that
/// are about to be made: two workloads that are planned at once do not get the same room.
#[derive(Debug, Default)]
pub struct Ledger {
    books: Mutex<Books>,
    /// One plan at a time for workloads that ask for something.
    pub turn: tokio::sync::Mutex<()>,
}

#[derive(Debug, Default)]
struct Books {
    copies: HashMap<ObjectName, (String, Amounts)>,
    nodes: HashMap<String, Amounts>,
    /// Workloads with copies that found no place.
    starved: BTreeSet<ObjectName>,
}

impl Ledger {
    /// Takes in what became of a copy. Where room became free, those who wait for it are returned.
    pub fn take(&self, change: &Change<WorkloadInstance>) -> BTreeSet<ObjectName> {
        let asked = change.new.as_ref().and_then(|copy| copy.spec.as_ref()).map(asked);
        let mut books = self.books.lock();
        let freed = books.replace(&change.name, asked);
        if freed { books.starved.clone() } else { BTreeSet::new() }
    }

    /// A copy is about to be made.
    pub fn reserve(&self, name: &ObjectName, spec: &WorkloadInstanceSpec) {
        self.books.lock().replace(name, Some(asked(spec)));
    }

    /// It was not made after all.
    pub fn give_back(&self, name: &ObjectName) {
        self.books.lock().replace(name, None);
    }

    /// What copies on a node have asked for.
    pub fn used(&self, node: &str) -> Amounts {
        self.books.lock().nodes.get(node).copied().unwrap_or_default()
    }

    /// The same for all nodes.
    pub fn all(&self) -> BTreeMap<String, Amounts> {
        self.books.lock().nodes.iter().map(|(node, used)| (node.clone(), *used)).collect()
    }

    /// Notes whether a workload waits for room.
    pub fn starve(&self, workload: &ObjectName, starved: bool) {
        let mut books = self.books.lock();
        if starved {
            books.starved.insert(workload.clone());
        } else {
            books.starved.remove(workload);
        }
    }
}

impl Books {
    /// Whether a node has more room than before.
    fn replace(&mut self, name: &ObjectName, new: Option<(String, Amounts)>) -> bool {
        let old = match &new {
            Some(new) => self.copies.insert(name.clone(), new.clone()),
            None => self.copies.remove(name),
        };
        if old == new {
            return false;
        }
        let mut freed = false;
        if let Some((node, amounts)) = old {
            freed = amounts != Amounts::default();
            let used = self.nodes.entry(node.clone()).or_default();
            *used = used.minus(amounts);
            if *used == Amounts::default() {
                self.nodes.remove(&node);
            }
        }
        if let Some((node, amounts)) = new.filter(|(_, amounts)| *amounts != Amounts::default()) {
            let used = self.nodes.entry(node).or_default();
            *used = used.plus(amounts);
        }
        freed
    }
}

fn asked(spec: &WorkloadInstanceSpec) -> (String, Amounts) {
    (spec.node().to_owned(), Amounts::requested(spec.resources.as_ref()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use orrery_proto::apps::v1::{ResourceAmounts, Resources};
    use std::sync::Arc;

    fn copy(node: &str, cpu_millis: i64) -> Option<Arc<WorkloadInstance>> {
        let requests =
            ResourceAmounts { cpu_millis: Some(cpu_millis), ..ResourceAmounts::default() };
        let spec = WorkloadInstanceSpec {
            node: Some(node.into()),
            resources: Some(Resources { requests: Some(requests), limits: None }),
            ..WorkloadInstanceSpec::default()
        };
        Some(Arc::new(WorkloadInstance { spec: Some(spec), ..WorkloadInstance::default() }))
    }

    #[test]
    fn room_is_taken_once_and_who_waits_is_told_when_it_is_free() {
        let ledger = Ledger::default();
        let (name, waits) = (ObjectName::new("p", "a"), ObjectName::new("p", "big"));
        let change = |old, new| Change { name: name.clone(), old, new };
        ledger.reserve(&name, copy("n", 300).unwrap().spec.as_ref().unwrap());
        assert!(ledger.take(&change(None, copy("n", 300))).is_empty());
        assert_eq!(ledger.used("n").cpu_millis, 300, "what was reserved is not counted twice");
        ledger.starve(&waits, true);
        assert!(ledger.take(&change(copy("n", 300), copy("n", 300))).is_empty());
        assert_eq!(ledger.take(&change(copy("n", 300), copy("n", 100))), [waits.clone()].into());
        assert_eq!(ledger.take(&change(copy("n", 100), None)), [waits.clone()].into());
        assert!(ledger.all().is_empty());
        ledger.starve(&waits, false);
        ledger.reserve(&name, copy("n", 1).unwrap().spec.as_ref().unwrap());
        ledger.give_back(&name);
        assert!(ledger.books.lock().copies.is_empty() && ledger.books.lock().starved.is_empty());
    }
}
