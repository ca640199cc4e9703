//! From an apply to the agents.
use crate::agents::{Agents, name};
use crate::work::{Running, Way, apply_all, median, ms, replicated, workload};
use orrery_bench::server::Server;
use orrery_bench::table::Table;
use std::path::Path;
use std::sync::atomic::Ordering;
use std::time::Duration;
use tokio::time::Instant;

const CHANGES: usize = 200;

/// One changed workload, with others around.
pub async fn one_change(folder: &Path) -> anyhow::Result<()> {
    println!(
        "## One changed workload reaches its agent (durably stored first), {CHANGES} changes\n"
    );
    let mut table = Table::new(&["other workloads", "ours p50 ms", "ours p99 ms", "peer p50 ms"]);
    for (others, peer) in [(0, "0.4"), (1000, "96"), (5000, "545")] {
        let server = Server::start(&folder.join(others.to_string())).await?;
        let agents = Agents::connect_light(&server.url, 10).await?;
        let mut running = Running::watch(&server).await?;
        let filler = (0..others).map(|n| workload(&format!("other-{n}"), &name(1 + n % 9), 0));
        apply_all(&server, filler.collect(), Way::Stream).await?;
        let mut client = server.clients(1).await?.remove(0);
        client.apply(workload("changed", &name(0), 0)).await?;
        agents.board.until(|board| &board.delivered, others + 1).await;
        // The others have to be at rest: what they report is stored after they were handed out.
        running.until(others + 1).await?;
        let mut times = Vec::new();
        for version in 1..=CHANGES {
            let seen = agents.board.delivered.load(Ordering::SeqCst);
            let begun = Instant::now();
            client.apply(workload("changed", &name(0), version)).await?;
            agents.board.until(|board| &board.delivered, seen + 1).await;
            times.push(begun.elapsed());
        }
        times.sort_unstable();
        let last = times[times.len() * 99 / 100];
        table.row(&[others.to_string(), ms(median(times)), ms(last), peer.to_owned()]);
    }
    table.print();
    Ok(())
}

/// A thousand workloads, and one with a thousand copies.
pub async fn many(folder: &Path) -> anyhow::Result<()> {
    println!("## A thousand at once\n");
    let mut table = Table::new(&[
        "work",
        "agents",
        "all delivered ms",
        "peer",
        "all Running in the store ms",
        "peer",
        "server CPU ms until then",
    ]);
    let peers =
        [(1, "115-147", ""), (100, "119-194", ""), (200, "", "1570"), (1000, "206-231", "9600")];
    for (way, words) in [(Way::Stream, "in a stream"), (Way::Calls, "in calls")] {
        for (count, delivered, running) in peers {
            let data = folder.join(format!("many-{count}-{words}"));
            let (arrived, ran, used) = thousand(&data, count, way).await?;
            let work = format!("1,000 workloads {words}");
            let cells = [work, count.to_string(), ms(arrived), delivered.to_owned()];
            table.row(&[cells.as_slice(), &[ms(ran), running.to_owned(), ms(used)]].concat());
        }
    }
    let server = Server::start(&folder.join("copies")).await?;
    let agents = Agents::connect_light(&server.url, 1000).await?;
    let mut watched = Running::watch(&server).await?;
    let (begun, cpu) = (Instant::now(), server.process.cpu()?);
    apply_all(&server, vec![replicated("web", 1000)], Way::Stream).await?;
    agents.board.until(|board| &board.delivered, 1000).await;
    let arrived = begun.elapsed();
    watched.until(1000).await?;
    let cells = ["1 workload, 1,000 copies".to_owned(), "1000".to_owned(), ms(arrived)];
    let ran = ms(begun.elapsed());
    let rest = [String::new(), ran, String::new(), ms(server.process.cpu()? - cpu)];
    table.row(&[cells.as_slice(), &rest].concat());
    table.print();
    Ok(())
}

/// Until a thousand workloads have come to so many agents, until all are said to run, and what the server spent.
async fn thousand(
    data: &Path,
    agents: usize,
    way: Way,
) -> anyhow::Result<(Duration, Duration, Duration)> {
    let server = Server::start(data).await?;
    let connected = Agents::connect_light(&server.url, agents).await?;
    let requests = (0..1000).map(|n| workload(&format!("w-{n}"), &name(n % agents), 0)).collect();
    let mut watched = Running::watch(&server).await?;
    let (begun, cpu) = (Instant::now(), server.process.cpu()?);
    let all = async {
        apply_all(&server, requests, way).await?;
        connected.board.until(|board| &board.delivered, 1000).await;
        anyhow::Ok(begun.elapsed())
    };
    let running_all = async {
        watched.until(1000).await?;
        anyhow::Ok(begun.elapsed())
    };
    let (arrived, ran) = tokio::try_join!(all, running_all)?;
    Ok((arrived, ran, server.process.cpu()? - cpu))
}
