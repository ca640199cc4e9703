//! Which copies leave the nodes that are to be emptied: pure.
//!
//! A copy that leaves is missing until its replacement elsewhere can do its work. So they leave one
//! after the other, as many at once as may be missing, together with all that are missing anyway.
use orrery_hub::ObjectName;
use orrery_proto::apps::v1::WorkloadInstance;
use parking_lot::Mutex;
use prost_types::Timestamp;
use std::collections::{BTreeSet, HashMap};

/// A copy that is meant to be there.
#[derive(Clone, Copy, Debug)]
pub struct Standing<'a> {
    pub name: &'a str,
    /// Its node is to be emptied.
    pub to_leave: bool,
    /// It can do its work.
    pub available: bool,
}

/// The names of the copies that leave now; `desired` is how many there should be.
pub fn evicted(
    max_unavailable: usize,
    desired: usize,
    copies: &[Standing<'_>],
) -> BTreeSet<String> {
    let available = copies.iter().filter(|copy| copy.available).count();
    let mut budget = max_unavailable.saturating_sub(desired.saturating_sub(available));
    let mut leaving = BTreeSet::new();
    for copy in copies.iter().filter(|copy| copy.to_leave) {
        if copy.available {
            if budget == 0 {
                continue;
            }
            budget -= 1;
        }
        leaving.insert(copy.name.to_owned());
    }
    leaving
}

/// Copies that were told to go, until the watch over copies shows it: a plan that does not know would
/// send others after them.
#[derive(Debug, Default)]
pub struct Told {
    by_workload: Mutex<HashMap<ObjectName, BTreeSet<String>>>,
}

impl Told {
    /// This copy of a workload has been told to go.
    pub fn note(&self, workload: &ObjectName, copy: &str) {
        let mut told = self.by_workload.lock();
        told.entry(workload.clone()).or_default().insert(copy.to_owned());
    }

    /// A workload is no more.
    pub fn forget(&self, workload: &ObjectName) {
        self.by_workload.lock().remove(workload);
    }

    /// Marks what was told and does not show yet, and forgets what does.
    pub fn mark(&self, workload: &ObjectName, copies: &mut [WorkloadInstance], now: Timestamp) {
        let mut told = self.by_workload.lock();
        let Some(names) = told.get_mut(workload) else { return };
        let mut hidden = BTreeSet::new();
        for metadata in copies.iter_mut().filter_map(|copy| copy.metadata.as_mut()) {
            if metadata.deletion_timestamp.is_none() && names.contains(&metadata.name) {
                metadata.deletion_timestamp = Some(now);
                hidden.insert(metadata.name.clone());
            }
        }
        if hidden.is_empty() {
            told.remove(workload);
        } else {
            *names = hidden;
        }
    }
}

#[cfg(test)]
mod tests;
