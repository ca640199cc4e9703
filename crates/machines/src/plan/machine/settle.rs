//! What the outcome of an operation means for a machine.
use super::{LastOperation, OpState, Phase, Record, Wait};
use crate::drivers::{Created, Effect, Found, OpError, OpKind, Retry};
use crate::plan::{Reason, Time, backoff, later};

/// How an operation ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    Created(Created),
    /// The machine as the list shows it, if it does.
    Resolved(Option<Found>),
    Deleted,
    Failed(OpKind, OpError),
}

/// Takes an outcome into the record. `revision` is the one that the operation was planned with.
pub fn settle(now: Time, record: &Record, revision: i64, outcome: Outcome) -> (Record, Reason) {
    let mut next = record.clone();
    let reason = match outcome {
        Outcome::Created(made) => created(&mut next, now, made),
        Outcome::Resolved(Some(found)) => found_again(&mut next, now, found),
        Outcome::Resolved(None) => {
            next.unresolved = false;
            next.wait = Wait::Nothing;
            next.provider_id = None;
            done(&mut next, now, OpKind::List, "the provider has no such machine".into())
        }
        Outcome::Deleted => {
            next.unresolved = false;
            next.failures = 0;
            next.provider_id = None;
            done(&mut next, now, OpKind::Delete, "the machine is deleted".into())
        }
        Outcome::Failed(kind, error) => failed(&mut next, now, revision, kind, &error),
    };
    (next, reason)
}

fn created(next: &mut Record, now: Time, made: Created) -> Reason {
    let how = if made.adopted { "adopted" } else { "created" };
    let description = format!("the machine {} is {how}", made.provider_id);
    next.provider_id = Some(made.provider_id);
    next.node_name = made.node_name;
    next.addresses = made.addresses;
    next.last_known_state = made.last_known_state;
    there(next, now);
    done(next, now, OpKind::Create, description)
}

fn found_again(next: &mut Record, now: Time, found: Found) -> Reason {
    let half_made = is_half_made(&found);
    let description = format!("the provider has it as {}", found.provider_id);
    next.provider_id = Some(found.provider_id);
    if !found.addresses.is_empty() {
        next.addresses = found.addresses;
    }
    if next.node_name.is_empty() {
        next.node_name = found.name;
    }
    if half_made && is_wanted(next.phase) {
        next.unresolved = false;
        next.wait = Wait::Nothing;
        return done(next, now, OpKind::List, format!("{description}, not whole yet: creating on"));
    }
    there(next, now);
    done(next, now, OpKind::List, description)
}

/// A driver that ended in the middle of a create may have left half a machine, which nobody finishes unless it is
/// asked for again. That makes no second one: a driver that tells the key of its machine finds it by that.
fn is_half_made(found: &Found) -> bool {
    found.state == "pending" && !found.idempotency_key.is_empty()
}

fn is_wanted(phase: Phase) -> bool {
    matches!(phase, Phase::Pending | Phase::CrashLoopBackOff)
}

/// The machine exists.
fn there(next: &mut Record, now: Time) {
    next.unresolved = false;
    next.failures = 0;
    next.wait = Wait::Nothing;
    if is_wanted(next.phase) {
        next.enter(Phase::Available, now);
    }
}

fn done(next: &mut Record, now: Time, kind: OpKind, description: String) -> Reason {
    let state = OpState::Successful;
    next.last_operation =
        Some(LastOperation { kind, state, description: description.clone(), code: None, at: now });
    // Words of their own: what happens later with the same word takes the place of what was.
    let code = match kind {
        OpKind::Create => "Created",
        OpKind::Delete => "Deleted",
        OpKind::List | OpKind::Status => "Resolved",
    };
    Reason::new(code, description)
}

fn failed(next: &mut Record, now: Time, revision: i64, kind: OpKind, error: &OpError) -> Reason {
    next.failures = next.failures.saturating_add(1);
    // A list changes nothing; what was open before it still is.
    if matches!(kind, OpKind::Create | OpKind::Delete) {
        next.unresolved = error.effect() == Effect::Perhaps;
    }
    if let OpError::Refused { last_known_state, .. } = error
        && !last_known_state.is_empty()
    {
        next.last_known_state.clone_from(last_known_state);
    }
    if next.phase == Phase::Pending {
        next.enter(Phase::CrashLoopBackOff, now);
    }
    next.wait = wait_after(next, now, revision, kind, error);
    next.last_operation = Some(LastOperation {
        kind,
        state: OpState::Failed,
        description: error.to_string(),
        code: Some(error.code()),
        at: now,
    });
    Reason::new("OperationFailed", format!("{kind} failed: {error}"))
}

/// Only a create waits for a change. Listing and deleting go on for ever, if seldom: what they leave
/// undone costs money.
fn wait_after(next: &Record, now: Time, revision: i64, kind: OpKind, error: &OpError) -> Wait {
    let retry = match (error.retry(), kind) {
        (Retry::AfterChange, OpKind::Delete | OpKind::List | OpKind::Status) => Retry::Late,
        (Retry::AfterChange, OpKind::Create) if next.unresolved => Retry::Late,
        (retry, _) => retry,
    };
    match backoff::wait(retry, next.failures, error.retry_after()) {
        Some(wait) => Wait::Until(later(now, wait)),
        None => Wait::Change(revision),
    }
}
