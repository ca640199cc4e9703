use super::*;
use crate::drivers::{Created, DriverKey, Found, OpError};

const MINUTE: i64 = 60;

fn at(second: i64) -> Time {
    Time::from_second(second).expect("in range")
}

fn mk_wanted() -> Wanted {
    let limits = Limits {
        creation: Duration::from_secs(1200),
        health: Duration::from_secs(600),
        drain: Duration::from_secs(7200),
    };
    Wanted { limits, delete: false, revision: 1, frozen: false, forget: false }
}

fn seen(node: NodeHealth) -> Observed {
    Observed { node, drained: false, in_flight: None }
}

fn refused(code: ErrorCode) -> OpError {
    let message = "because".into();
    OpError::Refused { code, message, retry_after: None, last_known_state: String::new() }
}

fn mk_created() -> Outcome {
    Outcome::Created(Created { provider_id: "p".into(), ..Created::default() })
}

fn after(record: &Record, second: i64, outcome: Outcome) -> Record {
    settle(at(second), record, 1, outcome).0
}

/// A machine that was created at second 0.
fn mk_available() -> Record {
    let begun = decide(at(0), &mk_wanted(), &Record::new(at(0)), &seen(NodeHealth::Absent));
    assert_eq!(begun.act, Act::Create);
    assert!(begun.record.unresolved, "said before it is done");
    after(&begun.record, 0, mk_created())
}

#[track_caller]
fn check(
    second: i64,
    wanted: &Wanted,
    record: &Record,
    node: NodeHealth,
    act: Act,
    phase: Phase,
) -> Record {
    let decision = decide(at(second), wanted, record, &seen(node));
    assert_eq!((decision.act, decision.record.phase), (act, phase), "{decision:?}");
    decision.record
}

/// proves: MCH-07
#[test]
fn a_machine_comes_up_falls_and_comes_back() {
    let wanted = mk_wanted();
    let record = mk_available();
    assert_eq!(record.phase, Phase::Available);
    let record = check(10, &wanted, &record, NodeHealth::Healthy, Act::Nothing, Phase::Running);
    let record = check(20, &wanted, &record, NodeHealth::Unhealthy, Act::Nothing, Phase::Unknown);
    let back = check(30, &wanted, &record, NodeHealth::Healthy, Act::Nothing, Phase::Running);
    assert_eq!(back.phase_since, at(30));
    check(619, &wanted, &record, NodeHealth::Unhealthy, Act::Nothing, Phase::Unknown);
    check(620, &wanted, &record, NodeHealth::Unhealthy, Act::Nothing, Phase::Failed);
    let mut shorter = wanted.clone();
    shorter.limits.health = Duration::from_secs(5);
    check(25, &shorter, &record, NodeHealth::Unhealthy, Act::Nothing, Phase::Failed);
    shorter.frozen = true;
    check(25, &shorter, &record, NodeHealth::Unhealthy, Act::Nothing, Phase::Unknown);
}

#[test]
fn one_that_never_joins_fails() {
    let record = mk_available();
    check(1199, &mk_wanted(), &record, NodeHealth::Absent, Act::Nothing, Phase::Available);
    let decision = decide(at(1200), &mk_wanted(), &record, &seen(NodeHealth::Absent));
    assert_eq!(decision.record.phase, Phase::Failed);
    assert_eq!(decision.reasons[0].code, "NeverJoined");
}

/// proves: MCH-07
#[test]
fn a_failed_create_waits_by_its_code() {
    use NodeHealth::Absent;
    use Phase::{CrashLoopBackOff, Failed};
    let wanted = mk_wanted();
    let begun = decide(at(0), &wanted, &Record::new(at(0)), &seen(Absent)).record;
    let fail = |code| after(&begun, 0, Outcome::Failed(OpKind::Create, refused(code)));

    let soon = fail(ErrorCode::Aborted);
    check(4, &wanted, &soon, Absent, Act::Nothing, CrashLoopBackOff);
    check(5, &wanted, &soon, Absent, Act::Create, CrashLoopBackOff);

    let late = fail(ErrorCode::ResourceExhausted);
    check(59, &wanted, &late, Absent, Act::Nothing, CrashLoopBackOff);
    check(60, &wanted, &late, Absent, Act::Create, CrashLoopBackOff);
    check(1200, &wanted, &late, Absent, Act::Nothing, Failed);

    // What the user has to correct is not tried again, nor replaced by another that fails as well.
    let wrong = fail(ErrorCode::InvalidArgument);
    check(99 * MINUTE, &wanted, &wrong, Absent, Act::Nothing, CrashLoopBackOff);
    let corrected = Wanted { revision: 2, ..wanted };
    check(99 * MINUTE, &corrected, &wrong, Absent, Act::Create, CrashLoopBackOff);
}

/// A lost answer is resolved by listing before the create is repeated.
#[test]
fn what_may_have_happened_is_looked_up_first() {
    let wanted = mk_wanted();
    let begun = decide(at(0), &wanted, &Record::new(at(0)), &seen(NodeHealth::Absent)).record;
    // The server was killed while the create was under way: only the record is left.
    let resolving = check(1, &wanted, &begun, NodeHealth::Absent, Act::Resolve, Phase::Pending);
    let found = Found { provider_id: "p".into(), name: "m".into(), ..Found::default() };
    let there = after(&resolving, 2, Outcome::Resolved(Some(found)));
    assert_eq!((there.phase, there.provider_id.as_deref()), (Phase::Available, Some("p")));
    let nothing = after(&resolving, 2, Outcome::Resolved(None));
    check(2, &wanted, &nothing, NodeHealth::Absent, Act::Create, Phase::Pending);
    // A list that fails leaves the question open.
    let failed =
        after(&resolving, 2, Outcome::Failed(OpKind::List, refused(ErrorCode::PermissionDenied)));
    assert!(failed.unresolved);
    check(70, &wanted, &failed, NodeHealth::Absent, Act::Resolve, Phase::CrashLoopBackOff);
}

