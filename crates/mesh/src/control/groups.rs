//! Proxies that are to have the same config.
use super::StreamId;
use super::prepared::{Origin, Prepared};
use super::sides::GroupKey;
use super::snapshot::Snapshot;
use crate::xds::Mailbox;
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
    prepared: Option<Prepared>,
}

#[derive(Default)]
pub struct Groups {
    state: Mutex<State>,
}

impl Groups {
    /// The first of a group has its snapshot built, under the lock: a change after that reading is
    /// announced after it, and the rebuild that follows finds the group.
    pub fn join(
        &self,
        origin: Origin<'_>,
        key: GroupKey,
        id: StreamId,
        mailbox: &Arc<Mailbox>,
    ) -> Arc<Group> {
        let mut state = self.state.lock();
        let State { groups, prepared } = &mut *state;
        let members = groups.entry(key.clone()).or_insert_with(|| {
            let known = prepared.take();
            let prepared = prepared.insert(Prepared::renew(known, origin));
            let snapshot = Arc::new(prepared.build(&key, origin));
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

    /// Builds every group's snapshot again and wakes the streams of those that differ, each for the kinds in
    /// which they do.
    pub fn rebuild(&self, origin: Origin<'_>, since: Instant) {
        let mut state = self.state.lock();
        let State { groups, prepared } = &mut *state;
        let known = prepared.take();
        let prepared = prepared.insert(Prepared::renew(known, origin));
        for (key, members) in groups.iter_mut() {
            let fresh = Arc::new(prepared.build(key, origin));
            let before =
                std::mem::replace(&mut *members.group.snapshot.write(), Arc::clone(&fresh));
            let changed = fresh.changed_since(&before);
            if !changed.is_empty() {
                let mailboxes = members.mailboxes.values();
                mailboxes.for_each(|mailbox| mailbox.config_changed(&changed, since));
            }
        }
        prepared.tidy();
    }
}
