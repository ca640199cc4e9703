//! The books of one plan: for each set its target, and what would be left if it were reached.
use super::{DeploymentPlan, DeploymentSpec, NewSet, SetChange, SetView};
use crate::plan::Reason;
use crate::plan::set::deletion_order;

pub(super) struct Account {
    /// Where in the input; the set that does not exist yet has no place.
    index: Option<usize>,
    revision: u64,
    before: u32,
    pub target: u32,
    /// Machines that are not on their way out.
    pub active: u32,
    /// All machines.
    existing: u32,
    /// `left[n]`: how many are available once all but `n` active machines are deleted.
    left: Vec<u32>,
    reason: Option<Reason>,
}

impl Account {
    fn of(index: usize, set: &SetView) -> Self {
        let order = deletion_order(&set.machines);
        let mut left = vec![0; order.len() + 1];
        for (kept, machine) in order.iter().rev().enumerate() {
            left[kept + 1] = left[kept] + u32::from(machine.available);
        }
        let existing = set.machines.iter().filter(|it| !it.is_kept()).count();
        Self {
            index: Some(index),
            revision: set.revision,
            before: set.replicas,
            target: set.replicas,
            active: count(order.len()),
            existing: count(existing),
            left,
            reason: None,
        }
    }

    fn of_new(revision: u64) -> Self {
        Self {
            index: None,
            revision,
            before: 0,
            target: 0,
            active: 0,
            existing: 0,
            left: vec![0],
            reason: None,
        }
    }

    /// Available machines once the set has shrunk to its target.
    pub fn available(&self) -> u32 {
        self.available_at(self.target)
    }

    fn available_at(&self, target: u32) -> u32 {
        self.left[target.min(self.active) as usize]
    }

    /// The target that it had before this plan.
    pub fn started_from(&self) -> u32 {
        self.before
    }

    /// Whether lowering the target by one takes an available machine away.
    pub fn next_is_available(&self) -> bool {
        self.target > 0 && self.available_at(self.target - 1) < self.available()
    }

    pub fn set_target(&mut self, target: u32, reason: impl FnOnce() -> Reason) {
        if self.target != target {
            self.target = target;
            self.reason = Some(reason());
        }
    }
}

fn count(number: usize) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

pub(super) struct Ledger<'a> {
    pub spec: &'a DeploymentSpec,
    sets: &'a [SetView],
    /// The current set first, then the older ones from the oldest on. While paused there may be no
    /// current one.
    pub accounts: Vec<Account>,
    pub has_current: bool,
}

impl<'a> Ledger<'a> {
    pub fn new(spec: &'a DeploymentSpec, sets: &'a [SetView]) -> Self {
        let latest = sets.iter().map(|it| it.revision).max().unwrap_or(0);
        let mut accounts: Vec<Account> = Vec::new();
        let current = sets.iter().position(|it| it.hash == spec.hash);
        match current {
            Some(index) => {
                let mut account = Account::of(index, &sets[index]);
                // After a rollback an old class is the latest again.
                if account.revision != latest {
                    account.revision = latest + 1;
                }
                accounts.push(account);
            }
            None if !spec.paused => accounts.push(Account::of_new(latest + 1)),
            None => {}
        }
        let has_current = !accounts.is_empty();
        let mut older: Vec<usize> = (0..sets.len()).filter(|it| Some(*it) != current).collect();
        older.sort_by_key(|it| sets[*it].revision);
        accounts.extend(older.into_iter().map(|index| Account::of(index, &sets[index])));
        Self { spec, sets, accounts, has_current }
    }

    pub fn available(&self) -> u32 {
        self.accounts.iter().map(Account::available).sum()
    }

    pub fn targets(&self) -> u32 {
        self.accounts.iter().map(|it| it.target).sum()
    }

    fn existing(&self) -> u32 {
        self.accounts.iter().map(|it| it.existing).sum()
    }

    /// Takes back what was to be deleted and is not yet: of the current set whatever is wanted after
    /// all, of older ones what is needed because availability fell meanwhile.
    pub fn restore(&mut self) {
        let (floor, wanted) = (self.spec.floor(), self.spec.replicas);
        let current = &mut self.accounts[0];
        let target = current.target.max(current.active.min(wanted));
        current.set_target(target, || Reason::new("TakenBack", format!("{wanted} are wanted")));
        let mut available = self.available();
        for account in self.accounts.iter_mut().skip(1) {
            while available < floor && account.available() < account.available_at(account.active) {
                let before = account.available();
                let target = account.target + 1;
                account.set_target(target, || {
                    Reason::new("TakenBack", "too few machines are available to delete it now")
                });
                available += account.available() - before;
            }
        }
    }

