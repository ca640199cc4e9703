//! The end of a machine: move workloads off, delete at the provider, forget. Never given up unless
//! somebody says so: a machine that nobody deletes is a bill that nobody reads.
use super::{Act, Decision, Observed, Wait, Wanted};
use crate::drivers::OpKind;
use crate::plan::{Time, elapsed, later};

pub(super) fn step(next: &mut Decision, now: Time, wanted: &Wanted, observed: &Observed) {
    match observed.in_flight {
        Some(OpKind::Create) => {
            next.because("Aborting", "it is deleted while it is being created");
            next.act = Act::Abort;
            return;
        }
        Some(OpKind::Delete | OpKind::List | OpKind::Status) => return,
        None => {}
    }
    if wanted.forget {
        let id = next.record.provider_id.as_deref().unwrap_or("not known");
        let message = format!(
            "it was let go of without its driver; its provider may still have it (id: {id})"
        );
        next.because("Forgotten", message);
        next.act = Act::Forget;
        return;
    }
    let nothing_there = next.record.provider_id.is_none() && !next.record.unresolved;
    if !next.record.started || nothing_there {
        next.because("Gone", "the provider has nothing of it");
        next.act = Act::Forget;
        return;
    }
    if draining(next, now, wanted, observed) {
        return;
    }
    if let Wait::Until(at) = next.record.wait
        && now < at
    {
        return next.wake_at(at);
    }
    if next.record.unresolved {
        next.because("Resolving", "the outcome of the last operation is not known: listing first");
        return next.begin(Act::Resolve, OpKind::List, now);
    }
    next.record.unresolved = true;
    next.begin(Act::Delete, OpKind::Delete, now);
}

/// Whether workloads still have time to move off.
fn draining(next: &mut Decision, now: Time, wanted: &Wanted, observed: &Observed) -> bool {
    if next.record.drained || !next.record.joined {
        return false;
    }
    if observed.drained {
        next.record.drained = true;
        next.because("Drained", "no workload is left on it");
        return false;
    }
    let since = *next.record.drain_since.get_or_insert(now);
    let limit = wanted.limits.drain;
    if elapsed(now, since) >= limit {
        next.record.drained = true;
        next.because("DrainTimedOut", format!("workloads were still on it after {limit:?}"));
        return false;
    }
    next.act = Act::Drain;
    next.wake_at(later(since, limit));
    true
}
