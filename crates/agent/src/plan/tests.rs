use super::*;
use crate::model::{Exit, LastEnd, RunState, UnixMillis};

/// No jitter to speak of in these tables: the seed is fixed, and waits are looked up where needed.
const SEED: u64 = 7;

pub(super) fn desired() -> Desired {
    Desired {
        goal: Goal::Run,
        hash: SpecHash("same".into()),
        restart: RestartPolicy::Always,
        stop_signal: StopSignal::Term,
        grace: Duration::from_secs(10),
        blocked: None,
        waiting: None,
        unhealthy: None,
        unready: None,
        jitter_seed: SEED,
    }
}

pub(super) fn observed(state: Option<RunState>, since: Instant) -> Observed {
    let run = state.map(|state| Run {
        hash: SpecHash("same".into()),
        history: History::default(),
        state,
        warning: None,
        stop: None,
    });
    Observed { run, known: true, since, stop: None, saved: true, trouble: None, failed_probe: None }
}

pub(super) fn running() -> RunState {
    RunState::Running { pid: 42, started_at: UnixMillis(1) }
}

pub(super) fn ended(exit: Exit) -> RunState {
    RunState::Ended {
        exit,
        interrupted: false,
        started_at: UnixMillis(1),
        finished_at: UnixMillis(2),
        ran: Duration::from_secs(1),
    }
}

fn failed_to_start() -> RunState {
    RunState::StartFailed { message: "no such file".into() }
}

fn lost() -> RunState {
    RunState::Lost { message: "lost".into(), started_at: UnixMillis(1) }
}

/// One case: edits of the usual world, and what is expected as "action State/Reason: message".
#[track_caller]
fn check(
    state: Option<RunState>,
    edit: impl FnOnce(&mut Desired, &mut Observed),
    after: Duration,
    expect: &str,
) {
    let start = Instant::now();
    let (mut desired, mut observed) = (desired(), observed(state, start));
    edit(&mut desired, &mut observed);
    let timing = Timing::default();
    let plan = super::plan(&desired, &observed, &timing, start + after);
    assert_eq!(plan, super::plan(&desired, &observed, &timing, start + after));
    assert_eq!(shown(&plan), expect);
    if plan.action.is_none() && plan.wake.is_some_and(|wake| wake <= start + after) {
        panic!("a wake-up that has already come: {plan:?}");
    }
}

fn shown(plan: &Plan) -> String {
    let action = match plan.action {
        None if plan.wake.is_some() => "wait".to_owned(),
        None => "rest".to_owned(),
        Some(Action::Start(history)) => format!("start#{}", history.restarts),
        Some(action) => format!("{action:?}").to_lowercase(),
    };
    let (state, reason) = plan.words.phase.names();
    format!("{action} {state}/{reason}: {}", plan.words.message)
}

const NOW: Duration = Duration::ZERO;
const MINUTE: Duration = Duration::from_secs(60);

fn same(_: &mut Desired, _: &mut Observed) {}

fn policy(restart: RestartPolicy) -> impl FnOnce(&mut Desired, &mut Observed) {
    move |desired, _| desired.restart = restart
}

fn goal(goal: Goal) -> impl FnOnce(&mut Desired, &mut Observed) {
    move |desired, _| desired.goal = goal
}

/// proves: AGT-15
#[test]
fn what_never_ran_is_saved_then_started() {
    check(None, |_, observed| observed.saved = false, NOW, "save Pending/Initial: ");
    check(None, same, NOW, "start#0 Pending/Starting: ");
    check(Some(running()), same, NOW, "rest Running/: ");
}

#[test]
fn nothing_is_done_before_the_truth_is_known() {
    for to in [Goal::Run, Goal::Hold, Goal::Halt, Goal::Remove] {
        let unknown = |desired: &mut Desired, observed: &mut Observed| {
            desired.goal = to;
            observed.known = false;
            observed.saved = false;
        };
        check(None, unknown, NOW, "inspect Pending/Initial: ");
    }
}

