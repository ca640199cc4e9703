//! One endpoint changes: how long until every stream has it, and what that costs the server.
//!
//! ```text
//!   this process: N streams, one connection each, every answer acknowledged
//!        │ a line on stdin: change           ^ answers
//!        v                                   │
//!   the same program, started with `serve`: the control plane alone, so that its processor time
//!   and memory are its own
//! ```
//! State of the world, plain text, on loopback. `cargo xtask bench mesh [streams ...]`.
#![allow(clippy::print_stdout, reason = "a benchmark prints what it found")]
mod clients;
mod server;

use anyhow::{Context as _, Result};
use clients::Clients;
use server::Server;
use std::time::Duration;
use tokio::time::Instant;

const STREAMS: [usize; 3] = [100, 500, 1000];
const ENDPOINTS: u16 = 10;
const SERVICES_FEW: usize = 10;
const SERVICES_MANY: usize = 1000;
const CHANGES: usize = 60;
/// Of the first changes, which find everything cold.
const WARM_UP: usize = 5;

fn main() -> Result<()> {
    let words: Vec<String> = std::env::args().skip(1).filter(|word| word != "--bench").collect();
    let runtime = tokio::runtime::Runtime::new().context("start a runtime")?;
    match words.first().map(String::as_str) {
        Some("serve") => {
            let services = words.get(1).context("how many services?")?.parse()?;
            runtime.block_on(server::serve(services, ENDPOINTS))
        }
        _ => runtime.block_on(measure(&words)),
    }
}

async fn measure(words: &[String]) -> Result<()> {
    let given: Vec<usize> = words.iter().map(|word| word.parse()).collect::<Result<_, _>>()?;
    let streams = if given.is_empty() { STREAMS.to_vec() } else { given };
    println!("streams services  all have it p50/p99 ms  server CPU ms/change  server RSS MB");
    for streams in &streams {
        run(*streams, SERVICES_FEW).await?;
    }
    if let Some(most) = streams.iter().max() {
        run(*most, SERVICES_MANY).await?;
    }
    Ok(())
}

async fn run(streams: usize, services: usize) -> Result<()> {
    let mut server = Server::start(services).await?;
    let mut clients = Clients::connect(server.address, streams).await?;
    let mut took = Vec::new();
    let mut cpu_before = Duration::ZERO;
    for change in 0..CHANGES + WARM_UP {
        if change == WARM_UP {
            cpu_before = server.cpu()?;
        }
        let start = Instant::now();
        server.change().await?;
        clients.all_have_another().await?;
        if WARM_UP <= change {
            took.push(start.elapsed());
        }
    }
    let cpu = (server.cpu()? - cpu_before).as_secs_f64() * 1000.0 / CHANGES as f64;
    took.sort();
    let at = |part: f64| took[((took.len() - 1) as f64 * part) as usize].as_secs_f64() * 1000.0;
    println!(
        "{streams:>7} {services:>8}  {:>10.1} / {:>8.1}  {cpu:>20.1}  {:>13.1}",
        at(0.5),
        at(0.99),
        server.rss_mb()?
    );
    Ok(())
}
