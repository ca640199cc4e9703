//! Kill -9 at any moment: nothing runs twice, nothing is forgotten.
use crate::world::{World, exists, read, wait_for};
use std::{fs, time::Duration};

/// Moments at which the agent is killed after it was told to start, in milliseconds: during the
/// save, the spawn, the start of the program, and after.
const MOMENTS_MS: [u64; 10] = [0, 1, 2, 3, 4, 6, 8, 11, 15, 25];

/// proves: AGT-15
#[tokio::test]
async fn an_agent_killed_while_it_starts_a_program_starts_it_once() {
    for moment in MOMENTS_MS {
        let world = World::new();
        let program = world.script("echo $$ >> $T/starts; exec sleep 60");
        let (agent, server) = world.killable_agent().await;
        server.assign(&program).await;
        // Not a wait for something to be ready: the point is to strike at an arbitrary moment.
        tokio::time::sleep(Duration::from_millis(moment)).await;
        agent.kill().await;

        let (_agent, mut server) = world.killable_agent().await;
        server.assign_set(&[&program]).await;
        let status = server.until_state(&program, "Running").await;
        let starts = read(world.path().join("starts")).await;
        assert_eq!(starts, status.pid.unwrap().to_string(), "after {moment} ms");
        server.assign_set(&[]).await;
        server.until_state(&program, "Removed").await;
        assert!(!exists(status.pid.unwrap()));
    }
}

/// proves: AGT-15
#[tokio::test]
async fn an_agent_killed_over_and_over_keeps_one_program() {
    let world = World::new();
    let program = world.script("echo $$ >> $T/starts; exec sleep 60");
    let mut pid = None;
    for moment in MOMENTS_MS {
        let (agent, mut server) = world.killable_agent().await;
        server.assign_set(&[&program]).await;
        let status = server.until_state(&program, "Running").await;
        assert_eq!(status.pid, *pid.get_or_insert(status.pid), "the same one all the time");
        tokio::time::sleep(Duration::from_millis(moment)).await;
        agent.kill().await;
    }
    let (_agent, mut server) = world.killable_agent().await;
    server.assign_set(&[]).await;
    server.until_state(&program, "Removed").await;
    let starts = fs::read_to_string(world.path().join("starts")).unwrap();
    assert_eq!(starts.lines().count(), 1);
    let instances = world.data_dir().join("instances");
    wait_for("an empty folder", || (fs::read_dir(&instances).ok()?.count() == 0).then_some(()))
        .await;
}
