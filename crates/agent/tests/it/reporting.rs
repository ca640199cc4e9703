//! What the server hears, and that a slow one holds nobody up.
use crate::world::{Agent, World, wait_for};
use orrery_proto::fleet::v1::{server_message::Message, to_server};
use std::fs;

#[tokio::test]
async fn a_new_connection_is_told_everything_and_then_only_what_changes() {
    let world = World::new();
    let (_agent, mut server) = world.agent().await;
    let programs: Vec<_> = (0..3).map(|_| world.script("exec sleep 60")).collect();
    server.assign_set(&programs.iter().collect::<Vec<_>>()).await;
    for program in &programs {
        server.until_state(program, "Running").await;
    }
    // The set again, as after a reconnection: nothing changes, everything is said once.
    server.heard.clear();
    server.states.clear();
    server.greet().await;
    server.assign_set(&programs.iter().collect::<Vec<_>>()).await;
    for program in &programs {
        server.until_state(program, "Running").await;
    }
    server.assign_set(&[]).await;
    for program in &programs {
        server.until_state(program, "Removed").await;
    }
    for program in &programs {
        let said = server.heard.iter().filter(|line| **line == format!("{} Running", program.id));
        assert_eq!(said.count(), 1);
    }
}

#[tokio::test]
async fn what_is_gone_already_is_removed() {
    let world = World::new();
    let (_agent, mut server) = world.agent().await;
    let mut never_heard_of = world.script("true");
    never_heard_of.removing = true;
    server.assign_set(&[&never_heard_of]).await;
    server.until_state(&never_heard_of, "Removed").await;
    let other = world.script("true");
    server.unassign(&other).await;
    server.until_state(&other, "Removed").await;
}

#[tokio::test]
async fn messages_of_a_newer_server_are_ignored() {
    let world = World::new();
    let (_agent, mut server) = world.agent().await;
    let program = world.script("exit 0").restart("never");
    let assign = Some(Message::Assign(program.assignment()));
    server.send(vec![None, assign, None]).await;
    server.until_state(&program, "Succeeded").await;
}

#[tokio::test]
async fn an_id_that_is_no_name_is_refused_and_disturbs_nothing() {
    let world = World::new();
    let (_agent, mut server) = world.agent().await;
    let mut evil = world.script("touch $T/evil");
    evil.id = "../../evil".into();
    let good = world.script("exit 0").restart("never");
    server.assign_set(&[&evil, &good]).await;
    server.until_state(&good, "Succeeded").await;
    server.unassign(&evil).await;
    server.assign_set(&[]).await;
    server.until_state(&good, "Removed").await;
    assert!(!world.path().join("evil").exists());
}

/// proves: AGT-14
#[tokio::test]
async fn a_server_that_does_not_listen_holds_nobody_up() {
    let world = World::new();
    let (_agent, mut server) = Agent::start_with_room(world.config(), 1);
    server.greet().await;
    let crashing = world.script("echo x >> $T/runs; exit 1");
    let program = world.script("exec sleep 60");
    server.assign_set(&[&crashing, &program]).await;
    // Dozens of states, and nobody takes them.
    wait_for("many restarts", || {
        let runs = fs::read_to_string(world.path().join("runs")).unwrap_or_default();
        (runs.lines().count() >= 20).then_some(())
    })
    .await;
    server.assign_set(&[&program]).await;
    wait_for("the end of it", || (!world.instance_dir(&crashing.id).exists()).then_some(())).await;
    // One message was under way when the channel became full; the next has all the rest.
    let mut messages = 0;
    while server.states.get(&crashing.id).is_none_or(|status| status.state != "Removed") {
        let message = server.next().await;
        let Some(to_server::Message::States(states)) = &message.message else {
            panic!("{message:?}");
        };
        assert!(states.states.len() <= 2, "each instance once");
        server.hear(message);
        messages += 1;
    }
    assert!(messages <= 3, "{:?}", server.heard);
    server.until_state(&program, "Running").await;
    server.unassign(&program).await;
    server.until_state(&program, "Removed").await;
}