/// proves: AGT-15
#[test]
fn the_restart_policy_decides_what_follows_an_end() {
    use RestartPolicy::{Always, Never, OnFailure};
    let (good, bad, killed) = (Exit::Code(0), Exit::Code(3), Exit::Signal(9));
    let again =
        |cause: &str| format!("wait Pending/WaitingToStart: {cause}, starting again in 0.5 s");
    for (restart, exit, expect) in [
        (Always, good, again("exited with code 0")),
        (Always, bad, again("exited with code 3")),
        (Always, killed, again("ended by SIGKILL")),
        (OnFailure, good, "rest Succeeded/: exited with code 0".to_owned()),
        (OnFailure, bad, again("exited with code 3")),
        (OnFailure, killed, again("ended by SIGKILL")),
        (Never, good, "rest Succeeded/: exited with code 0".to_owned()),
        (Never, bad, "rest Failed/ExecFailed: exited with code 3".to_owned()),
        (Never, killed, "rest Failed/ExecFailed: ended by SIGKILL".to_owned()),
    ] {
        check(Some(ended(exit)), policy(restart), NOW, &expect);
        let later =
            if expect.starts_with("rest") { expect } else { "start#1 Pending/Starting: ".into() };
        check(Some(ended(exit)), policy(restart), MINUTE, &later);
    }
}

#[test]
fn a_start_that_fails_is_tried_again_unless_never() {
    let text = "wait Pending/StartingFailed: no such file, trying again in 0.5 s";
    check(Some(failed_to_start()), same, NOW, text);
    check(Some(failed_to_start()), same, MINUTE, "start#0 Pending/Starting: ");
    let text =
        "rest Pending/StartingFailed: no such file; not started again (restart policy never)";
    check(Some(failed_to_start()), policy(RestartPolicy::Never), MINUTE, text);
}

#[test]
fn a_lost_run_says_so_until_it_is_replaced() {
    check(Some(lost()), same, NOW, "wait Failed/Lost: lost, starting again in 0.5 s");
    check(Some(lost()), same, MINUTE, "start#1 Pending/Starting: ");
    let text = "rest Failed/Lost: lost; not started again (restart policy never)";
    check(Some(lost()), policy(RestartPolicy::Never), MINUTE, text);
    let unknown = || Some(RunState::Unknown { message: "broken".into() });
    check(unknown(), same, NOW, "wait Failed/Unknown: broken, starting again in 0.5 s");
    let other = |desired: &mut Desired, _: &mut Observed| desired.hash = SpecHash("other".into());
    check(unknown(), other, NOW, "wait Failed/Unknown: broken, starting again in 0.5 s");
}

#[test]
fn a_run_that_was_stopped_on_purpose_has_not_finished() {
    let stopped = || {
        let RunState::Ended { started_at, finished_at, ran, .. } = ended(Exit::Code(0)) else {
            panic!("it ended");
        };
        Some(RunState::Ended {
            exit: Exit::Code(0),
            interrupted: true,
            started_at,
            finished_at,
            ran,
        })
    };
    check(stopped(), policy(RestartPolicy::Always), NOW, "start#1 Pending/Starting: ");
    check(stopped(), policy(RestartPolicy::OnFailure), NOW, "start#1 Pending/Starting: ");
    check(stopped(), policy(RestartPolicy::Never), NOW, "rest Succeeded/: exited with code 0");
}

#[test]
fn a_changed_definition_replaces_what_runs() {
    let other = |desired: &mut Desired, _: &mut Observed| desired.hash = SpecHash("other".into());
    let text =
        "stop Stopping/Requested: its definition changed; asked with SIGTERM, killed after 10 s";
    check(Some(running()), other, NOW, text);
    let unsaved = |desired: &mut Desired, observed: &mut Observed| {
        desired.hash = SpecHash("other".into());
        observed.saved = false;
    };
    let text =
        "save Stopping/Waiting: its definition changed; asked with SIGTERM, killed after 10 s";
    check(Some(running()), unsaved, NOW, text);
    check(Some(ended(Exit::Code(3))), other, NOW, "start#0 Pending/Starting: ");
    check(Some(failed_to_start()), other, NOW, "start#0 Pending/Starting: ");
    let never = |desired: &mut Desired, _: &mut Observed| {
        desired.hash = SpecHash("other".into());
        desired.restart = RestartPolicy::Never;
    };
    check(Some(ended(Exit::Code(0))), never, NOW, "start#0 Pending/Starting: ");
}

