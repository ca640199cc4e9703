//! How programs are stopped, and that nothing of them is left.
use crate::world::{World, exists, read, wait_gone};
use orrery_agent::OnStop;

/// proves: AGT-15
#[tokio::test]
async fn a_program_may_finish_its_work_within_its_grace() {
    let world = World::new();
    let (_agent, mut server) = world.agent().await;
    let text = "trap 'echo clean > $T/clean; exit 0' TERM; echo up > $T/up; \
                while :; do sleep 0.01; done";
    let program = world.script(text);
    server.assign(&program).await;
    server.until_state(&program, "Running").await;
    read(world.path().join("up")).await;
    server.unassign(&program).await;
    server.until_state(&program, "Removed").await;
    assert_eq!(read(world.path().join("clean")).await, "clean");
    assert!(server.heard.contains(&format!("{} Stopping/Requested", program.id)));
}

#[tokio::test]
async fn the_stop_signal_can_be_chosen() {
    let world = World::new();
    let (_agent, mut server) = world.agent().await;
    let text = "trap 'echo usr1 > $T/got; exit 0' USR1; trap '' TERM; echo up > $T/up; \
                while :; do sleep 0.01; done";
    let mut program = world.script(text);
    program.spec.stop_signal = Some("SIGUSR1".into());
    server.assign(&program).await;
    read(world.path().join("up")).await;
    server.unassign(&program).await;
    server.until_state(&program, "Removed").await;
    assert_eq!(read(world.path().join("got")).await, "usr1");
}

/// proves: AGT-15
#[tokio::test]
async fn what_ignores_the_signal_is_killed_with_all_its_children() {
    let world = World::new();
    let (_agent, mut server) = world.agent().await;
    let text = "trap '' TERM; sleep 60 & echo $! > $T/child; echo up > $T/up; \
                while :; do sleep 0.01; done";
    let program = world.script(text).grace(1);
    server.assign(&program).await;
    let pid = server.until_state(&program, "Running").await.pid.unwrap();
    read(world.path().join("up")).await;
    let child: i64 = read(world.path().join("child")).await.parse().unwrap();
    server.unassign(&program).await;
    server.until_state(&program, "Removed").await;
    assert!(!exists(pid) && !exists(child));
}

/// Started in the background twice and in a session of its own: out of the group, and an orphan.
const RUNAWAY: &str =
    "setsid sh -c 'trap \"\" TERM; (echo $$ > $T/runaway; exec sleep 60) & wait' & ";

#[tokio::test]
async fn what_runs_away_by_forking_twice_is_caught() {
    let world = World::new();
    let (_agent, mut server) = world.agent().await;
    let program = world.script(&format!("export T; {RUNAWAY} exec sleep 60")).grace(1);
    server.assign(&program).await;
    server.until_state(&program, "Running").await;
    let runaway: i64 = read(world.path().join("runaway")).await.parse().unwrap();
    assert!(exists(runaway));
    server.unassign(&program).await;
    server.until_state(&program, "Removed").await;
    assert!(!exists(runaway));
}

#[tokio::test]
async fn what_a_program_leaves_when_it_ends_is_ended_too() {
    let world = World::new();
    let (_agent, mut server) = world.agent().await;
    let text =
        format!("export T; {RUNAWAY} while ! test -s $T/runaway; do sleep 0.01; done; exit 5");
    let program = world.script(&text).restart("never").grace(1);
    server.assign(&program).await;
    let status = server.until_state(&program, "Failed/ExecFailed").await;
    assert_eq!(status.exit_code, Some(5), "the program's own end counts");
    let runaway: i64 = read(world.path().join("runaway")).await.parse().unwrap();
    assert!(!exists(runaway));
}

#[tokio::test]
async fn an_agent_that_stops_can_take_its_programs_along() {
    let world = World::new();
    let stop_all = |config: &mut orrery_agent::AgentConfig| config.on_stop = OnStop::StopWorkloads;
    let (agent, mut server) = world.agent_with(stop_all).await;
    let polite = world.script("exec sleep 60");
    let stubborn =
        world.script("trap '' TERM; echo up > $T/up; while :; do sleep 0.01; done").grace(1);
    let done = world.script("exit 0").restart("never");
    server.assign_set(&[&polite, &stubborn, &done]).await;
    let first = server.until_state(&polite, "Running").await.pid.unwrap();
    let second = server.until_state(&stubborn, "Running").await.pid.unwrap();
    server.until_state(&done, "Succeeded").await;
    read(world.path().join("up")).await;

    agent.stop().await.unwrap();
    assert!(!exists(first) && !exists(second));
    server.hear_all().await;
    assert_eq!(server.goodbyes, 1);
    let last = &server.states[&polite.id];
    assert_eq!((last.state.as_str(), last.reason.as_str()), ("Pending", "WaitingToStart"));
    assert_eq!(server.states[&done.id].state, "Succeeded");

    let (_agent, mut server) = world.agent_with(stop_all).await;
    let again = server.until_state(&polite, "Running").await;
    assert_ne!(again.pid, Some(first), "the next agent starts it again");
    server.until_state(&stubborn, "Running").await;
    server.until_state(&done, "Succeeded").await;
    assert!(!server.heard.contains(&format!("{} Running", done.id)), "what is done is done");
    server.assign_set(&[]).await;
    server.until_state(&stubborn, "Removed").await;
}

#[tokio::test]
async fn an_agent_that_stops_can_leave_its_programs_alone() {
    let world = World::new();
    let (agent, mut server) = world.agent().await;
    let program = world.script("exec sleep 60");
    server.assign(&program).await;
    let pid = server.until_state(&program, "Running").await.pid.unwrap();
    agent.stop().await.unwrap();
    server.hear_all().await;
    assert_eq!(server.goodbyes, 1);
    assert!(exists(pid));

    let (_agent, mut server) = world.agent().await;
    let status = server.until_state(&program, "Running").await;
    assert_eq!((status.pid, status.restarts), (Some(pid), 0));
    server.unassign(&program).await;
    server.until_state(&program, "Removed").await;
    wait_gone(pid).await;
}
