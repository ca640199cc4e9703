//! Proxies that are to have the same config.
use super::StreamId;
use super::snapshot::{ClusterCache, GroupKey, Snapshot, Source};
use crate::xds::{Kind, Mailbox};
use parking_lot::{Mutex, RwLock};
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use tokio::time::Instant;

/// One group. Its streams read the snapshot without taking any lock of the others.
pub struct Group {
    pub key: GroupKey,
    snapshot: RwLock<Arc<Snapshot>>,
}

impl Group {
    pub fn snapshot(&self) -> Arc<Snapshot> {
        Arc::clone(&self.snapshot.read())
    }
}

struct Members {
    group: Arc<Group>,
    mailboxes: BTreeMap<StreamId, Arc<Mailbox>>,
}

#[derive(Default)]
struct State {
    groups: HashMap<GroupKey, Members>,
    clusters: ClusterCache,
}

#[derive(Default)]
pub struct Groups {
    state: Mutex<State>,
}

impl Groups {
    /// The first of a group has its snapshot built, under the lock: a change after that reading is
    /// announced after it, and the rebuild that follows finds the group.
    pub fn join<'a>(
        &self,
        source: impl FnOnce() -> Source<'a>,
        key: GroupKey,
        id: StreamId,
        mailbox: &Arc<Mailbox>,
    ) -> Arc<Group> {
        let mut state = self.state.lock();
        let State { groups, clusters } = &mut *state;
        let members = groups.entry(key.clone()).or_insert_with(|| {
            let snapshot = Arc::new(source().build(&key, clusters));
            let group = Arc::new(Group { key, snapshot: RwLock::new(snapshot) });
            Members { group, mailboxes: BTreeMap::new() }
        });
        members.mailboxes.insert(id, Arc::clone(mailbox));
        Arc::clone(&members.group)
    }

    pub fn leave(&self, key: &GroupKey, id: StreamId) {
        let mut state = self.state.lock();
        if let Some(members) = state.groups.get_mut(key) {
            members.mailboxes.remove(&id);
            if members.mailboxes.is_empty() {
                state.groups.remove(key);
            }
        }
    }

    /// Builds every group's snapshot again and wakes the streams of those that differ.
    pub fn rebuild<'a>(&self, source: impl FnOnce() -> Source<'a>, since: Instant) {
        let mut state = self.state.lock();
        let mut source = source();
        let State { groups, clusters } = &mut *state;
        for (key, members) in groups.iter_mut() {
            let fresh = source.build(key, clusters);
            if *members.group.snapshot() == fresh {
                continue;
            }
            *members.group.snapshot.write() = Arc::new(fresh);
            members.mailboxes.values().for_each(|mailbox| mailbox.config_changed(since));
        }
        let live: Vec<_> = groups.values().map(|members| members.group.snapshot()).collect();
        clusters.retain(|_, (_, resource)| {
            live.iter().any(|snapshot| has_cluster(snapshot, &resource.name))
        });
    }
}

fn has_cluster(snapshot: &Snapshot, name: &str) -> bool {
    let clusters = snapshot.resources.get(&Kind::Cluster);
    clusters.is_some_and(|all| all.contains_key(name))
}
