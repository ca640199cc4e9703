//! Who is connected to this server with a certificate, for as long as they are.
use orrery_pki::Identity;
use parking_lot::Mutex;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Clones share what they know. It holds one entry for each connection, and those are limited.
#[derive(Clone, Debug, Default)]
pub struct Present {
    known: Arc<Mutex<Known>>,
}

#[derive(Debug, Default)]
struct Known {
    next: u64,
    there: BTreeMap<u64, Identity>,
}

/// Somebody is there until this is dropped.
#[derive(Debug)]
pub struct Stay {
    present: Present,
    number: u64,
}

impl Drop for Stay {
    fn drop(&mut self) {
        self.present.known.lock().there.remove(&self.number);
    }
}

impl Present {
    pub fn enter(&self, identity: &Identity) -> Stay {
        let mut known = self.known.lock();
        let number = known.next;
        known.next += 1;
        known.there.insert(number, identity.clone());
        Stay { present: self.clone(), number }
    }

    /// The names of those whose certificates are all of this sort. Whoever has renewed theirs may still
    /// have a connection with the old one.
    pub fn only(&self, of_this_sort: impl Fn(&Identity) -> bool) -> BTreeSet<String> {
        let known = self.known.lock();
        let (mut these, mut others) = (BTreeSet::new(), BTreeSet::new());
        for identity in known.there.values() {
            let side = if of_this_sort(identity) { &mut these } else { &mut others };
            side.insert(name(identity));
        }
        these.difference(&others).cloned().collect()
    }
}

/// As people know it: `agent/edge-1`.
pub(crate) fn name(identity: &Identity) -> String {
    match (identity.role(), identity.name(), &identity.common_name) {
        (Some(role), Some(name), _) => format!("{role}/{name}"),
        (_, _, Some(name)) => name.clone(),
        (_, _, None) => format!("certificate {}", identity.serial),
    }
}
