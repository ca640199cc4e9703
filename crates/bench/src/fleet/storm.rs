//! All agents come back at once.
use crate::agents::{Agents, name};
use crate::work::{Way, apply_all, ms, workload};
use orrery_bench::server::Server;
use orrery_bench::table::Table;
use std::path::Path;
use tokio::time::Instant;

const AGENTS: usize = 1000;

pub async fn measure(folder: &Path) -> anyhow::Result<()> {
    println!("## {AGENTS} agents reconnect at once\n");
    let mut table = Table::new(&["workloads that the server knows", "all served ms", "peer"]);
    let server = Server::start(folder).await?;
    let mut there = 0;
    for (count, peer) in [(1000, "deadlock at 60 agents"), (10_000, "")] {
        let more = (there..count).map(|n| workload(&format!("w-{n}"), &name(n % AGENTS), 0));
        apply_all(&server, more.collect(), Way::Stream).await?;
        there = count;
        drop(Agents::connect(&server.url, AGENTS, true).await?);
        let begun = Instant::now();
        let agents = Agents::connect(&server.url, AGENTS, true).await?;
        agents.board.until(|board| &board.delivered, count).await;
        table.row(&[count.to_string(), ms(begun.elapsed()), peer.to_owned()]);
        drop(agents);
    }
    table.print();
    Ok(())
}
