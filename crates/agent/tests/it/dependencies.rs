//! Programs that wait for workloads elsewhere.
use crate::world::{World, wait_for};

/// proves: AGT-08, AGT-15
#[tokio::test]
async fn a_program_starts_when_what_it_waits_for_runs_and_then_goes_its_own_way() {
    let world = World::new();
    let (_agent, mut server) = world.agent().await;
    let program = world.script("echo >> $T/started; sleep 60").after("db");
    server.assign(&program).await;
    let status = server.until_state(&program, "Pending/WaitingToStart").await;
    assert!(status.message.contains("the server has not said how it is"), "{}", status.message);
    for (state, expect) in [("", "there is no workload of that name"), ("Failed", "it is Failed")] {
        server.say("db", state).await;
        server.until(&program, expect, |status| status.message.contains(expect)).await;
    }
    assert!(!world.path().join("started").exists());
    server.say("db", "Running").await;
    let running = server.until_state(&program, "Running").await;
    server.say("db", "Failed").await;
    // Its own end starts it again, whatever became of the other.
    crate::world::kill(running.pid.unwrap(), rustix::process::Signal::KILL);
    let again = |status: &orrery_proto::apps::v1::WorkloadInstanceStatus| {
        status.state == "Running" && status.restarts == 1
    };
    server.until(&program, "running again", again).await;
    let starts = || std::fs::read_to_string(world.path().join("started")).ok();
    wait_for("two starts", || starts().filter(|text| text.lines().count() == 2)).await;
}

#[tokio::test]
async fn a_program_that_waits_can_be_removed() {
    let world = World::new();
    let (_agent, mut server) = world.agent().await;
    let program = world.script("true").after("never");
    server.assign(&program).await;
    server.until_state(&program, "Pending/WaitingToStart").await;
    server.unassign(&program).await;
    server.until_state(&program, "Removed").await;
}
