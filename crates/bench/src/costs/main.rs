//! `cargo xtask bench costs [OBJECTS [workloads]]`: what reads, writes, watches, lists and a start cost in the hub on
//! the embedded store, without any transport.
#![allow(clippy::print_stdout, reason = "a benchmark prints its table")]
#![allow(clippy::cast_precision_loss, reason = "figures for people")]
mod world;

use futures::StreamExt as _;
use orrery_api::LabelSelector;
use orrery_bench::process::own_cpu;
use orrery_bench::table::Table;
use orrery_hub::{ListOptions, WatchEvent, WatchOptions};
use std::path::Path;
use std::time::Duration;
use tokio::task::JoinSet;
use tokio::time::Instant;
use world::{How, World};

const READS: usize = 200_000;
const WRITES: usize = 20_000;
const WRITERS: usize = 64;
const WATCHERS: usize = 1000;
const CHANGES: usize = 50;

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let objects = std::env::args().nth(1).map_or(Ok(100_000), |text| text.parse())?;
    let folder = tempfile::tempdir_in(std::env::current_dir()?.join("target"))?;
    let mut table = Table::new(&["work", "count", "wall s", "CPU us each"]);
    let world = World::open(folder.path()).await?;
    let mut row = |work: &str, count: usize, (wall, cpu): (Duration, Duration)| {
        let each = cpu.as_secs_f64() * 1e6 / count as f64;
        let wall = format!("{:.2}", wall.as_secs_f64());
        table.row(&[work.to_owned(), count.to_string(), wall, format!("{each:.1}")]);
    };
    if std::env::args().nth(2).is_some_and(|part| part == "workloads") {
        workloads(&world, &mut row).await?;
        table.print();
        return Ok(());
    }
    let fill = world.write(How::Bytes, objects, WRITERS, objects);
    row("create, 64 at once", objects, measured(fill).await?);
    let ways = [
        ("change, 64 at once", How::Bytes),
        ("change of a decoded object, 64 at once", How::Object),
        ("change of the status, 64 at once", How::Status),
    ];
    for (work, how) in ways {
        row(work, WRITES, measured(world.write(how, WRITES, WRITERS, 256)).await?);
    }
    row("change, one at a time", 2000, measured(world.write(How::Bytes, 2000, 1, 256)).await?);
    row("get, as bytes", READS, measured(reads(&world, false)).await?);
    row("get, decoded", READS, measured(reads(&world, true)).await?);
    row("list of all, as bytes", objects, measured(lists(&world)).await?);
    row("list of one by label", 1000, measured(selected(&world)).await?);
    row("change told to a watcher", WATCHERS * CHANGES, measured(watched(&world)).await?);
    // Last, because from now on somebody manages these objects.
    let managed = world.write(How::Managed, WRITES, WRITERS, 256);
    row("change by a manager, 64 at once", WRITES, measured(managed).await?);
    workloads(&world, &mut row).await?;
    world.close().await;
    row("start, each object", objects, measured(start(folder.path())).await?);
    table.print();
    Ok(())
}

/// What people declare most, in the ways in which it comes.
async fn workloads(
    world: &World,
    row: &mut impl FnMut(&str, usize, (Duration, Duration)),
) -> anyhow::Result<()> {
    let ways = [
        ("change of a Workload, 64 at once", How::Bytes),
        ("change of a decoded Workload, 64 at once", How::Object),
        ("change of a Workload by a manager, 64 at once", How::Managed),
    ];
    for (work, how) in ways {
        row(work, WRITES, measured(world.write_workloads(how, WRITES)).await?);
    }
    Ok(())
}

async fn measured(
    work: impl Future<Output = anyhow::Result<()>>,
) -> anyhow::Result<(Duration, Duration)> {
    let (begun, before) = (Instant::now(), own_cpu()?);
    work.await?;
    Ok((begun.elapsed(), own_cpu()?.saturating_sub(before)))
}

async fn reads(world: &World, decoded: bool) -> anyhow::Result<()> {
    for number in 0..READS {
        let name = world::name(number % 256);
        if decoded {
            world.projects.get(name.into()).await?;
        } else {
            world.projects.get_encoded(name.into()).await?;
        }
    }
    Ok(())
}

async fn lists(world: &World) -> anyhow::Result<()> {
    let mut options = ListOptions { limit: 1000, ..ListOptions::default() };
    loop {
        let page = world.projects.list_encoded(options.clone()).await?;
        options.continue_from = page.continue_from;
        if options.continue_from.is_none() {
            return Ok(());
        }
    }
}

async fn selected(world: &World) -> anyhow::Result<()> {
    for number in 0..1000 {
        let labels = LabelSelector::parse(&format!("number=n{number}"))?;
        let options = ListOptions { labels, ..ListOptions::default() };
        let found = world.projects.list_encoded(options).await?.items.len();
        anyhow::ensure!(found == 1, "{found} objects instead of one");
    }
    Ok(())
}

/// Every watcher must be told every change.
async fn watched(world: &World) -> anyhow::Result<()> {
    let mut watchers = JoinSet::new();
    let after = Some(world.store.revision());
    for _ in 0..WATCHERS {
        let options = WatchOptions { after, ..WatchOptions::default() };
        let mut events = world.projects.watch_encoded(options).await?;
        watchers.spawn(async move {
            let mut heard = 0;
            while heard < CHANGES {
                match events.next().await {
                    Some(Ok(WatchEvent::Modified(_))) => heard += 1,
                    Some(Ok(_)) => {}
                    Some(Err(error)) => anyhow::bail!("the watch broke: {error}"),
                    None => anyhow::bail!("the watch ended"),
                }
            }
            anyhow::Ok(())
        });
    }
    world.write(How::Bytes, CHANGES, 1, 1).await?;
    while let Some(ended) = watchers.join_next().await {
        ended??;
    }
    Ok(())
}

async fn start(folder: &Path) -> anyhow::Result<()> {
    let world = World::open(folder).await?;
    println!("memory after the start: {:.0} MiB\n", orrery_bench::process::own_memory_mib()?);
    world.close().await;
    Ok(())
}
