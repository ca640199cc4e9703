//! Agents and supervisors that are killed.
use crate::world::{World, exists, kill, read, wait_for, wait_gone};
use orrery_proto::apps::v1::WorkloadInstanceStatus;
use rustix::process::Signal;
use std::fs;

/// The parent of a process.
fn parent(pid: i64) -> i64 {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let (_, rest) = stat.rsplit_once(')').unwrap();
    rest.split_ascii_whitespace().nth(1).unwrap().parse().unwrap()
}

/// proves: AGT-14, AGT-15
#[tokio::test]
async fn a_program_outlives_its_agent_and_is_adopted_by_the_next() {
    let world = World::new();
    let (agent, mut server) = world.killable_agent().await;
    let program = world.script("echo $$ >> $T/starts; exec sleep 60");
    server.assign(&program).await;
    let before = server.until_state(&program, "Running").await;
    agent.kill().await;
    let pid = before.pid.unwrap();
    assert!(exists(pid));

    let (_agent, mut server) = world.killable_agent().await;
    let after = server.until_state(&program, "Running").await;
    assert_eq!(after, before, "nothing has changed, not even the time of its start");
    kill(pid, Signal::KILL);
    let again = |status: &WorkloadInstanceStatus| status.state == "Running" && status.restarts == 1;
    server.until(&program, "started again by the new agent", again).await;
    server.unassign(&program).await;
    server.until_state(&program, "Removed").await;
    assert_eq!(read(world.path().join("starts")).await.lines().count(), 2);
}

/// proves: AGT-15
#[tokio::test]
async fn an_end_while_the_agent_was_away_is_reported() {
    let world = World::new();
    let (agent, mut server) = world.killable_agent().await;
    let text = "while ! test -e $T/go; do sleep 0.01; done; exit 42";
    let program = world.script(text).restart("never");
    server.assign(&program).await;
    let pid = server.until_state(&program, "Running").await.pid.unwrap();
    let supervisor = parent(pid);
    agent.kill().await;
    fs::write(world.path().join("go"), "").unwrap();
    wait_gone(supervisor).await;

    let (_agent, mut server) = world.killable_agent().await;
    let status = server.until_state(&program, "Failed/ExecFailed").await;
    assert_eq!((status.exit_code, status.pid), (Some(42), None));
    assert!(status.started_at.is_some() && status.finished_at.is_some());
}

#[tokio::test]
async fn an_adopted_program_that_ends_later_is_reported_with_its_code() {
    let world = World::new();
    let (agent, mut server) = world.killable_agent().await;
    let text = "while ! test -e $T/go; do sleep 0.01; done; exit 43";
    let program = world.script(text).restart("never");
    server.assign(&program).await;
    server.until_state(&program, "Running").await;
    agent.kill().await;

    let (_agent, mut server) = world.killable_agent().await;
    server.until_state(&program, "Running").await;
    fs::write(world.path().join("go"), "").unwrap();
    let status = server.until_state(&program, "Failed/ExecFailed").await;
    assert_eq!(status.exit_code, Some(43));
}

#[tokio::test]
async fn a_program_that_ended_while_the_agent_was_away_is_started_again() {
    let world = World::new();
    let (agent, mut server) = world.killable_agent().await;
    let program = world.script("exec sleep 60");
    server.assign(&program).await;
    let pid = server.until_state(&program, "Running").await.pid.unwrap();
    let supervisor = parent(pid);
    agent.kill().await;
    kill(pid, Signal::KILL);
    wait_gone(supervisor).await;

    // Without a word from a server: the first thing that it hears of is the new run.
    let (_agent, mut server) = world.killable_agent().await;
    let again = |status: &WorkloadInstanceStatus| status.state == "Running" && status.restarts == 1;
    let status = server.until(&program, "started again", again).await;
    assert_eq!(status.exit_signal, Some(9));
    server.assign_set(&[]).await;
    server.until_state(&program, "Removed").await;
}

/// proves: AGT-15
#[tokio::test]
async fn a_killed_supervisor_means_lost_and_nothing_runs_twice() {
    let world = World::new();
    let (_agent, mut server) = world.agent().await;
    let text = "sleep 60 & echo $! > $T/child; setsid sleep 60 & echo $! > $T/far; \
                echo $$ >> $T/starts; exec sleep 60";
    let program = world.script(text);
    server.assign(&program).await;
    let pid = server.until_state(&program, "Running").await.pid.unwrap();
    read(world.path().join("starts")).await;
    let child: i64 = read(world.path().join("child")).await.parse().unwrap();
    let far: i64 = read(world.path().join("far")).await.parse().unwrap();
    kill(parent(pid), Signal::KILL);
    let again = |status: &WorkloadInstanceStatus| status.state == "Running" && status.restarts == 1;
    let status = server.until(&program, "started again", again).await;
    assert!(server.heard.contains(&format!("{} Failed/Lost", program.id)), "{:?}", server.heard);
    assert_ne!(status.pid, Some(pid));
    for number in [pid, child, far] {
        assert!(!exists(number), "{number} is left of the lost run");
    }
    server.unassign(&program).await;
    server.until_state(&program, "Removed").await;
}

