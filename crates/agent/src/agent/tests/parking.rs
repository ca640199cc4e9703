//! A map that several tasks may use.
use std::{collections::BTreeMap, sync::Mutex};

pub(super) struct Parking<K, V>(Mutex<BTreeMap<K, V>>);

impl<K: Ord, V: Clone> Parking<K, V> {
    pub(super) fn put(&self, key: K, value: V) {
        self.0.lock().unwrap().insert(key, value);
    }

    pub(super) fn get(&self, key: &K) -> Option<V> {
        self.0.lock().unwrap().get(key).cloned()
    }
}

impl<K, V> Default for Parking<K, V> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}
