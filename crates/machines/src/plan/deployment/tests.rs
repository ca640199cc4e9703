use super::*;
use crate::plan::{Phase, Time};

/// `R` running, `P` pending, `F` failed, `D` terminating; the first letter is the oldest.
fn mk_set(hash: &str, revision: u64, replicas: u32, letters: &str) -> SetView {
    let mk = |(index, letter): (usize, char)| {
        let phase = match letter {
            'R' => Phase::Running,
            'P' => Phase::Pending,
            'F' => Phase::Failed,
            'D' => Phase::Terminating,
            other => panic!("{other} is no phase"),
        };
        MachineView {
            name: format!("{hash}-{index}"),
            phase,
            available: letter == 'R',
            created_at: Time::from_second(index as i64).expect("in range"),
            marked: false,
            keep: false,
            deleting: letter == 'D',
        }
    };
    let machines = letters.chars().enumerate().map(mk).collect();
    SetView { name: hash.into(), hash: hash.into(), revision, replicas, ceiling: 0, machines }
}

fn mk_spec(replicas: u32, surge: u32, unavailable: u32) -> DeploymentSpec {
    DeploymentSpec {
        replicas,
        max_surge: Bound::Count(surge),
        max_unavailable: Bound::Count(unavailable),
        paused: false,
        frozen: false,
        hash: "new".into(),
        history_limit: 1,
    }
}

/// Plans, and shows `name=target/ceiling` for every set, the current one last.
fn outcome(spec: &DeploymentSpec, sets: &[SetView]) -> String {
    let plan = super::plan(spec, sets);
    let mut shown: Vec<String> = Vec::new();
    for set in sets {
        let change = plan.change.iter().find(|it| it.name == set.name);
        let (replicas, ceiling) =
            change.map_or((set.replicas, set.ceiling), |it| (it.replicas, it.ceiling));
        shown.push(format!("{}={replicas}/{ceiling}", set.name));
    }
    if let Some(made) = plan.create {
        shown.push(format!("+{}={}/{}", made.hash, made.replicas, made.ceiling));
    }
    shown.join(" ")
}

#[track_caller]
fn check(spec: (u32, u32, u32), old: (u32, &str), new: (u32, &str), expect: &str) {
    let sets = [mk_set("old", 1, old.0, old.1), mk_set("new", 2, new.0, new.1)];
    assert_eq!(outcome(&mk_spec(spec.0, spec.1, spec.2), &sets), expect);
}

/// proves: MCH-07
#[test]
fn a_first_deployment_gets_its_set() {
    assert_eq!(outcome(&mk_spec(3, 1, 0), &[]), "+new=3/4");
    let old = mk_set("old", 1, 3, "RRR");
    assert_eq!(outcome(&mk_spec(3, 1, 0), &[old]), "old=3/3 +new=1/1");
}

/// proves: MCH-07
#[test]
fn machines_are_exchanged_within_the_bounds() {
    // One more, none fewer.
    check((3, 1, 0), (3, "RRR"), (1, "P"), "old=3/3 new=1/1");
    check((3, 1, 0), (3, "RRR"), (1, "R"), "old=2/3 new=1/1");
    check((3, 1, 0), (2, "RRD"), (1, "R"), "old=2/3 new=1/1");
    check((3, 1, 0), (2, "RR"), (1, "R"), "old=2/2 new=2/2");
    // None more, one fewer.
    check((3, 0, 1), (3, "RRR"), (0, ""), "old=2/3 new=0/0");
    check((3, 0, 1), (2, "RRD"), (0, ""), "old=2/3 new=0/0");
    check((3, 0, 1), (2, "RR"), (0, ""), "old=2/2 new=1/1");
    check((3, 0, 1), (2, "RR"), (1, "P"), "old=2/2 new=1/1");
    // Neither would never end: one may be unavailable.
    check((3, 0, 0), (3, "RRR"), (0, ""), "old=2/3 new=0/0");
    // The end.
    check((3, 1, 0), (0, ""), (3, "RRR"), "old=0/0 new=3/4");
}

#[test]
fn what_is_not_available_goes_first() {
    check((3, 1, 0), (3, "RFR"), (1, "R"), "old=2/3 new=1/1");
    check((4, 1, 1), (4, "RRFF"), (1, "P"), "old=3/4 new=1/1");
    check((3, 1, 0), (3, "FFF"), (1, "P"), "old=3/3 new=1/1");
}

#[test]
fn scaling_during_an_exchange_keeps_the_bounds() {
    // Up: the current set takes all growth; nothing old goes until enough are available.
    check((10, 2, 1), (2, "RR"), (1, "R"), "old=2/2 new=10/10");
    // Down: the old ones go at once, the current set has what is wanted.
    check((2, 1, 1), (5, "RRRRR"), (4, "RRRP"), "old=0/0 new=2/0");
    check((0, 1, 0), (1, "R"), (2, "RR"), "old=0/0 new=0/0");
}

#[test]
fn a_cut_is_taken_back_when_availability_falls() {
    check((3, 1, 0), (2, "RRR"), (1, "F"), "old=3/3 new=1/1");
}

#[test]
fn paused_scales_and_does_not_exchange() {
    let paused = |replicas| DeploymentSpec { paused: true, ..mk_spec(replicas, 1, 1) };
    let old = mk_set("old", 1, 4, "RRRR");
    assert_eq!(
        outcome(&paused(4), std::slice::from_ref(&old)),
        "old=4/5",
        "no set for the new class"
    );
    assert_eq!(outcome(&paused(6), std::slice::from_ref(&old)), "old=6/7");
    assert_eq!(outcome(&paused(2), std::slice::from_ref(&old)), "old=2/0");
    let both = [old, mk_set("new", 2, 2, "RR")];
    assert_eq!(outcome(&paused(9), &both), "old=6/7 new=3/3", "in proportion");
    assert_eq!(outcome(&paused(5), &both), "old=4/4 new=2/2", "the surge stays");
    let frozen = DeploymentSpec { frozen: true, ..mk_spec(9, 1, 1) };
    assert_eq!(outcome(&frozen, &both), "old=4/0 new=2/0");
}

#[test]
fn rolling_back_makes_the_old_class_the_latest() {
    let sets = [mk_set("a", 1, 0, ""), mk_set("b", 2, 0, ""), mk_set("new", 3, 2, "RR")];
    let spec = mk_spec(2, 1, 0);
    assert_eq!(rollback(&spec, &sets, None).map(|it| it.name.as_str()), Ok("b"));
    assert_eq!(rollback(&spec, &sets, Some(1)).map(|it| it.name.as_str()), Ok("a"));
    assert!(rollback(&spec, &sets, Some(9)).is_err());
    let back = DeploymentSpec { hash: "a".into(), ..spec };
    let plan = plan(&back, &sets);
    let change = plan.change.iter().find(|it| it.name == "a").expect("it grows");
    assert_eq!((change.revision, change.replicas), (4, 1));
}

#[test]
fn history_is_limited_and_progress_told() {
    let sets = [mk_set("a", 1, 0, ""), mk_set("b", 2, 0, ""), mk_set("new", 3, 2, "RR")];
    let plan = plan(&mk_spec(2, 1, 0), &sets);
    assert_eq!(plan.remove, ["a"]);
    assert_eq!(plan.progress, Progress { existing: 2, updated: 2, available: 2, complete: true });
}
