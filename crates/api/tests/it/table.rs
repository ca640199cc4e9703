//! Table cells.
use jiff::Timestamp;
use orrery_api::{Cell, Object, age, table_cells};
use serde_json::{Value, json};

use crate::support::{mk, mk_gadget};

fn now() -> Timestamp {
    "2026-01-01T01:00:00Z".parse().expect("a time")
}

fn shown(object: &Object) -> Vec<String> {
    table_cells(object, now()).iter().map(Cell::to_string).collect()
}

#[test]
fn cells_follow_the_columns() {
    let gadget = mk(json!({
        "apiVersion": "testkit.orrery.dev/v1", "kind": "Gadget",
        "metadata": {"name": "g", "project": "p", "creationTimestamp": "2026-01-01T00:56:40Z"},
        "spec": {"mode": "idle", "zones": ["a", "b"], "sizeBytes": 5},
        "status": {"phase": "Working", "lastSeen": "2026-01-01T00:59:55Z", "ready": true},
    }));
    assert_eq!(shown(&gadget), ["idle", "a,b", "5", "Working", "5s", "true", "0"]);
    assert_eq!(age(&gadget, now()), "3m20s");
    let cells: Vec<Value> = table_cells(&gadget, now()).into_iter().map(Value::from).collect();
    assert_eq!(json!(cells), json!(["idle", "a,b", 5, "Working", "5s", true, 0]));
}

#[test]
fn absent_values_are_empty() {
    let gadget = mk_gadget(json!({}));
    assert_eq!(shown(&gadget), ["steady", "", "", "", "", "", ""]);
    assert_eq!(age(&gadget, now()), "<unknown>");
}
