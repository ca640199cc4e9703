//! Workloads that wait for each other, with a real agent.
use crate::harness::{Home, until};
use serde_json::Value;

fn workload(name: &str, more: &str) -> String {
    format!(
        "---\napiVersion: apps.orrery.dev/v1\nkind: Workload\n\
         metadata: {{name: {name}, project: default}}\n\
         spec:\n  process: {{command: sleep, args: ['60']}}\n  stopGraceSeconds: 0\n\
         \x20 placement: {{selector: {{}}}}\n{more}"
    )
}

fn reasons(home: &Home) -> Vec<String> {
    let list = home.orrery(&["get", "workloadinstances", "-o", "json"]).good();
    let list: Value = serde_json::from_str(&list).unwrap();
    let status = |item: &Value| format!("{}/{}", item["status"]["state"], item["status"]["reason"]);
    let all = list["items"].as_array().unwrap().iter().map(status);
    all.map(|text| text.replace('"', "").replace("/null", "")).collect()
}

/// proves: AGT-15
#[test]
fn ten_workloads_wait_say_so_and_start_together() {
    let home = Home::new();
    let _up = home.up();
    let needs = "  dependsOn: [{workload: db}]\n";
    let text: String = (0..10).map(|n| workload(&format!("web{n}"), needs)).collect();
    let file = home.write("web.yaml", text);
    home.orrery(&["apply", "-f", file.to_str().unwrap()]).good();
    until("all wait", || {
        let all = reasons(&home);
        (all.len() == 10 && all.iter().all(|one| one == "Pending/WaitingToStart")).then_some(())
    });
    let file = home.write("db.yaml", workload("db", ""));
    home.orrery(&["apply", "-f", file.to_str().unwrap()]).good();
    until("all run", || {
        let all = reasons(&home);
        (all.len() == 11 && all.iter().all(|one| one == "Running")).then_some(())
    });
}