/// The driver was killed in the middle of a create: half a machine is listed, and nobody else finishes it.
#[test]
fn half_a_machine_is_asked_for_again() {
    let wanted = mk_wanted();
    let begun = decide(at(0), &wanted, &Record::new(at(0)), &seen(NodeHealth::Absent)).record;
    let resolving = check(1, &wanted, &begun, NodeHealth::Absent, Act::Resolve, Phase::Pending);
    let half = Found {
        provider_id: "p".into(),
        state: "pending".into(),
        idempotency_key: "k".into(),
        ..Found::default()
    };
    let found = after(&resolving, 2, Outcome::Resolved(Some(half.clone())));
    assert_eq!(found.provider_id.as_deref(), Some("p"), "so that it can be deleted meanwhile");
    check(2, &wanted, &found, NodeHealth::Absent, Act::Create, Phase::Pending);
    // A driver that knows no keys might make a second one.
    let keyless = Found { idempotency_key: String::new(), ..half.clone() };
    let there = after(&resolving, 2, Outcome::Resolved(Some(keyless)));
    check(2, &wanted, &there, NodeHealth::Absent, Act::Nothing, Phase::Available);
    // What is to go is not finished first.
    let mut leaving = resolving.clone();
    leaving.terminate(at(2));
    let left = after(&leaving, 3, Outcome::Resolved(Some(half)));
    assert_eq!((left.phase, left.provider_id.as_deref()), (Phase::Terminating, Some("p")));
}

#[test]
fn deleting_drains_deletes_and_forgets() {
    let mut wanted = Wanted { delete: true, ..mk_wanted() };
    let running =
        check(1, &mk_wanted(), &mk_available(), NodeHealth::Healthy, Act::Nothing, Phase::Running);
    let draining =
        check(10, &wanted, &running, NodeHealth::Healthy, Act::Drain, Phase::Terminating);
    check(7209, &wanted, &draining, NodeHealth::Healthy, Act::Drain, Phase::Terminating);
    check(7210, &wanted, &draining, NodeHealth::Healthy, Act::Delete, Phase::Terminating);
    // The time-out can still be changed while the deletion is under way.
    wanted.limits.drain = Duration::from_secs(5);
    check(15, &wanted, &draining, NodeHealth::Healthy, Act::Delete, Phase::Terminating);
    let empty = Observed { drained: true, ..seen(NodeHealth::Healthy) };
    let deleting = decide(at(12), &mk_deleted(), &draining, &empty);
    assert_eq!(deleting.act, Act::Delete);

    let refused_once = after(
        &deleting.record,
        20,
        Outcome::Failed(OpKind::Delete, refused(ErrorCode::PermissionDenied)),
    );
    check(79, &wanted, &refused_once, NodeHealth::Absent, Act::Nothing, Phase::Terminating);
    check(80, &wanted, &refused_once, NodeHealth::Absent, Act::Delete, Phase::Terminating);
    let deleted = after(&deleting.record, 20, Outcome::Deleted);
    check(21, &wanted, &deleted, NodeHealth::Absent, Act::Forget, Phase::Terminating);
}

fn mk_deleted() -> Wanted {
    Wanted { delete: true, ..mk_wanted() }
}

#[test]
fn deleting_early_leaves_nothing_behind() {
    let fresh = Record::new(at(0));
    check(1, &mk_deleted(), &fresh, NodeHealth::Absent, Act::Forget, Phase::Terminating);
    let begun = decide(at(0), &mk_wanted(), &fresh, &seen(NodeHealth::Absent)).record;
    let busy = Observed { in_flight: Some(OpKind::Create), ..seen(NodeHealth::Absent) };
    assert_eq!(decide(at(1), &mk_deleted(), &begun, &busy).act, Act::Abort);
    check(1, &mk_deleted(), &begun, NodeHealth::Absent, Act::Resolve, Phase::Terminating);
    // A creation that waits for an hour does not hold up its deletion.
    let waiting = Record { wait: Wait::Until(at(3600)), ..mk_available() };
    check(1, &mk_deleted(), &waiting, NodeHealth::Absent, Act::Delete, Phase::Terminating);
}

/// Its driver is gone for good, and so is whoever could delete it: somebody lets go of it.
#[test]
fn a_machine_is_let_go_of_only_when_it_is_deleted() {
    let told = Wanted { forget: true, ..mk_wanted() };
    check(1, &told, &mk_available(), NodeHealth::Absent, Act::Nothing, Phase::Available);
    let told = Wanted { forget: true, ..mk_deleted() };
    check(1, &told, &mk_available(), NodeHealth::Healthy, Act::Forget, Phase::Terminating);
    let unresolved = Record { unresolved: true, provider_id: None, ..mk_available() };
    check(1, &told, &unresolved, NodeHealth::Absent, Act::Forget, Phase::Terminating);
}

/// Bad input: an unknown provider kind. The machine waits and says for what.
#[test]
fn without_a_driver_it_waits_and_names_the_kind() {
    let begun = decide(at(0), &mk_wanted(), &Record::new(at(0)), &seen(NodeHealth::Absent)).record;
    let none = OpError::NoDriver { key: DriverKey::new("Nimbus", "infra/v1") };
    let waiting = after(&begun, 0, Outcome::Failed(OpKind::Create, none));
    assert!(!waiting.unresolved, "nothing was sent");
    let last = waiting.last_operation.expect("told");
    assert!(last.description.contains("Nimbus (infra/v1)"), "{}", last.description);
    assert_eq!(last.code, Some(ErrorCode::Unavailable));
}