#[test]
fn an_equal_definition_is_only_saved() {
    check(Some(running()), |_, observed| observed.saved = false, NOW, "save Running/: ");
}

#[test]
fn what_cannot_run_here_is_stopped_and_says_why() {
    let blocked =
        |desired: &mut Desired, _: &mut Observed| desired.blocked = Some("no podman".into());
    check(None, blocked, NOW, "rest Pending/StartingFailed: no podman");
    let text = "stop Stopping/Requested: its new definition cannot run here; \
                asked with SIGTERM, killed after 10 s";
    check(Some(running()), blocked, NOW, text);
}

/// proves: AGT-15
#[test]
fn what_waits_for_others_is_not_started_and_does_not_stop() {
    let waiting =
        |desired: &mut Desired, _: &mut Observed| desired.waiting = Some("for the db".into());
    check(None, waiting, MINUTE, "rest Pending/WaitingToStart: for the db");
    check(Some(running()), waiting, NOW, "rest Running/: ");
    check(Some(ended(Exit::Code(3))), waiting, MINUTE, "start#1 Pending/Starting: ");
    let changed = |desired: &mut Desired, observed: &mut Observed| {
        waiting(desired, observed);
        desired.hash = SpecHash("other".into());
    };
    check(Some(ended(Exit::Code(3))), changed, NOW, "rest Pending/WaitingToStart: for the db");
    let removed = |desired: &mut Desired, observed: &mut Observed| {
        waiting(desired, observed);
        desired.goal = Goal::Remove;
    };
    check(None, removed, NOW, "remove Stopping/Requested: cleaning up");
}

/// proves: AGT-15
#[test]
fn what_probes_say_is_told_before_and_after_the_end_they_cause() {
    let unready = |desired: &mut Desired, _: &mut Observed| {
        desired.unready = Some("GET / answered 503".into())
    };
    let text = "rest Running/NotReady: its readiness probe failed: GET / answered 503";
    check(Some(running()), unready, NOW, text);
    let unhealthy =
        |desired: &mut Desired, _: &mut Observed| desired.unhealthy = Some("no answer".into());
    let text = "stop Stopping/Requested: its liveness probe failed: no answer; \
                asked with SIGTERM, killed after 10 s";
    check(Some(running()), unhealthy, NOW, text);
    let failed =
        |_: &mut Desired, observed: &mut Observed| observed.failed_probe = Some("no answer".into());
    let never = |desired: &mut Desired, observed: &mut Observed| {
        failed(desired, observed);
        desired.restart = RestartPolicy::Never;
    };
    let text =
        "rest Failed/ExecFailed: ended by SIGTERM, after its liveness probe failed: no answer";
    check(Some(ended(Exit::Signal(15))), never, NOW, text);
    // It failed like one that ends by itself, so it is not started again and again without a pause.
    for restart in [RestartPolicy::Always, RestartPolicy::OnFailure] {
        let asked = |desired: &mut Desired, observed: &mut Observed| {
            failed(desired, observed);
            desired.restart = restart;
            let run = observed.run.as_mut().unwrap();
            if let RunState::Ended { interrupted, .. } = &mut run.state {
                *interrupted = true;
            }
        };
        let text = "wait Pending/WaitingToStart: exited with code 0, after its liveness probe \
                    failed: no answer, starting again in 0.5 s";
        check(Some(ended(Exit::Code(0))), asked, NOW, text);
        check(Some(ended(Exit::Code(0))), asked, MINUTE, "start#1 Pending/Starting: ");
    }
    let text = "rest Running/: started again because its liveness probe failed: no answer";
    check(Some(running()), failed, NOW, text);
    let both = |desired: &mut Desired, observed: &mut Observed| {
        failed(desired, observed);
        unready(desired, observed);
    };
    let text = "rest Running/NotReady: its readiness probe failed: GET / answered 503; \
                started again because its liveness probe failed: no answer";
    check(Some(running()), both, NOW, text);
}

#[test]
fn removal_stops_first_and_cleans_up_then() {
    let text =
        "stop Stopping/Requested: it is being removed; asked with SIGTERM, killed after 10 s";
    check(Some(running()), goal(Goal::Remove), NOW, text);
    for state in [None, Some(ended(Exit::Code(0))), Some(failed_to_start()), Some(lost())] {
        check(state, goal(Goal::Remove), NOW, "remove Stopping/Requested: cleaning up");
    }
}

