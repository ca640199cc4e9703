//! Durable writes and consistent reads.
use anyhow::Context as _;
use orrery_bench::grpc::Client;
use orrery_bench::load::{self, Method, Outcome, Until};
use orrery_bench::process::Process;
use orrery_bench::resources::{
    PROJECT, declared_workload, other_workload, resource, typed_resource, typed_workload,
};
use orrery_bench::server::Server;
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
pub type Payload = fn(&str, usize, usize) -> ApplyRequest;

/// Objects that the writers change in turn.
const OBJECTS: usize = 256;

const COLUMNS: [&str; 9] = [
    "work",
    "clients",
    "ours /s",
    "ours p50 ms",
    "ours CPU us",
    "etcd /s",
    "etcd p50 ms",
    "etcd CPU us",
    "ratio",
];

pub async fn measure(folder: &Path) -> anyhow::Result<()> {
    println!("## Durable writes and consistent reads, {TIME:?} each\n");
    let mut table = Table::new(&COLUMNS);
    let server = Server::start(&folder.join("ours")).await?;
    let (peer, address) = etcd::start(folder).await?;
    make_project(&server).await?;
    for clients in [1, 64] {
        let theirs = measured(&peer, etcd_writes(&address, clients, TIME)).await?;
        let bodies: [(&str, Payload); 5] = [
            ("protobuf apply / put", typed_resource),
            ("JSON apply / put", resource),
            ("protobuf apply of a Workload / put", typed_workload),
            ("JSON apply of a Workload by a manager / put", declared_workload),
            ("JSON apply of another spec by a manager / put", other_workload),
        ];
        for (work, body) in bodies {
            let ours = measured(&server.process, writes(&server, clients, body, TIME)).await?;
            table.row(&row(work, clients, &ours, &theirs));
        }
    }
    let theirs = measured(&peer, etcd_writes(&address, 64, TIME)).await?;
    let ours = measured(&server.process, streamed(&server, 64)).await?;
    table.row(&row("protobuf apply in a stream / put", 64, &ours, &theirs));
    for clients in [1, 64] {
        let ours = measured(&server.process, reads(&server, clients)).await?;
        let theirs = measured(&peer, etcd_reads(&address, clients)).await?;
        table.row(&row("get / linearizable get", clients, &ours, &theirs));
    }
    table.print();
    Ok(())
}

/// The project that Workloads are written in.
pub async fn make_project(server: &Server) -> anyhow::Result<()> {
    let project = typed_resource(PROJECT, 0, 0).encode_to_vec();
    checked(&server.method("Apply"), project).await
}

/// What happened, and the CPU time that the process spent on each request.
pub async fn measured(
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

pub async fn writes(
    server: &Server,
    clients: usize,
    body: Payload,
    time: Duration,
) -> anyhow::Result<Outcome> {
    let apply = server.method("Apply");
    let message = move |sequence| body(&name(sequence), PAYLOAD, sequence).encode_to_vec();
    checked(&apply, message(0)).await?;
    apply.called(clients, time, message).await
}

fn name(sequence: usize) -> String {
    format!("bench-{}", sequence % OBJECTS)
}

/// Calls once with a client that tells what went wrong.
async fn checked(method: &Method, message: Vec<u8>) -> anyhow::Result<()> {
    let mut client = Client::connect(&method.address).await?;
    client.call_encoded(&method.path, &message).await.map(drop)
}

/// One stream for each client, with one request at a time in it: the same work in another envelope.
async fn streamed(server: &Server, clients: usize) -> anyhow::Result<Outcome> {
    let each = server.method("ApplyEach");
    load::apart(async move || {
        let mut streams = Vec::new();
        for _ in 0..clients {
            streams.push(each.talk().await?);
        }
        load::run(streams, Until::Time(TIME), |mut stream, sequence| async move {
            let apply = Some(typed_resource(&name(sequence), PAYLOAD, sequence));
            let request = ApplyEachRequest { id: sequence as u64, apply };
            stream.say(&request.encode_to_vec()).await?;
            let answer = stream.hear().await?.context("the stream ended")?;
            match ApplyEachResponse::decode(answer)?.outcome {
                Some(EachOutcome::Applied(_)) => Ok(stream),
                Some(EachOutcome::Error(error)) => anyhow::bail!("refused: {}", error.message),
                None => anyhow::bail!("an answer without an outcome"),
            }
        })
        .await
    })
    .await
}

async fn reads(server: &Server, clients: usize) -> anyhow::Result<Outcome> {
    let get = server.method("Get");
    let name = ResourceName { kind: "Project".into(), name: name(0), ..ResourceName::default() };
    let request = GetRequest { name: Some(name), ..GetRequest::default() }.encode_to_vec();
    checked(&get, request.clone()).await?;
    get.called(clients, TIME, move |_| request.clone()).await
}

pub async fn etcd_writes(address: &str, clients: usize, time: Duration) -> anyhow::Result<Outcome> {
    let put = Method { address: address.to_owned(), path: etcd::PUT.to_owned() };
    let value = "x".repeat(PAYLOAD + 112);
    let message = move |sequence| etcd::put(&name(sequence), &value);
    checked(&put, message(0)).await?;
    put.called(clients, time, message).await
}

async fn etcd_reads(address: &str, clients: usize) -> anyhow::Result<Outcome> {
    let get = Method { address: address.to_owned(), path: etcd::GET.to_owned() };
    let message = |_| etcd::get(&name(0));
    checked(&get, message(0)).await?;
    get.called(clients, TIME, message).await
}