    /// The current set has more than are wanted in all.
    pub fn shrink_current(&mut self) {
        let (floor, wanted) = (self.spec.floor(), self.spec.replicas);
        let mut available = self.available();
        let current = &mut self.accounts[0];
        while current.target > wanted {
            let lost = u32::from(current.next_is_available());
            if lost > 0 && available <= floor {
                return;
            }
            available -= lost;
            let target = current.target - 1;
            current
                .set_target(target, || Reason::new("ScaledDown", format!("{wanted} are wanted")));
        }
    }

    /// Takes away of the older sets what may go now.
    pub fn shrink_older(&mut self) {
        let mut before = u32::MAX;
        while self.targets() < before {
            before = self.targets();
            self.drop_unavailable();
            self.drop_available();
        }
    }

    /// Machines of older classes that are of no use go first, as long as those that are left, and
    /// those of the current class that are not there yet, are enough.
    fn drop_unavailable(&mut self) {
        let current = &self.accounts[0];
        let coming = current.target - current.available().min(current.target);
        let needed = self.spec.floor() + coming;
        let mut spare = self.targets().saturating_sub(needed);
        for account in self.accounts.iter_mut().skip(1) {
            while spare > 0 && account.target > 0 && !account.next_is_available() {
                spare -= 1;
                let target = account.target - 1;
                account.set_target(target, || {
                    Reason::new("RollingUpdate", "not available, and of an older class")
                });
            }
        }
    }

    /// Machines of older classes go while more are available than must be.
    fn drop_available(&mut self) {
        let floor = self.spec.floor();
        let mut available = self.available();
        for account in self.accounts.iter_mut().skip(1) {
            while account.target > 0 && account.next_is_available() && available > floor {
                available -= 1;
                let target = account.target - 1;
                account.set_target(target, || {
                    Reason::new(
                        "RollingUpdate",
                        format!("of an older class; {available} others are available"),
                    )
                });
            }
        }
    }

    /// The current set grows into the room that is left under the limit, which what it has itself
    /// and what is on its way out take up as well.
    pub fn grow_current(&mut self) {
        let (limit, wanted) = (self.spec.limit(), self.spec.replicas);
        let older = &self.accounts[1..];
        let taken: u32 = older.iter().map(|it| it.target.max(it.existing)).sum();
        let current = &mut self.accounts[0];
        let room = limit.saturating_sub(taken).saturating_sub(current.existing);
        let reachable = current.active.saturating_add(room).min(wanted);
        let target = reachable.max(current.target);
        current.set_target(target, || {
            Reason::new("RollingUpdate", format!("{wanted} are wanted, {limit} may exist at once"))
        });
    }

    /// The ceilings: what exists, and on top of it a share of what may still be created. Above the
    /// limit nobody creates anything.
    fn ceilings(&self) -> Vec<u32> {
        let (limit, existing) = (self.spec.limit(), self.existing());
        if existing > limit {
            return vec![0; self.accounts.len()];
        }
        let mut spare = limit - existing;
        let mut ceilings: Vec<u32> = self.accounts.iter().map(|it| it.existing).collect();
        for (ceiling, account) in ceilings.iter_mut().zip(&self.accounts) {
            let granted = spare.min(account.target.saturating_sub(account.active));
            *ceiling += granted;
            spare -= granted;
        }
        // The rest lets the largest set replace a failed machine without waiting for its end.
        let largest = (0..ceilings.len()).max_by_key(|it| self.accounts[*it].target);
        if let Some(largest) = largest {
            ceilings[largest] += spare;
        }
        ceilings
    }

    pub fn write(self, plan: &mut DeploymentPlan) {
        let ceilings = self.ceilings();
        for (account, ceiling) in self.accounts.into_iter().zip(ceilings) {
            let Account { index, revision, target: replicas, before, reason, .. } = account;
            let Some(index) = index else {
                let hash = self.spec.hash.clone();
                plan.create = Some(NewSet { hash, revision, replicas, ceiling });
                continue;
            };
            let set = &self.sets[index];
            let same = (set.replicas, set.ceiling, set.revision) == (replicas, ceiling, revision);
            if !same {
                let reason = if before == replicas { None } else { reason };
                let name = set.name.clone();
                plan.change.push(SetChange { name, revision, replicas, ceiling, reason });
            }
        }
    }
}
