//! Commands and load, from a commander to an agent and back.
use crate::workloads::{apply, mk_workload, shop};
use orrery_client::Commander;
use orrery_proto::fleet::v1::{
    Assignment, ExecEnd, ExecEvent, ExecOrder, ExecOutput, ExecRequest, ExecStart, Load,
    LoadReport, ToServer, TopRequest, Usage, exec_event, exec_input, server_message::Message,
    to_server,
};
use orrery_testkit::agent::FakeAgent;

async fn order(agent: &mut FakeAgent) -> ExecOrder {
    loop {
        if let Message::Exec(order) = agent.next().await.expect("the connection is open") {
            return order;
        }
    }
}

async fn say(agent: &FakeAgent, stream: &str, message: exec_event::Message) {
    let event = Some(ExecEvent { message: Some(message) });
    let output = ExecOutput { stream: stream.into(), event };
    let message = Some(to_server::Message::ExecOutput(output));
    agent.to_server.send(ToServer { message }).await.unwrap();
}

fn request(name: &str) -> ExecRequest {
    let start = ExecStart { command: vec!["sh".into()], stdin: true, ..ExecStart::default() };
    ExecRequest { project: "shop".into(), name: name.into(), start: Some(start), ..<_>::default() }
}

async fn event(exec: &mut orrery_client::commander::Exec) -> exec_event::Message {
    exec.next().await.unwrap().unwrap().message.unwrap()
}

async fn running(agent: &mut FakeAgent) -> Assignment {
    let assignment = agent.assignment().await;
    agent.report(&assignment.id, "Running", assignment.generation).await;
    assignment
}

/// proves: AGT-10, AGT-15
#[tokio::test]
async fn a_command_is_run_typed_to_and_ends_with_its_code() {
    let (world, transport) = shop().await;
    let mut agent = FakeAgent::connect(&transport, "edge-1").await.unwrap();
    apply(&world, &mk_workload("web", &["edge-1"])).await;
    let copy = running(&mut agent).await;
    let commander: Commander = world.commander().await;
    let mut exec = commander.exec(request("web")).await.unwrap();
    let begun = order(&mut agent).await;
    assert_eq!((&begun.id, begun.start.unwrap().command), (&copy.id, vec!["sh".to_owned()]));
    say(&agent, &begun.stream, exec_event::Message::Credit(2)).await;
    say(&agent, &begun.stream, exec_event::Message::Stdout(b"$ ".to_vec())).await;
    assert_eq!(event(&mut exec).await, exec_event::Message::Credit(2));
    assert_eq!(event(&mut exec).await, exec_event::Message::Stdout(b"$ ".to_vec()));
    let voice = exec.voice();
    voice.say(exec_input::Message::Data(b"exit\n".to_vec())).await;
    let typed = loop {
        let words = order(&mut agent).await.input;
        let data = words.into_iter().find_map(|word| match word.message {
            Some(exec_input::Message::Data(data)) => Some(data),
            _ => None,
        });
        if let Some(data) = data {
            break data;
        }
    };
    assert_eq!(typed, b"exit\n");
    let end = ExecEnd { exit_code: Some(3), problem: String::new() };
    say(&agent, &begun.stream, exec_event::Message::End(end.clone())).await;
    assert_eq!(event(&mut exec).await, exec_event::Message::End(end));
    assert!(exec.next().await.unwrap().is_none());

    // Who goes away takes the command along.
    let exec = commander.exec(request("web")).await.unwrap();
    let begun = order(&mut agent).await;
    assert!(begun.start.is_some());
    drop(exec);
    let cancelled = order(&mut agent).await;
    assert_eq!(cancelled.input[0].message, Some(exec_input::Message::Cancel(true)));

    let mut exec = commander.exec(request("ghost")).await.unwrap();
    let error = exec.next().await.unwrap_err().to_string();
    assert!(error.contains("\"ghost\""), "{error}");
    drop(agent);
    world.stop().await;
}

#[tokio::test]
async fn what_is_used_is_asked_of_the_agents() {
    let (world, transport) = shop().await;
    let mut agent = FakeAgent::connect(&transport, "edge-1").await.unwrap();
    apply(&world, &mk_workload("web", &["edge-1"])).await;
    let copy = running(&mut agent).await;
    let commander = world.commander().await;
    let answering = tokio::spawn(async move {
        loop {
            let Message::Load(request) = agent.next().await.unwrap() else { continue };
            let usage = Usage { cpu_millis: 7, memory_bytes: 1 << 20 };
            let load = Load { node: Some(usage), instances: [(copy.id.clone(), usage)].into() };
            let report = LoadReport { stream: request.stream, load: Some(load) };
            let message = Some(to_server::Message::Load(report));
            agent.to_server.send(ToServer { message }).await.unwrap();
        }
    });
    let top = |nodes| commander.top(TopRequest { project: "shop".into(), nodes });
    let rows = top(false).await.unwrap().rows;
    assert_eq!((rows.len(), rows[0].workload.as_str()), (1, "web"));
    assert_eq!(rows[0].usage.unwrap().cpu_millis, 7);
    let rows = top(true).await.unwrap().rows;
    assert_eq!((rows[0].name.as_str(), rows[0].usage.unwrap().memory_bytes), ("edge-1", 1 << 20));
    answering.abort();
    world.stop().await;
}
