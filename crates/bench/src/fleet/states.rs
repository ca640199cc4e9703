//! States that agents report, taken in durably.
use crate::agents::{Agents, connect, name};
use crate::work::{Running, Way, apply_all, workload};
use futures::StreamExt;
use orrery_bench::server::{Client, Server};
use orrery_bench::table::Table;
use orrery_proto::apps::v1::{WorkloadInstance, WorkloadInstanceStatus};
use orrery_proto::fleet::v1::{
    Assignment, InstanceState, InstanceStates, ToServer, server_message::Message, to_server,
};
use orrery_proto::hub::v1::{Encoding, GetRequest, ResourceName};
use std::path::Path;
use std::time::Duration;
use tokio::time::Instant;

const TIME: Duration = Duration::from_secs(4);
const WORKLOADS: usize = 1000;
/// Messages that are on their way before the first of them is stored.
const AHEAD: i64 = 2;

pub async fn measure(folder: &Path) -> anyhow::Result<()> {
    println!(
        "## State updates taken in per second, all different and each stored, {TIME:?} each\n"
    );
    let columns =
        ["with", "ours /s, durable", "server CPU us each, all told", "peer /s, in memory"];
    let mut table = Table::new(&columns);
    let cases = [
        ("nobody else", 0, false, "268-287 k"),
        ("10 idle agents", 10, false, "39-47 k"),
        ("100 idle agents", 100, false, "3.9-6.5 k"),
        ("one watcher of 1,000 workloads", 0, true, "43-51"),
    ];
    for (with, idle, watched, peer) in cases {
        let server = Server::start(&folder.join(format!("s{idle}{watched}"))).await?;
        let (rate, cpu) = one(&server, idle, watched).await?;
        table.row(&[with.to_owned(), format!("{rate:.0}"), format!("{cpu:.0}"), peer.to_owned()]);
    }
    table.print();
    Ok(())
}

async fn one(server: &Server, idle: usize, watched: bool) -> anyhow::Result<(f64, f64)> {
    let requests = (0..WORKLOADS).map(|n| workload(&format!("w-{n}"), &name(9999), 0)).collect();
    apply_all(server, requests, Way::Stream).await?;
    let _idle = Agents::connect(&server.url, idle, false).await?;
    let _watcher = if watched { Some(Running::watch(server).await?) } else { None };
    let (sender, mut incoming) = connect(server.url.clone(), 9999).await?;
    let mut assignments: Vec<Assignment> = Vec::new();
    while assignments.len() < WORKLOADS {
        let call =
            incoming.next().await.ok_or_else(|| anyhow::anyhow!("the connection ended"))??;
        for message in call.messages {
            match message.message {
                Some(Message::Set(set)) => assignments.extend(set.assignments),
                Some(Message::Assign(assignment)) => assignments.push(assignment),
                Some(_) | None => {}
            }
        }
    }
    let mut client = server.clients(1).await?.remove(0);
    let (begun, cpu) = (Instant::now(), server.process.cpu()?);
    let mut round: i64 = 0;
    while begun.elapsed() < TIME {
        round += 1;
        sender.send(batch(&assignments, round)).await?;
        // The agent is a little ahead of the server, and not by all that it could say.
        until_stored(&mut client, &assignments[WORKLOADS - 1], round - AHEAD).await?;
    }
    // The server takes one message after the other: when the last state is stored, all are, but for a
    // few of the last message that are under way at the same time.
    until_stored(&mut client, &assignments[WORKLOADS - 1], round).await?;
    let states = (round as f64) * (WORKLOADS as f64);
    let used = server.process.cpu()? - cpu;
    Ok((states / begun.elapsed().as_secs_f64(), used.as_secs_f64() * 1e6 / states))
}

fn batch(assignments: &[Assignment], round: i64) -> ToServer {
    let states = assignments.iter().map(|assignment| InstanceState {
        id: assignment.id.clone(),
        status: Some(WorkloadInstanceStatus {
            state: "Running".into(),
            restarts: round,
            observed_generation: assignment.generation,
            ..WorkloadInstanceStatus::default()
        }),
    });
    let states = InstanceStates { states: states.collect() };
    ToServer { message: Some(to_server::Message::States(states)) }
}

async fn until_stored(client: &mut Client, last: &Assignment, round: i64) -> anyhow::Result<()> {
    loop {
        let name = ResourceName {
            kind: "WorkloadInstance".into(),
            project: last.project.clone(),
            name: last.name.clone(),
            ..ResourceName::default()
        };
        let request = GetRequest {
            name: Some(name),
            encoding: Encoding::Protobuf.into(),
            ..GetRequest::default()
        };
        let found = client.get(request).await?.into_inner();
        let body = found.resource.and_then(|resource| resource.body);
        if let Some(orrery_proto::hub::v1::resource::Body::Protobuf(bytes)) = body {
            let copy: WorkloadInstance = prost::Message::decode(bytes)?;
            if round <= copy.status.unwrap_or_default().restarts {
                return Ok(());
            }
        }
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}
