//! Running, ending, and being started again.
use crate::world::{World, exists, kill, read, wait_gone};
use orrery_agent::OnStop;
use rustix::process::Signal;

/// proves: AGT-15
#[tokio::test]
async fn a_program_runs_and_is_gone_after_its_removal() {
    let world = World::new();
    let (_agent, mut server) = world.agent().await;
    let mut program = world.script("echo $$ > $T/pid; exec sleep 60");
    server.assign(&program).await;
    let status = server.until_state(&program, "Running").await;
    let pid = status.pid.unwrap();
    assert_eq!(read(world.path().join("pid")).await, pid.to_string());
    assert_eq!((status.restarts, status.observed_generation), (0, 1));
    assert!(status.started_at.is_some() && status.finished_at.is_none());

    program.removing = true;
    server.assign(&program).await;
    server.until_state(&program, "Removed").await;
    assert!(!exists(pid));
    assert!(!world.instance_dir(&program.id).exists(), "nothing is left behind");
}

/// proves: AGT-15
#[tokio::test]
async fn a_killed_program_is_started_again() {
    let world = World::new();
    let (_agent, mut server) = world.agent().await;
    let program = world.script("exec sleep 60");
    server.assign(&program).await;
    let first = server.until_state(&program, "Running").await.pid.unwrap();
    for restarts in 1..4 {
        let pid = server.states[&program.id].pid.unwrap();
        kill(pid, Signal::KILL);
        let again = move |status: &orrery_proto::apps::v1::WorkloadInstanceStatus| {
            status.state == "Running" && status.restarts == restarts
        };
        let status = server.until(&program, "started again", again).await;
        assert_eq!((status.exit_signal, status.exit_code), (Some(9), None));
        assert_ne!(status.pid, Some(first));
        wait_gone(pid).await;
    }
}

#[tokio::test]
async fn ends_are_reported_as_the_policy_says() {
    let world = World::new();
    let (_agent, mut server) = world.agent().await;
    for (policy, code, state, message) in [
        ("never", 0, "Succeeded", "exited with code 0"),
        ("never", 3, "Failed/ExecFailed", "exited with code 3"),
        ("onFailure", 0, "Succeeded", "exited with code 0"),
    ] {
        let program = world.script(&format!("exit {code}")).restart(policy);
        server.assign(&program).await;
        let status = server.until_state(&program, state).await;
        assert_eq!((status.exit_code, status.message.as_str()), (Some(code), message), "{policy}");
        assert_eq!((status.pid, status.restarts), (None, 0), "{policy}");
        assert!(status.finished_at.is_some(), "{policy}");
    }
}

#[tokio::test]
async fn a_failing_program_is_tried_until_it_succeeds() {
    let world = World::new();
    let (_agent, mut server) = world.agent().await;
    let text = "echo x >> $T/runs; test $(wc -l < $T/runs) -ge 4 || exit 7";
    let program = world.script(text).restart("onFailure");
    server.assign(&program).await;
    let status = server.until_state(&program, "Succeeded").await;
    assert_eq!(status.restarts, 3);
    assert_eq!(read(world.path().join("runs")).await.lines().count(), 4);
}

#[tokio::test]
async fn the_wait_before_a_restart_is_shown() {
    let world = World::new();
    let slow = std::time::Duration::from_secs(600);
    let (_agent, mut server) = world
        .agent_with(|config| {
            config.timing.first_delay = slow;
            config.timing.longest_delay = slow;
        })
        .await;
    let program = world.script("exit 3");
    server.assign(&program).await;
    let status = server.until_state(&program, "Pending/WaitingToStart").await;
    let (cause, wait) = status.message.split_once(", starting again in ").unwrap();
    assert_eq!(cause, "exited with code 3");
    let seconds: u64 = wait.strip_suffix(" s").unwrap().parse().unwrap();
    assert!((450..=600).contains(&seconds), "{wait}");
    assert_eq!(status.exit_code, Some(3));
}

#[tokio::test]
async fn a_changed_definition_replaces_the_program_and_an_equal_one_does_not() {
    let world = World::new();
    let (_agent, mut server) = world.agent().await;
    let first = world.script("exec sleep 60");
    server.assign(&first).await;
    let pid = server.until_state(&first, "Running").await.pid.unwrap();

    let noted = first.becomes(first.clone());
    server.assign(&noted).await;
    let status = server.until(&first, "noted", |status| status.observed_generation == 2).await;
    assert_eq!((status.state.as_str(), status.pid), ("Running", Some(pid)));

    let treated = noted.becomes(noted.clone().grace(1).restart("onFailure"));
    server.assign(&treated).await;
    let status = server.until(&first, "noted", |status| status.observed_generation == 3).await;
    assert_eq!((status.state.as_str(), status.pid), ("Running", Some(pid)));

    let second = treated.becomes(world.script("echo $$ > $T/second; exec sleep 60"));
    server.assign(&second).await;
    let replaced = |status: &orrery_proto::apps::v1::WorkloadInstanceStatus| {
        status.state == "Running" && status.observed_generation == 4
    };
    let status = server.until(&first, "replaced", replaced).await;
    assert!(!exists(pid), "stopped before the next one is started");
    assert_eq!(read(world.path().join("second")).await, status.pid.unwrap().to_string());
    assert_eq!(status.restarts, 0, "a replacement is not a restart");
}

#[tokio::test]
async fn many_programs_at_once() {
    let world = World::new();
    let (agent, mut server) =
        world.agent_with(|config| config.on_stop = OnStop::StopWorkloads).await;
    let programs: Vec<_> = (0..40).map(|_| world.script("exec sleep 60")).collect();
    let all: Vec<_> = programs.iter().collect();
    server.assign_set(&all).await;
    let mut pids = std::collections::BTreeSet::new();
    for program in &programs {
        pids.insert(server.until_state(program, "Running").await.pid.unwrap());
    }
    assert_eq!(pids.len(), programs.len());
    let hear = tokio::spawn(async move { server.hear_all().await });
    agent.stop().await.unwrap();
    hear.await.unwrap();
    assert!(pids.into_iter().all(|pid| !exists(pid)));
}
