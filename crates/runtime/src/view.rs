//! What a watch has told so far, by name and by index.
use orrery_hub::{ObjectName, Revision};
use parking_lot::RwLock;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

/// Says under which key of the index an object stands.
pub type IndexBy<T> = fn(&ObjectName, &T) -> Option<String>;

/// The objects of a kind as a watch last told them: typed, shared, never written by its readers.
#[derive(Debug)]
pub struct View<T> {
    index_by: Option<IndexBy<T>>,
    state: RwLock<State<T>>,
}

#[derive(Debug)]
struct State<T> {
    objects: BTreeMap<ObjectName, Arc<T>>,
    index: HashMap<String, BTreeSet<ObjectName>>,
    reached: Revision,
}

/// One change of a view.
#[derive(Clone, Debug)]
pub struct Change<T> {
    pub name: ObjectName,
    pub old: Option<Arc<T>>,
    pub new: Option<Arc<T>>,
}

impl<T> View<T> {
    pub fn new(index_by: Option<IndexBy<T>>) -> Self {
        let (objects, index) = (BTreeMap::new(), HashMap::new());
        let state = State { objects, index, reached: Revision::ZERO };
        Self { index_by, state: RwLock::new(state) }
    }

    pub fn get(&self, name: &ObjectName) -> Option<Arc<T>> {
        self.state.read().objects.get(name).cloned()
    }

    /// The objects that stand under one key of the index, in the order of their names.
    pub fn indexed(&self, key: &str) -> Vec<(ObjectName, Arc<T>)> {
        let state = self.state.read();
        let names = state.index.get(key).into_iter().flatten();
        names.filter_map(|name| Some((name.clone(), state.objects.get(name)?.clone()))).collect()
    }

    pub fn all(&self) -> Vec<(ObjectName, Arc<T>)> {
        let state = self.state.read();
        state.objects.iter().map(|(name, object)| (name.clone(), object.clone())).collect()
    }

    pub fn names(&self) -> BTreeSet<ObjectName> {
        self.state.read().objects.keys().cloned().collect()
    }

    pub fn len(&self) -> usize {
        self.state.read().objects.len()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The revision of the latest change that the watch has told. Others of the same revision may still
    /// be on their way; all older ones are here.
    pub fn reached(&self) -> Revision {
        self.state.read().reached
    }

    /// The watch has come so far.
    pub(crate) fn advance(&self, revision: Revision) {
        let mut state = self.state.write();
        state.reached = state.reached.max(revision);
    }

    /// Takes in what became of an object; only the reflector writes.
    pub(crate) fn set(&self, name: ObjectName, new: Option<Arc<T>>) -> Change<T> {
        let mut state = self.state.write();
        let old = match &new {
            Some(object) => state.objects.insert(name.clone(), object.clone()),
            None => state.objects.remove(&name),
        };
        if let Some(index_by) = self.index_by {
            let key = |object: &Option<Arc<T>>| object.as_ref().and_then(|o| index_by(&name, o));
            state.reindex(&name, key(&old), key(&new));
        }
        Change { name, old, new }
    }
}

impl<T> State<T> {
    fn reindex(&mut self, name: &ObjectName, old: Option<String>, new: Option<String>) {
        if old == new {
            return;
        }
        if let Some(old) = old
            && let Some(names) = self.index.get_mut(&old)
        {
            names.remove(name);
            if names.is_empty() {
                self.index.remove(&old);
            }
        }
        if let Some(new) = new {
            self.index.entry(new).or_default().insert(name.clone());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_index_follows_the_objects() {
        let view: View<String> = View::new(Some(|_, value| Some(value.clone())));
        let name = ObjectName::new("p", "a");
        view.set(name.clone(), Some(Arc::new("x".into())));
        view.set(ObjectName::new("p", "b"), Some(Arc::new("x".into())));
        assert_eq!(view.indexed("x").len(), 2);
        let change = view.set(name.clone(), Some(Arc::new("y".into())));
        assert_eq!(
            (change.old.as_deref(), change.new.as_deref()),
            (Some(&"x".into()), Some(&"y".into()))
        );
        assert_eq!((view.indexed("x").len(), view.indexed("y").len()), (1, 1));
        view.set(name, None);
        assert_eq!((view.len(), view.indexed("y").len()), (1, 0));
    }
}
