//! Applies of many clients by several builds in turns, each on a server of its own: machines change their speed
//! between minutes, and a server may between its first second and its last.
use crate::throughput::{Payload, etcd_writes, make_project, measured, writes};
use orrery_bench::load::Outcome;
use orrery_bench::process::{Process, orrery, rest};
use orrery_bench::resources::{declared_workload, other_workload, resource, typed_resource};
use orrery_bench::server::Server;
use orrery_bench::{etcd, table::Table};
use std::path::{Path, PathBuf};
use std::time::Duration;

const CLIENTS: usize = 64;
const TIME: Duration = Duration::from_millis(500);
const TURNS: usize = 30;

/// What is applied.
const WORKS: [(&str, Payload); 4] = [
    ("a Project", typed_resource),
    ("a Project, JSON", resource),
    ("a Workload by a manager, JSON", declared_workload),
    ("another spec of one by a manager, JSON", other_workload),
];

/// Somebody who takes turns.
struct Competitor {
    name: String,
    /// Nothing of etcd, which has puts.
    applies: Option<(Server, Payload)>,
    turns: Vec<Turn>,
}

impl Competitor {
    fn new(name: String, applies: Option<(Server, Payload)>) -> Self {
        Self { name, applies, turns: Vec::new() }
    }
}

/// How one turn went; the times are for each apply, of all processors together.
struct Turn {
    per_second: f64,
    server_cpu: Duration,
    rest: Duration,
}

/// This build, or others where some are named.
pub async fn measure(folder: &Path, programs: &[String]) -> anyhow::Result<()> {
    println!("## Durable writes of {CLIENTS} clients in {TURNS} turns of {TIME:?}\n");
    let folder = &folder.join("turns");
    std::fs::create_dir(folder)?;
    let (peer, address) = etcd::start(folder).await?;
    let mut all = vec![Competitor::new("etcd: puts".to_owned(), None)];
    let mut programs: Vec<PathBuf> = programs.iter().map(PathBuf::from).collect();
    if programs.is_empty() {
        programs.push(orrery()?);
    }
    for program in &programs {
        for (work, payload) in WORKS {
            let data = folder.join(format!("ours-{}", all.len()));
            let server = Server::start_program(program, &data).await?;
            make_project(&server).await?;
            let name = format!("{}: {work}", program.display());
            all.push(Competitor::new(name, Some((server, payload))));
        }
    }
    for _ in 0..TURNS {
        for one in &mut all {
            let turn = match &one.applies {
                None => turn(&peer, etcd_writes(&address, CLIENTS, TIME)).await?,
                Some((server, payload)) => {
                    turn(&server.process, writes(server, CLIENTS, *payload, TIME)).await?
                }
            };
            one.turns.push(turn);
        }
    }
    print(&all);
    Ok(())
}

async fn turn(
    process: &Process,
    work: impl Future<Output = anyhow::Result<Outcome>>,
) -> anyhow::Result<Turn> {
    let before = rest()?;
    let (outcome, server_cpu) = measured(process, work).await?;
    let rested = rest()?.saturating_sub(before);
    let rest = rested.div_f64(outcome.count.max(1) as f64);
    Ok(Turn { per_second: outcome.per_second(), server_cpu, rest })
}

fn print(all: &[Competitor]) {
    let mut table = Table::new(&[
        "program",
        "writes /s",
        "lowest",
        "highest",
        "server CPU us",
        "processors rest, us",
        "of etcd's in the same turn",
    ]);
    for one in all {
        let rates = sorted(one.turns.iter().map(|turn| turn.per_second));
        let beside = one.turns.iter().zip(&all[0].turns);
        let ratios = sorted(beside.map(|(turn, peer)| turn.per_second / peer.per_second));
        let us = |of: fn(&Turn) -> Duration| {
            median(&sorted(one.turns.iter().map(|turn| of(turn).as_secs_f64() * 1e6)))
        };
        table.row(&[
            one.name.clone(),
            format!("{:.0}", median(&rates)),
            format!("{:.0}", rates[0]),
            format!("{:.0}", rates[rates.len() - 1]),
            format!("{:.1}", us(|turn| turn.server_cpu)),
            format!("{:.1}", us(|turn| turn.rest)),
            format!("{:.2}", median(&ratios)),
        ]);
    }
    table.print();
}

fn sorted(values: impl Iterator<Item = f64>) -> Vec<f64> {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values
}

fn median(sorted: &[f64]) -> f64 {
    sorted[sorted.len() / 2]
}