#[test]
fn what_is_not_known_to_be_wanted_is_left_alone() {
    let text = "rest Running/: its assignment could not be read; waiting for the server";
    check(Some(running()), goal(Goal::Hold), MINUTE, text);
    let text =
        "rest Pending/WaitingToStart: its assignment could not be read; waiting for the server";
    check(Some(ended(Exit::Code(3))), goal(Goal::Hold), MINUTE, text);
    check(None, goal(Goal::Hold), MINUTE, text);
}

/// As after the loss of the agent's records, where what runs is of a version that says nothing of itself.
#[test]
fn what_is_not_known_any_more_is_replaced_and_what_ended_so_obeys_its_policy() {
    let forgotten = |_: &mut Desired, observed: &mut Observed| {
        observed.run.as_mut().unwrap().hash = SpecHash(String::new());
    };
    let text = "stop Stopping/Requested: what it was made of is not known any more; asked with SIGTERM, \
                killed after 10 s";
    check(Some(running()), forgotten, NOW, text);
    let never = |desired: &mut Desired, observed: &mut Observed| {
        forgotten(desired, observed);
        desired.restart = RestartPolicy::Never;
    };
    let text = "rest Failed/Lost: lost; not started again (restart policy never)";
    check(Some(lost()), never, NOW, text);
}

#[test]
fn an_agent_that_stops_starts_nothing() {
    let text = "stop Stopping/Requested: the agent stops; asked with SIGTERM, killed after 10 s";
    check(Some(running()), goal(Goal::Halt), NOW, text);
    let text = "rest Pending/WaitingToStart: starts again with the agent";
    check(Some(ended(Exit::Code(3))), goal(Goal::Halt), MINUTE, text);
    let finished = |desired: &mut Desired, _: &mut Observed| {
        desired.goal = Goal::Halt;
        desired.restart = RestartPolicy::Never;
    };
    check(Some(ended(Exit::Code(0))), finished, MINUTE, "rest Succeeded/: exited with code 0");
}

fn stopping(killed: Option<(u64, u32)>) -> impl FnOnce(&mut Desired, &mut Observed) {
    move |desired, observed| {
        desired.goal = Goal::Remove;
        observed.stop = Some(StopProgress {
            requested_at: observed.since,
            killed_at: killed.map(|(at, _)| observed.since + Duration::from_secs(at)),
            kills: killed.map_or(0, |(_, kills)| kills),
        });
    }
}

/// proves: AGT-15
#[test]
fn a_stop_is_asked_for_then_forced_then_complained_about() {
    let at = Duration::from_secs;
    let asked =
        "wait Stopping/Requested: it is being removed; asked with SIGTERM, killed after 10 s";
    check(Some(running()), stopping(None), at(9), asked);
    let text = "kill Stopping/Requested: it is being removed; \
                it did not stop within 10 s and is killed";
    check(Some(running()), stopping(None), at(10), text);
    let killed = "wait Stopping/Requested: it is being removed; killed";
    check(Some(running()), stopping(Some((10, 1))), at(19), killed);
    check(Some(running()), stopping(Some((10, 1))), at(20), &killed.replace("wait", "kill"));
    let stuck =
        "wait Stopping/StopFailed: it is being removed; it is still there 10 s after SIGKILL";
    check(Some(running()), stopping(Some((20, 2))), at(29), stuck);
    check(Some(running()), stopping(Some((20, 2))), at(30), &stuck.replace("wait", "kill"));
}

#[test]
fn without_grace_it_is_killed_at_once() {
    let no_grace = |desired: &mut Desired, _: &mut Observed| {
        desired.goal = Goal::Remove;
        desired.grace = Duration::ZERO;
    };
    check(Some(running()), no_grace, NOW, "kill Stopping/Requested: it is being removed; killed");
    let by_kill = |desired: &mut Desired, _: &mut Observed| {
        desired.goal = Goal::Remove;
        desired.stop_signal = StopSignal::Kill;
    };
    check(Some(running()), by_kill, NOW, "kill Stopping/Requested: it is being removed; killed");
}

