//! `orrery top nodes` and `orrery top workloads`.
use crate::args::{Connection, Global};
use crate::connection::Target;
use crate::output::{print, style, table};
use orrery_proto::fleet::v1::{TopRequest, TopRow, Usage};

const MIB: i64 = 1 << 20;

/// What the nodes use.
pub async fn nodes(global: &Global, connection: &Connection) -> anyhow::Result<()> {
    let server = Target::find(global, connection)?.connect().await?;
    let rows = server.top(TopRequest { project: String::new(), nodes: true }).await?.rows;
    show(&rows, node_table(&rows), "no nodes")
}

/// What the copies of workloads use; of one project, or of all.
pub async fn workloads(
    global: &Global,
    connection: &Connection,
    project: Option<&str>,
    everywhere: bool,
) -> anyhow::Result<()> {
    let target = Target::find(global, connection)?;
    let project = if everywhere { String::new() } else { target.project(project) };
    let server = target.connect().await?;
    let rows = server.top(TopRequest { project, nodes: false }).await?.rows;
    show(&rows, copy_table(&rows, everywhere), "no copies of workloads")
}

fn show(rows: &[TopRow], cells: Vec<Vec<String>>, none: &str) -> anyhow::Result<()> {
    if rows.is_empty() {
        print::note(none);
        return Ok(());
    }
    print::lines(&table::plain_lines(&cells, style::stdout()))?;
    for row in rows.iter().filter(|row| !row.problem.is_empty()) {
        print::note(&format!("{}: {}", row.name, row.problem));
    }
    Ok(())
}

fn node_table(rows: &[TopRow]) -> Vec<Vec<String>> {
    let head = ["NAME", "CPU(m)", "CPU%", "MEMORY(MiB)", "MEMORY%"].map(str::to_owned);
    let row = |row: &TopRow| {
        let all = row.allocatable.unwrap_or_default();
        let usage = row.usage;
        vec![
            row.name.clone(),
            cpu(usage),
            percent(usage.map(|usage| usage.cpu_millis), all.cpu_millis),
            memory(usage),
            percent(usage.map(|usage| usage.memory_bytes / MIB), all.memory_mib),
        ]
    };
    [head.into()].into_iter().chain(rows.iter().map(row)).collect()
}

fn copy_table(rows: &[TopRow], projects: bool) -> Vec<Vec<String>> {
    let project = |text: &str| projects.then(|| text.to_owned());
    let line = |first: Option<String>, rest: [String; 5]| first.into_iter().chain(rest).collect();
    let head = ["WORKLOAD", "INSTANCE", "NODE", "CPU(m)", "MEMORY(MiB)"].map(str::to_owned);
    let row = |row: &TopRow| {
        let rest = [
            row.workload.clone(),
            row.name.clone(),
            row.node.clone(),
            cpu(row.usage),
            memory(row.usage),
        ];
        line(project(&row.project), rest)
    };
    [line(project("PROJECT"), head)].into_iter().chain(rows.iter().map(row)).collect()
}

fn cpu(usage: Option<Usage>) -> String {
    usage.map_or_else(unknown, |usage| usage.cpu_millis.to_string())
}

fn memory(usage: Option<Usage>) -> String {
    usage.map_or_else(unknown, |usage| (usage.memory_bytes / MIB).to_string())
}

fn percent(used: Option<i64>, all: i64) -> String {
    match used {
        Some(used) if 0 < all => format!("{}%", used.saturating_mul(100) / all),
        Some(_) | None => unknown(),
    }
}

fn unknown() -> String {
    "-".to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use orrery_proto::infra::v1::NodeResources;

    #[test]
    fn what_is_known_is_shown_and_the_rest_is_a_dash() {
        let usage = Usage { cpu_millis: 250, memory_bytes: 64 * MIB };
        let known = TopRow {
            name: "edge-1".into(),
            usage: Some(usage),
            allocatable: Some(NodeResources { cpu_millis: 2000, memory_mib: 1024 }),
            ..TopRow::default()
        };
        let unknown = TopRow { name: "edge-2".into(), ..TopRow::default() };
        let cells = node_table(&[known.clone(), unknown]);
        assert_eq!(cells[1], ["edge-1", "250", "12%", "64", "6%"]);
        assert_eq!(cells[2], ["edge-2", "-", "-", "-", "-"]);
        assert_eq!(copy_table(&[known], true)[0].len(), 6);
    }
}
