//! `orrery top`: who uses how much.
use super::usage;
use crate::args::{Global, TopArguments, TopCommand};
use crate::connection::Target;
use crate::figures::Figures;
use crate::output::print;
use crate::output::style;
use crate::output::table::plain_lines;
use std::time::Duration;

pub async fn run(global: &Global, arguments: TopArguments) -> anyhow::Result<()> {
    match arguments.command {
        TopCommand::Server { interval, connection } => {
            let target = Target::find(global, &connection)?;
            let server = target.connect().await?;
            let before = Figures::parse(&server.metrics().await?);
            tokio::time::sleep(Duration::from_secs(interval)).await;
            let after = Figures::parse(&server.metrics().await?);
            let url = target.context().server.clone();
            let rows = rows(&url, &before, &after, seconds(interval));
            print::lines(&plain_lines(&rows, style::stdout()))
        }
        TopCommand::Nodes { connection } => usage::nodes(global, &connection).await,
        TopCommand::Workloads { project, all_projects, connection } => {
            usage::workloads(global, &connection, project.as_deref(), all_projects).await
        }
    }
}

#[allow(clippy::cast_precision_loss, reason = "an interval of a few seconds")]
fn seconds(interval: u64) -> f64 {
    interval as f64
}

/// What happened between two looks, and how things are at the second.
fn rows(url: &str, before: &Figures, after: &Figures, seconds: f64) -> Vec<Vec<String>> {
    let since = after.since(before);
    let now = |name: &str| format!("{:.0}", after.sum(name));
    let rate = |name: &str| format!("{:.1}/s", since.sum(name) / seconds);
    let failed = since.sum_where("orrery_api_requests_total", "code", |code| code.starts_with('5'));
    let time = |name: &str, part: f64| match since.quantile(name, part) {
        Some(bound) => format!("<{}", duration(bound)),
        None => "-".to_owned(),
    };
    let memory = after.sum("process_resident_memory_bytes") / f64::from(1 << 20);
    let cpu = 100.0 * since.sum("process_cpu_seconds_total") / seconds;
    let leads = if 0.0 < after.sum("orrery_server_leader") { "yes" } else { "no" };
    let pairs = [
        ("server", url.to_owned()),
        ("version", after.label("orrery_build_info", "version").unwrap_or("-").to_owned()),
        ("leader", leads.to_owned()),
        ("cpu", format!("{cpu:.0}%")),
        ("memory", format!("{memory:.0} MiB")),
        ("open files", now("process_open_fds")),
        ("connections", now("orrery_server_connections")),
        ("agents", now("orrery_fleet_agents")),
        ("commanders", now("orrery_fleet_commanders")),
        ("requests", rate("orrery_api_requests_total")),
        ("failed requests", format!("{:.1}/s", failed / seconds)),
        ("refused requests", rate("orrery_api_refusals_total")),
        ("request time p50", time("orrery_api_request_duration_seconds", 0.5)),
        ("request time p99", time("orrery_api_request_duration_seconds", 0.99)),
        ("requests in flight", now("orrery_api_requests_in_flight")),
        ("watches", now("orrery_api_watchers")),
        ("objects", now("orrery_store_entries")),
        ("revision", now("orrery_store_revision")),
        ("commits", rate("orrery_store_commits_total")),
        ("commit time p99", time("orrery_store_commit_duration_seconds", 0.99)),
        ("reconciliations", rate("orrery_controller_reconciles_total")),
        ("waiting for controllers", now("orrery_controller_queue_depth")),
    ];
    let header = vec!["WHAT".to_owned(), "NOW".to_owned()];
    let rest = pairs.into_iter().map(|(what, value)| vec![what.to_owned(), value]);
    std::iter::once(header).chain(rest).collect()
}

fn duration(seconds: f64) -> String {
    if seconds < 0.001 {
        return format!("{:.0}µs", seconds * 1e6);
    }
    if seconds < 1.0 { format!("{:.1}ms", seconds * 1e3) } else { format!("{seconds:.1}s") }
}
