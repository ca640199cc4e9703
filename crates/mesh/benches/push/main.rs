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
//!
//! And a change of what is declared, where every stream is of a service of its own, aggregated, and knows all
//! the others: the weights of a split, which all callers have in their routes, and the sources of a target,
//! which concerns one of them.
#![allow(clippy::print_stdout, reason = "a benchmark prints what it found")]
mod clients;
mod server;

use anyhow::{Context as _, Result};
use clients::{Asks, Clients};
use server::{Change, Server};
use std::time::Duration;
use tokio::time::Instant;

const STREAMS: [usize; 3] = [100, 500, 1000];
const ENDPOINTS: u16 = 10;
const SERVICES_FEW: usize = 10;
const SERVICES_MANY: usize = 1000;
const CHANGES: usize = 60;
/// Of what is declared: each goes to all with everything that all others have in their routes.
const CONFIG_CHANGES: usize = 10;
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
    let Some(most) = streams.iter().max() else { return Ok(()) };
    run(*most, SERVICES_MANY).await?;
    println!("config, every stream of a service of its own:");
    let mut server = Server::start(*most).await?;
    let mut clients = Clients::connect(server.address, *most, Asks::Config).await?;
    for (change, name, concerned) in
        [(Change::Split, "split", *most), (Change::Target, "target", 1)]
    {
        let measured = Measured::of(&mut server, &mut clients, change, concerned).await?;
        measured.print(*most, *most, &format!("  {name}, {concerned} concerned"));
    }
    Ok(())
}

async fn run(streams: usize, services: usize) -> Result<()> {
    let mut server = Server::start(services).await?;
    let mut clients = Clients::connect(server.address, streams, Asks::Endpoints).await?;
    let measured = Measured::of(&mut server, &mut clients, Change::Endpoint, streams).await?;
    measured.print(streams, services, "");
    Ok(())
}

struct Measured {
    /// From the change until everybody whom it concerns has it; sorted.
    took: Vec<Duration>,
    cpu_ms: f64,
    rss_mb: f64,
}

impl Measured {
    async fn of(
        server: &mut Server,
        clients: &mut Clients,
        change: Change,
        concerned: usize,
    ) -> Result<Self> {
        let (changes, warm_up) = match change {
            Change::Endpoint => (CHANGES, WARM_UP),
            Change::Split | Change::Target => (CONFIG_CHANGES, 1),
        };
        let (mut took, mut cpu_before) = (Vec::new(), Duration::ZERO);
        for number in 0..changes + warm_up {
            if number == warm_up {
                cpu_before = server.cpu()?;
            }
            let start = Instant::now();
            server.change(change).await?;
            clients.have_another(concerned).await?;
            if warm_up <= number {
                took.push(start.elapsed());
            }
        }
        let cpu_ms = (server.cpu()? - cpu_before).as_secs_f64() * 1000.0 / changes as f64;
        took.sort();
        Ok(Self { took, cpu_ms, rss_mb: server.rss_mb()? })
    }

    fn print(&self, streams: usize, services: usize, what: &str) {
        let last = self.took.len() - 1;
        let at = |part: f64| self.took[(last as f64 * part) as usize].as_secs_f64() * 1000.0;
        println!(
            "{streams:>7} {services:>8}  {:>10.1} / {:>8.1}  {:>20.1}  {:>13.1}{what}",
            at(0.5),
            at(0.99),
            self.cpu_ms,
            self.rss_mb
        );
    }
}