#[tokio::test]
async fn agent_and_supervisor_killed_together() {
    let world = World::new();
    let (agent, mut server) = world.killable_agent().await;
    let program = world.script("exec sleep 60").restart("never");
    server.assign(&program).await;
    let pid = server.until_state(&program, "Running").await.pid.unwrap();
    let supervisor = parent(pid);
    agent.kill().await;
    kill(supervisor, Signal::KILL);
    wait_gone(supervisor).await;
    assert!(exists(pid));

    let (_agent, mut server) = world.killable_agent().await;
    let status = server.until_state(&program, "Failed/Lost").await;
    let text = "lost: its supervisor was killed; not started again (restart policy never)";
    assert_eq!(status.message, text);
    assert!(!exists(pid), "what nobody watches must not run");
}

#[tokio::test]
async fn a_record_of_another_boot_is_not_believed() {
    let world = World::new();
    let (agent, mut server) = world.killable_agent().await;
    let program = world.script("exec sleep 60").restart("never");
    server.assign(&program).await;
    let pid = server.until_state(&program, "Running").await.pid.unwrap();
    agent.kill().await;
    let path = world.instance_dir(&program.id).join("run.json");
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap();
    let text = fs::read_to_string(&path).unwrap();
    fs::write(&path, text.replace(boot.trim(), "00000000-0000-0000-0000-000000000000")).unwrap();

    let (_agent, mut server) = world.killable_agent().await;
    let status = server.until_state(&program, "Failed/Lost").await;
    assert!(status.message.starts_with("lost when the machine stopped"), "{}", status.message);
    assert!(exists(pid), "numbers of another boot name nobody here");
    kill(pid, Signal::KILL);
}

#[tokio::test]
async fn a_broken_record_is_named_and_the_program_replaced() {
    let world = World::new();
    let (agent, mut server) = world.killable_agent().await;
    let program = world.script("exec sleep 60");
    server.assign(&program).await;
    let pid = server.until_state(&program, "Running").await.pid.unwrap();
    agent.kill().await;
    fs::write(world.instance_dir(&program.id).join("run.json"), "{ broken").unwrap();

    let (_agent, mut server) = world.killable_agent().await;
    let other =
        move |status: &WorkloadInstanceStatus| status.state == "Running" && status.pid != Some(pid);
    server.until(&program, "replaced", other).await;
    wait_gone(pid).await;
    server.unassign(&program).await;
    server.until_state(&program, "Removed").await;
}

#[tokio::test]
async fn a_supervisor_that_is_asked_to_stop_by_others_stops_its_program() {
    let world = World::new();
    let (_agent, mut server) = world.agent().await;
    let text = "trap 'echo clean >> $T/clean; exit 0' TERM; echo up >> $T/up; \
                while :; do sleep 0.01; done";
    let program = world.script(text);
    server.assign(&program).await;
    let pid = server.until_state(&program, "Running").await.pid.unwrap();
    read(world.path().join("up")).await;
    kill(parent(pid), Signal::TERM);
    let again = |status: &WorkloadInstanceStatus| status.state == "Running" && status.restarts == 1;
    server.until(&program, "started again", again).await;
    assert_eq!(read(world.path().join("clean")).await, "clean");
    wait_for("the second start", || {
        let up = fs::read_to_string(world.path().join("up")).ok()?;
        (up.lines().count() == 2).then_some(())
    })
    .await;
    server.unassign(&program).await;
    server.until_state(&program, "Removed").await;
}

#[tokio::test]
async fn a_terminal_that_interrupts_the_agent_does_not_reach_the_programs() {
    let world = World::new();
    let (agent, mut server) = world.killable_agent().await;
    let program = world.script("exec sleep 60");
    server.assign(&program).await;
    let pid = server.until_state(&program, "Running").await.pid;
    agent.interrupt_group().await;

    let (_agent, mut server) = world.killable_agent().await;
    let status = server.until_state(&program, "Running").await;
    assert_eq!((status.pid, status.restarts), (pid, 0));
    server.unassign(&program).await;
    server.until_state(&program, "Removed").await;
}

#[tokio::test]
async fn a_stop_is_carried_through_without_the_agent_that_asked_for_it() {
    let world = World::new();
    let (agent, mut server) = world.killable_agent().await;
    let text = "trap '' TERM; echo up > $T/up; while :; do sleep 0.01; done";
    let program = world.script(text).grace(1);
    server.assign(&program).await;
    let pid = server.until_state(&program, "Running").await.pid.unwrap();
    read(world.path().join("up")).await;
    server.unassign(&program).await;
    wait_for("the request", || {
        world.instance_dir(&program.id).join("request.json").exists().then_some(())
    })
    .await;
    let supervisor = parent(pid);
    agent.kill().await;
    // Whether the signal went out before the agent was killed is up to chance; ask as it would.
    kill(supervisor, Signal::TERM);
    wait_gone(pid).await;
    wait_gone(supervisor).await;

    let (_agent, mut server) = world.killable_agent().await;
    server.until_state(&program, "Removed").await;
}
