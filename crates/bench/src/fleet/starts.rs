//! From the start of the process to its first answer.
use crate::work::{Way, apply_all, median, ms, workload};
use orrery_bench::server::Server;
use orrery_bench::table::Table;
use std::path::Path;

const TIMES: usize = 7;

pub async fn measure(folder: &Path) -> anyhow::Result<()> {
    println!("## Start to first answer\n");
    let mut table = Table::new(&["workloads", "ours p50 ms", "peer ms"]);
    for (count, peer) in [(0, "16-19"), (1000, "159-211")] {
        let data = folder.join(count.to_string());
        let server = Server::start(&data).await?;
        let requests = (0..count).map(|n| workload(&format!("w-{n}"), "nowhere", 0)).collect();
        apply_all(&server, requests, Way::Stream).await?;
        server.process.stop()?;
        let mut times = Vec::new();
        for _ in 0..TIMES {
            let server = Server::start(&data).await?;
            times.push(server.started_in);
            server.process.stop()?;
        }
        table.row(&[count.to_string(), ms(median(times)), peer.to_owned()]);
    }
    table.print();
    Ok(())
}
