//! What the leader itself wrote last, set by set: a plan waits until the view shows it.
//!
//! Views tell of sets and of machines separately. Between a step of a set and the moment at which both
//! views show it, a plan would count machines wrongly, although the set's revision is the latest.
use orrery_hub::{ObjectName, Revision};
use orrery_proto::infra::v1::Machine;
use orrery_runtime::View;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::Arc;

/// What one plan of a set wrote.
#[derive(Clone, Debug, Default)]
pub struct Step {
    /// `None` while it is being written; then one that none of it is after.
    pub revision: Option<Revision>,
    pub created: Vec<ObjectName>,
    pub deleted: Vec<ObjectName>,
}

#[derive(Clone, Default)]
pub struct Steps {
    last: Arc<Mutex<HashMap<ObjectName, Step>>>,
}

impl Steps {
    /// The writes begin. What they will have done is not known until they end.
    pub fn begin(&self, set: &ObjectName, step: Step) {
        self.last.lock().insert(set.clone(), step);
    }

    /// The writes ended, none of them after this revision. Only what was done is waited for.
    pub fn end(&self, set: &ObjectName, revision: Revision, done: impl Fn(&ObjectName) -> bool) {
        if let Some(step) = self.last.lock().get_mut(set) {
            step.created.retain(&done);
            step.deleted.retain(&done);
            step.revision = Some(revision);
        }
    }

    /// Whether the view shows all that was done to a set.
    pub fn is_shown(&self, set: &ObjectName, machines: &View<Machine>) -> bool {
        let Some(step) = self.last.lock().get(set).cloned() else { return true };
        let Some(revision) = step.revision else { return false };
        let going = |name| machines.get(name).is_none_or(|it| super::refs::is_going(&it.metadata));
        // Whatever came after it comes after all of it.
        revision < machines.reached()
            || (step.created.iter().all(|name| machines.get(name).is_some())
                && step.deleted.iter().all(going))
    }

    pub fn forget(&self, set: &ObjectName) {
        self.last.lock().remove(set);
    }
}
