//! The command line: lists of workloads, and an apply that waits.
use crate::agents::{Agents, name};
use crate::work::{Way, apply_all, median, ms, workload};
use anyhow::Context as _;
use orrery_bench::process;
use orrery_bench::server::Server;
use orrery_bench::table::Table;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;
use tokio::time::Instant;

const TIMES: usize = 9;

pub async fn measure(folder: &Path) -> anyhow::Result<()> {
    println!("## Lists by the command line\n");
    let server = Server::start(&folder.join("lists")).await?;
    let mut table = Table::new(&["workloads", "ours p50 ms", "peer p50 ms"]);
    let mut there = 0;
    let cases =
        [(0, "5.6"), (200, "11.5"), (1000, "35"), (5000, "188"), (10_000, "fails"), (20_000, "")];
    for (count, peer) in cases {
        let more = (there..count).map(|n| workload(&format!("w-{n}"), "nowhere", 0)).collect();
        apply_all(&server, more, Way::Stream).await?;
        there = count;
        let mut times = Vec::new();
        for _ in 0..TIMES {
            times.push(cli(&server, &["get", "workloads", "-A"])?);
        }
        table.row(&[count.to_string(), ms(median(times)), peer.to_owned()]);
    }
    table.print();
    apply_and_wait(folder).await
}

async fn apply_and_wait(folder: &Path) -> anyhow::Result<()> {
    let server = Server::start(&folder.join("wait")).await?;
    let _agents = Agents::connect(&server.url, 10, true).await?;
    let document = |n: usize| {
        let node = name(n % 10);
        format!(
            "---\napiVersion: apps.orrery.dev/v1\nkind: Workload\n\
             metadata: {{name: w-{n}, project: default}}\n\
             spec: {{process: {{command: 'true'}}, placement: {{nodes: [{node}]}}}}\n"
        )
    };
    let file = folder.join("many.yaml");
    std::fs::write(&file, (0..1000).map(document).collect::<String>())?;
    let file = file.to_str().context("a path")?;
    let time = cli(&server, &["apply", "--wait", "-f", file])?;
    let mut table =
        Table::new(&["`apply --wait` of 1,000 by the command line", "ours s", "peer s"]);
    table.row(&[String::new(), format!("{:.2}", time.as_secs_f64()), "5.5-7.2".to_owned()]);
    table.print();
    Ok(())
}

fn cli(server: &Server, words: &[&str]) -> anyhow::Result<Duration> {
    let begun = Instant::now();
    let status = Command::new(process::orrery()?)
        .args(words)
        .args(["--server", &server.url])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()?;
    anyhow::ensure!(status.success(), "orrery {} failed", words.join(" "));
    Ok(begun.elapsed())
}
