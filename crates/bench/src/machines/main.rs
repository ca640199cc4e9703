//! `cargo xtask bench machines`: machines made by a driver that takes 50 ms for each operation, and many
//! machines at rest.
#![allow(clippy::print_stdout, reason = "a benchmark prints its table")]
use anyhow::Context as _;
use orrery_bench::process::{self, Process};
use orrery_bench::table::Table;
use orrery_driver::{Created, Driver, Error, Machine, Options, Request};
use orrery_proto::hub::v1::hub_client::HubClient;
use orrery_proto::hub::v1::{ApplyRequest, ListRequest, Resource, resource::Body};
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;
use tonic::transport::Channel;

/// How long the provider takes.
const OPERATION: Duration = Duration::from_millis(50);
/// Operations at once: enough that the provider is not what is measured.
const AT_ONCE: usize = 256;
/// How long machines are watched doing nothing, after they have come to rest.
const REST: Duration = Duration::from_secs(60);
const SETTLE: Duration = Duration::from_secs(10);

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let folder = tempfile::tempdir_in(std::env::current_dir()?.join("target"))?;
    println!("## Machines, {} ms for each operation of the provider\n", OPERATION.as_millis());
    let mut table = Table::new(&[
        "machines",
        "all made s",
        "server CPU s",
        "CPU per machine ms",
        "memory MiB",
        "CPU at rest s/min",
        "operations at rest",
    ]);
    for machines in [1_000, 10_000] {
        let data = folder.path().join(machines.to_string());
        table.row(&measure(&data, machines).await?);
    }
    table.print();
    Ok(())
}

async fn measure(data: &Path, machines: usize) -> anyhow::Result<Vec<String>> {
    let (server, mut client, drivers) = start(data).await?;
    let cloud = Arc::new(Cloud::default());
    let channel = orrery_driver::channel(&drivers, None)?;
    let mut options = Options::new("bench", "infra.orrery.dev", "BenchMachine", "v1");
    options.max_concurrent = AT_ONCE;
    let stop = CancellationToken::new();
    let running = orrery_driver::run(options, channel, cloud.clone(), stop.clone());
    let mut driver = tokio::task::JoinSet::new();
    driver.spawn(stop.clone().run_until_cancelled_owned(running));
    let (begun, cpu) = (Instant::now(), server.cpu()?);
    for manifest in manifests(machines) {
        apply(&mut client, manifest).await?;
    }
    while cloud.made.load(Ordering::Relaxed) < machines || known(&mut client).await? < machines {
        sleep(Duration::from_millis(if machines > 1000 { 1000 } else { 50 })).await;
    }
    let (wall, used) = (begun.elapsed(), server.cpu()?.saturating_sub(cpu));
    sleep(SETTLE).await;
    let (cpu, operations) = (server.cpu()?, cloud.operations.load(Ordering::Relaxed));
    sleep(REST).await;
    let at_rest = server.cpu()?.saturating_sub(cpu);
    let asked = cloud.operations.load(Ordering::Relaxed) - operations;
    let memory = server.memory_mib()?;
    stop.cancel();
    driver.join_all().await;
    Ok(vec![
        machines.to_string(),
        format!("{:.1}", wall.as_secs_f64()),
        format!("{:.1}", used.as_secs_f64()),
        format!("{:.2}", used.as_secs_f64() * 1000.0 / machines as f64),
        format!("{memory:.0}"),
        format!("{:.2}", at_rest.as_secs_f64()),
        asked.to_string(),
    ])
}

/// A server on ports of its own.
async fn start(data: &Path) -> anyhow::Result<(Process, HubClient<Channel>, String)> {
    let (port, drivers) = (process::free_port()?, process::free_port()?);
    let drivers = format!("127.0.0.1:{drivers}");
    let mut command = Command::new(process::orrery()?);
    command.args(["server", "--log", "error", "--storage-listen", "off", "--drivers-listen"]);
    command.args([&drivers, "--listen", &format!("127.0.0.1:{port}"), "--data-dir"]).arg(data);
    let server = Process::start(&mut command)?;
    process::listening(port).await?;
    let client = HubClient::connect(format!("http://127.0.0.1:{port}")).await?;
    Ok((server, client.max_decoding_message_size(64 << 20), drivers))
}

fn manifests(machines: usize) -> [String; 3] {
    let infra = r#""apiVersion":"infra.orrery.dev/v1""#;
    let meta = |name: &str| format!(r#""metadata":{{"name":"{name}","project":"bench"}}"#);
    [
        r#"{"apiVersion":"core.orrery.dev/v1","kind":"Project","metadata":{"name":"bench"}}"#
            .into(),
        format!(
            r#"{{{infra},"kind":"MachineClass",{},"spec":{{"provider":"BenchMachine"}}}}"#,
            meta("small")
        ),
        format!(
            r#"{{{infra},"kind":"MachineDeployment",{},"spec":{{"replicas":{machines},"template":{{"class":"small"}}}}}}"#,
            meta("pool")
        ),
    ]
}

async fn apply(client: &mut HubClient<Channel>, json: String) -> anyhow::Result<()> {
    let resource = Resource { body: Some(Body::Json(json)), ..Resource::default() };
    let request = ApplyRequest { resource: Some(resource), ..ApplyRequest::default() };
    client.apply(request).await.context("declare machines")?;
    Ok(())
}

/// How many machines the server knows to be made.
async fn known(client: &mut HubClient<Channel>) -> anyhow::Result<usize> {
    let (mut count, mut token) = (0, String::new());
    loop {
        let request = ListRequest {
            kind: "Machine".into(),
            project: "bench".into(),
            field_selector: "status.phase=Available".into(),
            r#continue: token,
            ..ListRequest::default()
        };
        let page = client.list(request).await?.into_inner();
        count += page.items.len();
        token = page.r#continue;
        if token.is_empty() {
            return Ok(count);
        }
    }
}

/// A provider in memory.
#[derive(Default)]
struct Cloud {
    made: AtomicUsize,
    operations: AtomicUsize,
}

#[async_trait::async_trait]
impl Driver for Cloud {
    async fn create(&self, request: &Request) -> Result<Created, Error> {
        self.operations.fetch_add(1, Ordering::Relaxed);
        sleep(OPERATION).await;
        self.made.fetch_add(1, Ordering::Relaxed);
        let provider_id = format!("bench:///{}", request.idempotency_key);
        let node_name = request.machine_name.clone();
        Ok(Created { provider_id, node_name, ..Created::default() })
    }

    async fn delete(&self, _: &Request) -> Result<(), Error> {
        self.operations.fetch_add(1, Ordering::Relaxed);
        sleep(OPERATION).await;
        Ok(())
    }

    async fn list(&self, _: &Request) -> Result<Vec<Machine>, Error> {
        self.operations.fetch_add(1, Ordering::Relaxed);
        Ok(Vec::new())
    }
}