#[test]
fn a_stop_once_begun_is_finished() {
    let back = |desired: &mut Desired, observed: &mut Observed| {
        stopping(None)(desired, observed);
        desired.goal = Goal::Run;
    };
    let text =
        "wait Stopping/Requested: it is being stopped; asked with SIGTERM, killed after 10 s";
    check(Some(running()), back, NOW, text);
}

fn trouble(action: Action) -> impl FnOnce(&mut Desired, &mut Observed) {
    move |_, observed| {
        let phase = action.trouble_phase();
        observed.trouble = Some(Trouble { message: "disk full".into(), at: observed.since, phase });
    }
}

#[test]
fn an_operation_that_failed_is_tried_again_after_a_while() {
    let start = || trouble(Action::Start(History::default()));
    let text = "wait Pending/StartingFailed: disk full, trying again in 5 s";
    check(None, start(), NOW, text);
    check(None, start(), Duration::from_secs(5), "start#0 Pending/Starting: ");
    let remove = |desired: &mut Desired, observed: &mut Observed| {
        desired.goal = Goal::Remove;
        trouble(Action::Remove)(desired, observed);
    };
    let text = "wait Stopping/StopFailed: disk full, trying again in 5 s";
    check(None, remove, NOW, text);
    let save = |desired: &mut Desired, observed: &mut Observed| {
        observed.saved = false;
        trouble(Action::Save)(desired, observed);
    };
    check(Some(running()), save, NOW, "wait Running/: ");
    let stop = |desired: &mut Desired, observed: &mut Observed| {
        desired.goal = Goal::Remove;
        save(desired, observed);
    };
    let text =
        "stop Stopping/Requested: it is being removed; asked with SIGTERM, killed after 10 s";
    check(Some(running()), stop, Duration::from_secs(5), text);
    let look = |desired: &mut Desired, observed: &mut Observed| {
        observed.known = false;
        trouble(Action::Inspect)(desired, observed);
    };
    check(None, look, NOW, "wait Failed/Unknown: disk full, trying again in 5 s");
}

#[track_caller]
fn check_history(state: RunState, before: (u32, u32), expect: (u32, u32)) {
    let start = Instant::now();
    let mut observed = observed(Some(state), start);
    let (restarts, failures) = before;
    observed.run.as_mut().unwrap().history = History { restarts, failures, last_end: None };
    let plan = super::plan(&desired(), &observed, &Timing::default(), start + 2 * MINUTE);
    let Some(Action::Start(history)) = plan.action else { panic!("{plan:?}") };
    assert_eq!((history.restarts, history.failures), expect);
}

#[test]
fn each_run_knows_what_came_before() {
    check_history(ended(Exit::Code(1)), (4, 4), (5, 5));
    check_history(failed_to_start(), (4, 4), (4, 5));
    check_history(lost(), (4, 4), (5, 5));
    check_history(ended(Exit::Code(1)), (u32::MAX, u32::MAX), (u32::MAX, u32::MAX));
    let RunState::Ended { exit, interrupted, started_at, finished_at, .. } = ended(Exit::Code(1))
    else {
        panic!("it ended");
    };
    let long = RunState::Ended { exit, interrupted, started_at, finished_at, ran: MINUTE };
    check_history(long, (4, 9), (5, 1));
}

#[test]
fn the_last_end_is_carried_along() {
    let start = Instant::now();
    let observed = observed(Some(ended(Exit::Code(3))), start);
    let plan = super::plan(&desired(), &observed, &Timing::default(), start + MINUTE);
    let Some(Action::Start(history)) = plan.action else { panic!("{plan:?}") };
    let expect = LastEnd { exit: Exit::Code(3), finished_at: UnixMillis(2) };
    assert_eq!(history.last_end, Some(expect));
}

#[test]
fn what_is_not_alive_any_more_is_stopped_with_the_reason() {
    let mut desired = desired();
    desired.unhealthy = Some("GET / answered 503".into());
    let now = Instant::now();
    let planned = plan(&desired, &observed(Some(running()), now), &Timing::default(), now);
    assert_eq!(planned.action, Some(Action::Stop));
    assert!(planned.words.message.starts_with("its liveness probe failed: GET / answered 503"));
}
