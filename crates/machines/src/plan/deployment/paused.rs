//! Scaling without exchanging: while paused, each set keeps its share.
use super::ledger::Ledger;
use crate::plan::Reason;

/// Brings the sum of all targets into what is wanted. One set alone gets exactly that; several, in
/// the middle of an exchange, keep the surge they have.
pub(super) fn scale(ledger: &mut Ledger<'_>) {
    let wanted = ledger.spec.replicas;
    while ledger.targets() < wanted {
        let Some(index) = smallest_share(ledger) else { return };
        change(ledger, index, 1);
    }
    while ledger.targets() > most(ledger) {
        let Some(index) = largest_share(ledger) else { return };
        change(ledger, index, -1);
    }
}

fn most(ledger: &Ledger<'_>) -> u32 {
    let users = ledger.accounts.iter().filter(|it| it.target > 0).count();
    if users > 1 { ledger.spec.limit() } else { ledger.spec.replicas }
}

fn change(ledger: &mut Ledger<'_>, index: usize, by: i32) {
    let wanted = ledger.spec.replicas;
    let account = &mut ledger.accounts[index];
    let target = account.target.saturating_add_signed(by);
    account.set_target(target, || Reason::new("Scaled", format!("{wanted} are wanted")));
}

/// The set that has grown least for its size; of empty ones the current.
fn smallest_share(ledger: &Ledger<'_>) -> Option<usize> {
    let any = ledger.accounts.iter().any(|it| it.target > 0);
    if !any {
        return ledger.has_current.then_some(0);
    }
    let share = |index: &usize| {
        let it = &ledger.accounts[*index];
        (u64::from(it.target) + 1) * 1000 / u64::from(it.started_from().max(1))
    };
    (0..ledger.accounts.len()).filter(|it| ledger.accounts[*it].target > 0).min_by_key(share)
}

/// The set to take from: one whose next machine is of no use, otherwise the one with the largest
/// share left, as long as enough stay available.
fn largest_share(ledger: &Ledger<'_>) -> Option<usize> {
    let candidates = || (0..ledger.accounts.len()).filter(|it| ledger.accounts[*it].target > 0);
    let useless = candidates().find(|it| !ledger.accounts[*it].next_is_available());
    if useless.is_some() || ledger.available() <= ledger.spec.floor() {
        return useless;
    }
    let share = |index: &usize| {
        let it = &ledger.accounts[*index];
        u64::from(it.target) * 1000 / u64::from(it.started_from().max(1))
    };
    candidates().max_by_key(share)
}
