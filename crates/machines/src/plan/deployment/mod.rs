//! A deployment: a number of machines that follow their class, exchanged a few at a time.
//!
//! ```text
//!   existing machines, terminating ones included   <= replicas + maxSurge        (the limit)
//!   available machines, as far as it is up to us   >= replicas - maxUnavailable  (the floor)
//! ```
//!
//! Sets of older classes only ever shrink, the set of the class as it is now takes all growth, and
//! each set gets a ceiling; the ceilings together are never above the limit. See the module above
//! for the two rules that make this hold at every moment.
mod ledger;
mod paused;

#[cfg(test)]
mod tests;

use super::set::MachineView;
use super::{Bound, Reason};
use ledger::Ledger;

/// What is wanted of a deployment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeploymentSpec {
    pub replicas: u32,
    pub max_surge: Bound,
    pub max_unavailable: Bound,
    /// Scaling goes on, exchanging does not.
    pub paused: bool,
    /// Nothing changes.
    pub frozen: bool,
    /// Of the class and the template as they are now.
    pub hash: String,
    /// Empty sets of older classes that are kept to roll back to.
    pub history_limit: usize,
}

impl DeploymentSpec {
    /// How many machines may exist at once.
    pub fn limit(&self) -> u32 {
        self.replicas.saturating_add(self.max_surge.rounded_up(self.replicas))
    }

    /// How many machines must be available before another is taken away.
    pub fn floor(&self) -> u32 {
        self.replicas.saturating_sub(self.unavailable())
    }

    /// With no room on either side nothing could ever move; then one may be unavailable.
    fn unavailable(&self) -> u32 {
        let unavailable = self.max_unavailable.rounded_down(self.replicas);
        if self.max_surge.rounded_up(self.replicas) == 0 { unavailable.max(1) } else { unavailable }
    }
}

/// A set of the deployment, with its machines.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SetView {
    pub name: String,
    pub hash: String,
    /// The higher, the later this class was the wanted one.
    pub revision: u64,
    pub replicas: u32,
    pub ceiling: u32,
    pub machines: Vec<MachineView>,
}

/// The set of a class that has none yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewSet {
    pub hash: String,
    pub revision: u64,
    pub replicas: u32,
    pub ceiling: u32,
}

/// A change of a set's spec.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SetChange {
    pub name: String,
    pub revision: u64,
    pub replicas: u32,
    pub ceiling: u32,
    /// Why the replicas change; a ceiling alone needs no word.
    pub reason: Option<Reason>,
}

/// How far the deployment is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    pub existing: u32,
    pub updated: u32,
    pub available: u32,
    /// All are of the class as it is now, and available.
    pub complete: bool,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeploymentPlan {
    pub create: Option<NewSet>,
    pub change: Vec<SetChange>,
    /// Empty sets beyond the history limit.
    pub remove: Vec<String>,
    pub progress: Progress,
    pub reasons: Vec<Reason>,
}

/// What a deployment should do now. All of the plan belongs in one commit.
pub fn plan(spec: &DeploymentSpec, sets: &[SetView]) -> DeploymentPlan {
    let mut plan = DeploymentPlan { progress: progress(spec, sets), ..Default::default() };
    if spec.frozen {
        plan.reasons.push(Reason::new("Frozen", "nothing changes while frozen"));
        return plan;
    }
    let mut ledger = Ledger::new(spec, sets);
    if spec.paused {
        plan.reasons.push(Reason::new("Paused", "machines are not exchanged while paused"));
        paused::scale(&mut ledger);
    } else {
        ledger.restore();
        ledger.shrink_current();
        ledger.shrink_older();
        ledger.grow_current();
    }
    ledger.write(&mut plan);
    if !spec.paused {
        plan.remove = forgotten(spec, sets);
    }
    plan
}

/// The set to roll back to: the one with this revision, or the latest before the current.
pub fn rollback<'a>(
    spec: &DeploymentSpec,
    sets: &'a [SetView],
    to: Option<u64>,
) -> Result<&'a SetView, Reason> {
    let older = sets.iter().filter(|it| it.hash != spec.hash);
    let found = match to {
        Some(revision) => sets.iter().find(|it| it.revision == revision),
        None => older.max_by_key(|it| it.revision),
    };
    found.ok_or_else(|| {
        let known: Vec<String> = sets.iter().map(|it| it.revision.to_string()).collect();
        let known = known.join(", ");
        Reason::new("NoSuchRevision", format!("there is nothing to roll back to; known: {known}"))
    })
}

fn progress(spec: &DeploymentSpec, sets: &[SetView]) -> Progress {
    let count = |of: &dyn Fn(&SetView, &MachineView) -> bool| {
        let all = sets.iter().flat_map(|set| set.machines.iter().map(move |it| (set, it)));
        let counted = all.filter(|(set, it)| !it.is_kept() && of(set, it)).count();
        u32::try_from(counted).unwrap_or(u32::MAX)
    };
    let existing = count(&|_, _| true);
    let updated = count(&|set, it| set.hash == spec.hash && !it.deleting);
    let available = count(&|_, it| it.available && !it.deleting);
    let wanted = spec.replicas;
    let complete = existing == wanted && updated == wanted && available == wanted;
    Progress { existing, updated, available, complete }
}

fn forgotten(spec: &DeploymentSpec, sets: &[SetView]) -> Vec<String> {
    let empty = |it: &&SetView| it.hash != spec.hash && it.replicas == 0 && it.machines.is_empty();
    let mut old: Vec<&SetView> = sets.iter().filter(empty).collect();
    old.sort_by_key(|it| std::cmp::Reverse(it.revision));
    old.into_iter().skip(spec.history_limit).map(|it| it.name.clone()).collect()
}
