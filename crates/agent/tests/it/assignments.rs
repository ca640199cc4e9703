//! What the agent knows without a server, and what it forgets.
use crate::world::{World, exists, kill, wait_for, wait_gone};
use orrery_proto::apps::v1::WorkloadInstanceStatus;
use rustix::process::Signal;
use std::fs;

#[tokio::test]
async fn what_is_not_in_the_set_must_not_run() {
    let world = World::new();
    let (_agent, mut server) = world.agent().await;
    let [stays, goes] = [(), ()].map(|()| world.script("exec sleep 60"));
    server.assign_set(&[&stays, &goes]).await;
    let kept = server.until_state(&stays, "Running").await.pid.unwrap();
    let pid = server.until_state(&goes, "Running").await.pid.unwrap();
    server.assign_set(&[&stays]).await;
    server.until_state(&goes, "Removed").await;
    assert!(!exists(pid) && exists(kept));
    assert!(!world.instance_dir(&goes.id).exists());
    server.assign_set(&[]).await;
    server.until_state(&stays, "Removed").await;
}

/// proves: AGT-14, AGT-15
#[tokio::test]
async fn an_agent_without_a_server_goes_on() {
    let world = World::new();
    let (agent, mut server) = world.agent().await;
    let program = world.script("echo $$ >> $T/pids; exec sleep 60");
    server.assign(&program).await;
    server.until_state(&program, "Running").await;
    agent.stop().await.unwrap();

    let (_agent, server) = world.lonely_agent(|_| ());
    drop(server);
    let latest = |count: usize| {
        let path = world.path().join("pids");
        move || {
            let text = fs::read_to_string(&path).ok()?;
            let pids: Vec<i64> = text.lines().filter_map(|line| line.parse().ok()).collect();
            (pids.len() == count).then(|| pids[count - 1])
        }
    };
    let first = wait_for("the first run", latest(1)).await;
    kill(first, Signal::KILL);
    let second = wait_for("the second run", latest(2)).await;
    kill(second, Signal::KILL);
    let third = wait_for("the third run", latest(3)).await;
    kill(third, Signal::KILL);
    wait_for("the fourth run", latest(4)).await;
}

/// proves: AGT-15
#[tokio::test]
async fn what_was_deleted_while_the_agent_was_off_is_cleaned_up() {
    let world = World::new();
    let (agent, mut server) = world.killable_agent().await;
    let program = world.script("exec sleep 60");
    server.assign(&program).await;
    let pid = server.until_state(&program, "Running").await.pid.unwrap();
    agent.kill().await;
    let (_agent, mut server) = world.killable_agent().await;
    server.until_state(&program, "Running").await;
    server.assign_set(&[]).await;
    server.until_state(&program, "Removed").await;
    assert!(!exists(pid));
    assert!(!world.instance_dir(&program.id).exists());
}

#[tokio::test]
async fn a_removal_that_was_interrupted_is_finished() {
    let world = World::new();
    let (agent, mut server) = world.killable_agent().await;
    let text = "trap '' TERM; echo up > $T/up; while :; do sleep 0.01; done";
    let program = world.script(text).grace(60);
    server.assign(&program).await;
    let pid = server.until_state(&program, "Running").await.pid.unwrap();
    crate::world::read(world.path().join("up")).await;
    server.unassign(&program).await;
    server.until_state(&program, "Stopping/Requested").await;
    agent.kill().await;
    // The new agent knows from the disk that it has to go, and never calls it running.
    let (_agent, mut server) = world.killable_agent().await;
    server.until_state(&program, "Stopping/Requested").await;
    kill(pid, Signal::KILL);
    server.until_state(&program, "Removed").await;
    assert!(!server.heard.contains(&format!("{} Running", program.id)));
}

#[tokio::test]
async fn a_broken_assignment_is_set_aside_and_its_program_kept_until_the_server_speaks() {
    let world = World::new();
    let (agent, mut server) = world.agent().await;
    let [healthy, kept, gone] = [(), (), ()].map(|()| world.script("exec sleep 60"));
    server.assign_set(&[&healthy, &kept, &gone]).await;
    let mut pids = Vec::new();
    for program in [&healthy, &kept, &gone] {
        pids.push(server.until_state(program, "Running").await.pid.unwrap());
    }
    agent.stop().await.unwrap();
    for program in [&kept, &gone] {
        fs::write(world.instance_dir(&program.id).join("assignment"), "rubbish").unwrap();
    }

    let (_agent, mut server) = world.agent().await;
    let status = server.until_state(&healthy, "Running").await;
    assert_eq!((status.pid, status.message.as_str()), (Some(pids[0]), ""));
    let status = server.until_state(&kept, "Running").await;
    assert_eq!(status.pid, Some(pids[1]));
    assert!(status.message.contains("waiting for the server"), "{}", status.message);
    let aside = world.instance_dir(&kept.id).join("assignment.corrupt");
    assert_eq!(fs::read_to_string(aside).unwrap(), "rubbish");

    server.assign_set(&[&healthy, &kept]).await;
    let status = server.until(&kept, "assigned", |status| status.observed_generation == 1).await;
    assert_eq!((status.pid, status.message.as_str()), (Some(pids[1]), ""), "adopted");
    server.until_state(&gone, "Removed").await;
    wait_gone(pids[2]).await;
    server.assign_set(&[]).await;
    server.until_state(&healthy, "Removed").await;
    server.until_state(&kept, "Removed").await;
}

#[tokio::test]
async fn a_second_agent_on_the_same_folder_is_refused() {
    let world = World::new();
    let (_agent, mut server) = world.agent().await;
    let program = world.script("exit 0").restart("never");
    server.assign(&program).await;
    server.until_state(&program, "Succeeded").await;
    let (second, _server) = world.lonely_agent(|_| ());
    let error = second.ended().await.unwrap_err().to_string();
    let expect = format!("another agent (pid {}) already uses", std::process::id());
    assert!(error.starts_with(&expect), "{error}");
}

#[tokio::test]
async fn the_server_may_change_its_mind_about_a_removal() {
    let world = World::new();
    let (_agent, mut server) = world.agent().await;
    let text = "trap 'while ! test -e $T/go; do sleep 0.01; done; exit 0' TERM; echo up > $T/up; \
                while :; do sleep 0.01; done";
    let program = world.script(text);
    server.assign(&program).await;
    let pid = server.until_state(&program, "Running").await.pid;
    crate::world::read(world.path().join("up")).await;
    server.unassign(&program).await;
    server.until_state(&program, "Stopping/Requested").await;
    server.assign(&program).await;
    fs::write(world.path().join("go"), "").unwrap();
    let other = move |status: &WorkloadInstanceStatus| {
        status.state == "Running" && status.restarts == 1 && status.pid != pid
    };
    server.until(&program, "running again", other).await;
    assert!(!server.heard.contains(&format!("{} Removed", program.id)));
    server.unassign(&program).await;
    server.until_state(&program, "Removed").await;
}
