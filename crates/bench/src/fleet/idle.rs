//! Agents that have nothing to say.
use crate::agents::Agents;
use orrery_bench::server::Server;
use orrery_bench::table::Table;
use std::path::Path;
use std::time::Duration;

const WATCHED: Duration = Duration::from_secs(10);

pub async fn measure(folder: &Path) -> anyhow::Result<()> {
    println!("## Idle agents\n");
    let mut table =
        Table::new(&["agents", "server memory MB", "peer MB", "server CPU, % of a core"]);
    for (count, peer) in [(1, "8.4"), (200, "15.6"), (1000, "44.7")] {
        let server = Server::start(&folder.join(count.to_string())).await?;
        let _agents = Agents::connect(&server.url, count, false).await?;
        let before = server.process.cpu()?;
        tokio::time::sleep(WATCHED).await;
        let used = server.process.cpu()? - before;
        let memory = server.process.memory_mib()? * 1.048_576;
        let share = used.as_secs_f64() / WATCHED.as_secs_f64() * 100.0;
        let cells =
            [count.to_string(), format!("{memory:.1}"), peer.to_owned(), format!("{share:.1}")];
        table.row(&cells);
    }
    table.print();
    Ok(())
}
