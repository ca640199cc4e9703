//! Durable writes and consistent reads.
use crate::server::{Server, method, resource, typed_resource};
use orrery_bench::grpc::{Client, Streaming};
use orrery_bench::load::{self, Outcome, Until};
use orrery_bench::process::Process;
use orrery_bench::{etcd, table::Table};
use orrery_proto::hub::v1::apply_each_response::Outcome as EachOutcome;
use orrery_proto::hub::v1::{
    ApplyEachRequest, ApplyEachResponse, ApplyRequest, GetRequest, ResourceName,
};
use prost::Message as _;
use std::path::Path;
use std::time::Duration;

const TIME: Duration = Duration::from_secs(5);
/// The size of a small resource.
const PAYLOAD: usize = 400;
/// Makes the request of a name, a size and a version.
type Payload = fn(&str, usize, usize) -> ApplyRequest;

/// Objects that the writers change in turn.
const OBJECTS: usize = 256;

pub async fn measure(folder: &Path) -> anyhow::Result<()> {
    println!("## Durable writes and consistent reads, {TIME:?} each\n");
    let mut table = Table::new(&[
        "work",
        "clients",
        "ours /s",
        "ours p50 ms",
        "ours CPU us",
        "etcd /s",
        "etcd p50 ms",
        "etcd CPU us",
        "ratio",
    ]);
    let server = Server::start(&folder.join("ours")).await?;
    let (peer, address) = etcd::start(folder).await?;
    for clients in [1, 64] {
        let theirs = measured(&peer, etcd_writes(&address, clients)).await?;
        let bodies: [(&str, Payload); 2] =
            [("protobuf apply / put", typed_resource), ("JSON apply / put", resource)];
        for (work, body) in bodies {
            let ours = writes(server.light_clients(clients).await?, body);
            let ours = measured(&server.process, ours).await?;
            table.row(&row(work, clients, &ours, &theirs));
        }
    }
    let theirs = measured(&peer, etcd_writes(&address, 64)).await?;
    let ours = measured(&server.process, streamed(server.light_clients(64).await?)).await?;
    table.row(&row("protobuf apply in a stream / put", 64, &ours, &theirs));
    for clients in [1, 64] {
        let ours = measured(&server.process, reads(server.light_clients(clients).await?)).await?;
        let theirs = measured(&peer, etcd_reads(&address, clients)).await?;
        table.row(&row("get / linearizable get", clients, &ours, &theirs));
    }
    table.print();
    Ok(())
}

/// What happened, and the CPU time that the process spent on each request.
async fn measured(
    process: &Process,
    work: impl Future<Output = anyhow::Result<Outcome>>,
) -> anyhow::Result<(Outcome, Duration)> {
    let before = process.cpu()?;
    let outcome = work.await?;
    let spent = process.cpu()?.saturating_sub(before);
    let each = spent.div_f64(outcome.count.max(1) as f64);
    Ok((outcome, each))
}

fn row(
    work: &str,
    clients: usize,
    ours: &(Outcome, Duration),
    theirs: &(Outcome, Duration),
) -> Vec<String> {
    let cells = |(outcome, cpu): &(Outcome, Duration)| {
        [
            format!("{:.0}", outcome.per_second()),
            format!("{:.2}", outcome.percentile(0.5).as_secs_f64() * 1000.0),
            format!("{:.0}", cpu.as_secs_f64() * 1e6),
        ]
    };
    let ratio = ours.0.per_second() / theirs.0.per_second();
    let mut row = vec![work.to_owned(), clients.to_string()];
    row.extend(cells(ours));
    row.extend(cells(theirs));
    row.push(format!("{ratio:.2}"));
    row
}

async fn writes(clients: Vec<Client>, body: Payload) -> anyhow::Result<Outcome> {
    let path = method("Apply");
    load::run(clients, Until::Time(TIME), move |mut client: Client, sequence| {
        let path = path.clone();
        async move {
            let name = format!("bench-{}", sequence % OBJECTS);
            client.call(&path, &body(&name, PAYLOAD, sequence)).await?;
            Ok(client)
        }
    })
    .await
}

/// One stream for each client, with one request at a time in it: the same work in another envelope.
async fn streamed(clients: Vec<Client>) -> anyhow::Result<Outcome> {
    let mut streams = Vec::new();
    for client in clients {
        streams.push(Streaming::open(client, &method("ApplyEach")).await?);
    }
    load::run(streams, Until::Time(TIME), |mut stream: Streaming, sequence| async move {
        let name = format!("bench-{}", sequence % OBJECTS);
        let apply = Some(typed_resource(&name, PAYLOAD, sequence));
        let request = ApplyEachRequest { id: sequence as u64, apply };
        let answer = ApplyEachResponse::decode(stream.exchange(&request).await?)?;
        match answer.outcome {
            Some(EachOutcome::Applied(_)) => Ok(stream),
            Some(EachOutcome::Error(error)) => anyhow::bail!("refused: {}", error.message),
            None => anyhow::bail!("an answer without an outcome"),
        }
    })
    .await
}

async fn reads(clients: Vec<Client>) -> anyhow::Result<Outcome> {
    let path = method("Get");
    load::run(clients, Until::Time(TIME), move |mut client: Client, _| {
        let path = path.clone();
        async move {
            let name = ResourceName {
                kind: "Project".into(),
                name: "bench-0".into(),
                ..ResourceName::default()
            };
            let request = GetRequest { name: Some(name), ..GetRequest::default() };
            client.call(&path, &request).await?;
            Ok(client)
        }
    })
    .await
}

async fn etcd_clients(address: &str, count: usize) -> anyhow::Result<Vec<etcd::Client>> {
    let mut clients = Vec::new();
    for _ in 0..count {
        clients.push(etcd::Client::connect(address).await?);
    }
    Ok(clients)
}

async fn etcd_writes(address: &str, clients: usize) -> anyhow::Result<Outcome> {
    let value = "x".repeat(PAYLOAD + 112);
    let clients = etcd_clients(address, clients).await?;
    load::run(clients, Until::Time(TIME), move |mut client: etcd::Client, sequence| {
        let value = value.clone();
        async move {
            client.put(&format!("bench-{}", sequence % OBJECTS), &value).await?;
            Ok(client)
        }
    })
    .await
}

async fn etcd_reads(address: &str, clients: usize) -> anyhow::Result<Outcome> {
    let clients = etcd_clients(address, clients).await?;
    load::run(clients, Until::Time(TIME), |mut client: etcd::Client, _| async move {
        client.get("bench-0").await?;
        Ok(client)
    })
    .await
}
