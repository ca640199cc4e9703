//! What `orrery get nodes` shows beside what the server's columns say: whether a node takes copies, its
//! labels, and what is used of it right now.
use crate::session::Session;
use orrery_proto::fleet::v1::{TopRequest, TopRow};
use orrery_proto::hub::v1::KindInfo;
use orrery_proto::options::v1::Column;
use serde_json::{Value, json};
use std::collections::HashMap;
use std::time::Duration;

/// Agents measure for half a second. A table does not wait much longer for those that do not answer.
const PATIENCE: Duration = Duration::from_millis(1500);

const MIB: i64 = 1 << 20;

/// What is used of each node, by its name.
pub struct Loads {
    rows: HashMap<String, TopRow>,
}

pub fn are_meant(kind: &KindInfo) -> bool {
    kind.plural == "nodes" && kind.kind == "Node"
}

impl Loads {
    /// Asks for what is used. Whoever may not know, or cannot be answered in time, sees dashes.
    pub async fn ask(session: &Session) -> Self {
        let request = TopRequest { project: String::new(), nodes: true };
        let answer = tokio::time::timeout(PATIENCE, session.server.top(request)).await;
        let rows = answer.ok().and_then(Result::ok).map(|answer| answer.rows).unwrap_or_default();
        Self { rows: rows.into_iter().map(|row| (row.name.clone(), row)).collect() }
    }

    /// The node with what is shown of it.
    pub fn add_to(&self, mut node: Value) -> Value {
        let row = node["metadata"]["name"].as_str().and_then(|name| self.rows.get(name));
        let usage = row.and_then(|row| Some((row.usage?, row.allocatable.unwrap_or_default())));
        let cpu = usage.map(|(used, all)| share(used.cpu_millis, all.cpu_millis));
        let memory = usage.map(|(used, all)| share(used.memory_bytes / MIB, all.memory_mib));
        node["shown"] = json!({
            "state": state(&node),
            "labels": crate::output::table::labels(node["metadata"].get("labels")),
            "cpu": cpu.flatten(),
            "memory": memory.flatten(),
        });
        node
    }
}

/// The kind with the columns that are filled here.
pub fn shown(kind: &KindInfo) -> KindInfo {
    let mut kind = kind.clone();
    let told = ["spec.unschedulable", "spec.drain"];
    kind.columns.retain(|column| !told.contains(&column.path.as_str()));
    for column in &mut kind.columns {
        if column.path == "status.state" {
            column.path = "shown.state".into();
        }
    }
    let at = kind.columns.iter().position(|column| column.wide).unwrap_or(kind.columns.len());
    let more = [("CPU", "shown.cpu"), ("Memory", "shown.memory"), ("Labels", "shown.labels")];
    let column = |(name, path): (&str, &str)| Column {
        name: name.into(),
        path: path.into(),
        r#type: "string".into(),
        wide: false,
    };
    kind.columns.splice(at..at, more.map(column));
    kind
}

/// `Ready`, and what keeps new copies away.
fn state(node: &Value) -> String {
    let state = node["status"]["state"].as_str().unwrap_or("Unknown");
    let is = |field: &str| node["spec"][field].as_bool() == Some(true);
    match (is("drain"), is("unschedulable")) {
        (true, _) => format!("{state},Draining"),
        (false, true) => format!("{state},Cordoned"),
        (false, false) => state.to_owned(),
    }
}

fn share(used: i64, all: i64) -> Option<String> {
    (0 < all).then(|| format!("{}%", used.saturating_mul(100) / all))
}

#[cfg(test)]
mod tests {
    use super::*;
    use orrery_proto::fleet::v1::Usage;
    use orrery_proto::infra::v1::NodeResources;

    fn mk_kind() -> KindInfo {
        let column = |name: &str, path: &str, wide| Column {
            name: name.into(),
            path: path.into(),
            wide,
            ..Column::default()
        };
        let columns = vec![
            column("State", "status.state", false),
            column("Cordoned", "spec.unschedulable", false),
            column("Version", "status.version", false),
            column("Host", "status.hostname", true),
        ];
        KindInfo { plural: "nodes".into(), kind: "Node".into(), columns, ..KindInfo::default() }
    }

    #[test]
    fn the_columns_that_everybody_sees_come_before_the_wide_ones() {
        let kind = shown(&mk_kind());
        let names: Vec<&str> = kind.columns.iter().map(|column| column.name.as_str()).collect();
        assert_eq!(names, ["State", "Version", "CPU", "Memory", "Labels", "Host"]);
        assert_eq!(kind.columns[0].path, "shown.state");
        assert!(are_meant(&kind) && !are_meant(&KindInfo::default()));
    }

    #[test]
    fn a_node_says_whether_it_takes_copies_and_how_busy_it_is() {
        let row = TopRow {
            name: "edge-1".into(),
            usage: Some(Usage { cpu_millis: 500, memory_bytes: 256 * MIB }),
            allocatable: Some(NodeResources { cpu_millis: 2000, memory_mib: 1024 }),
            ..TopRow::default()
        };
        let loads = Loads { rows: [("edge-1".to_owned(), row)].into() };
        let node = |name: &str, spec: Value| {
            let metadata = json!({"name": name, "labels": {"zone": "a"}});
            let node = json!({"metadata": metadata, "spec": spec, "status": {"state": "Ready"}});
            loads.add_to(node)["shown"].clone()
        };
        let expect = json!({"state": "Ready", "labels": "zone=a", "cpu": "25%", "memory": "25%"});
        assert_eq!(node("edge-1", json!({})), expect);
        let cordoned = node("edge-2", json!({"unschedulable": true}));
        let expect =
            json!({"state": "Ready,Cordoned", "labels": "zone=a", "cpu": null, "memory": null});
        assert_eq!(cordoned, expect, "nobody said how busy it is");
        let drained = node("edge-1", json!({"unschedulable": true, "drain": true}));
        assert_eq!(drained["state"], "Ready,Draining");
    }
}
