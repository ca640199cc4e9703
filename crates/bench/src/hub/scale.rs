//! Many objects: memory, lists, start.
use orrery_bench::load::{self, Until};
use orrery_bench::resources::resource;
use orrery_bench::server::{Client, Server};
use orrery_bench::table::Table;
use orrery_proto::hub::v1::ListRequest;
use std::path::Path;
use std::time::Duration;
use tokio::time::Instant;

pub async fn measure(folder: &Path) -> anyhow::Result<()> {
    println!("## Many objects of 1 KB\n");
    let mut table = Table::new(&[
        "objects",
        "created /s (64 clients)",
        "memory MiB",
        "list of all s",
        "start s",
        "memory after start MiB",
    ]);
    for objects in [10_000, 100_000] {
        let data = folder.join(format!("scale-{objects}"));
        let server = Server::start(&data).await?;
        let rate = fill(&server, objects).await?;
        let memory = server.process.memory_mib()?;
        let listed = list(&server).await?;
        server.process.stop()?;
        let again = Server::start(&data).await?;
        let after = again.process.memory_mib()?;
        let started = again.started_in;
        table.row(&[
            objects.to_string(),
            format!("{rate:.0}"),
            format!("{memory:.0}"),
            format!("{:.2}", listed.as_secs_f64()),
            format!("{:.2}", started.as_secs_f64()),
            format!("{after:.0}"),
        ]);
    }
    table.print();
    Ok(())
}

/// Creates them, with many clients at once.
async fn fill(server: &Server, objects: usize) -> anyhow::Result<f64> {
    let clients = server.clients(64).await?;
    let outcome =
        load::run(clients, Until::Count(objects), |mut client: Client, sequence| async move {
            client.apply(resource(&format!("object-{sequence}"), 900, 0)).await?;
            Ok(client)
        });
    Ok(outcome.await?.per_second())
}

/// The whole list, in pages. Where the history went on under it, it begins anew, as a client would.
async fn list(server: &Server) -> anyhow::Result<Duration> {
    let mut client = server.clients(1).await?.remove(0);
    loop {
        let begun = Instant::now();
        match pages(&mut client).await {
            Ok(()) => return Ok(begun.elapsed()),
            Err(status) if status.code() == tonic::Code::OutOfRange => {}
            Err(status) => return Err(status.into()),
        }
    }
}

async fn pages(client: &mut Client) -> Result<(), tonic::Status> {
    let mut token = String::new();
    loop {
        let request = ListRequest {
            kind: "Project".into(),
            limit: 1000,
            r#continue: token,
            ..ListRequest::default()
        };
        token = client.list(request).await?.into_inner().r#continue;
        if token.is_empty() {
            return Ok(());
        }
    }
}
