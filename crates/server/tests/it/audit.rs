//! The audit log: who asked for what, whichever way.
use crate::support::{PATIENCE, WORKLOADS, World, workload};
use orrery_client::{Commander, Endpoint};
use orrery_pki::TlsFiles;
use orrery_proto::hub::v1::hub_client::HubClient;
use orrery_proto::hub::v1::{GetRequest, ResourceName};
use orrery_server::{AuditOptions, Operations};
use serde_json::Value;
use std::path::Path;
use std::time::Duration;

pub fn operations(path: &Path) -> Operations {
    let audit = AuditOptions { path: path.to_owned(), max_bytes: 1 << 20, keep: 1 };
    Operations { audit: Some(audit), ..Operations::default() }
}

/// The lines of the log, once one of them is as wanted.
pub async fn lines(path: &Path, wanted: impl Fn(&Value) -> bool) -> Vec<Value> {
    let read = async {
        loop {
            let text = std::fs::read_to_string(path).unwrap_or_default();
            let whole = text.rsplit_once('\n').map(|(whole, _)| whole).unwrap_or_default();
            let lines: Vec<Value> =
                whole.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
            if lines.iter().any(&wanted) {
                return lines;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(PATIENCE, read).await.expect("the line is written")
}

fn name(name: &str) -> Option<ResourceName> {
    Some(ResourceName {
        api_version: "apps.orrery.dev/v1".into(),
        kind: "Workload".into(),
        project: "default".into(),
        name: name.into(),
    })
}

#[tokio::test]
async fn rest_grpc_and_commanders_are_written_down_alike() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("audit.log");
    let world = World::operated(TlsFiles::default(), operations(&path)).await;
    world.post(WORKLOADS, &workload("one")).await.expect(201);
    world.get(&format!("{WORKLOADS}/missing")).await.expect(404);
    let mut hub = HubClient::connect(world.url()).await.unwrap();
    hub.get(GetRequest { name: name("one"), ..GetRequest::default() }).await.unwrap();
    let commander = Commander::connect(&Endpoint::new(&world.url(), None).unwrap()).await.unwrap();
    commander.get(GetRequest { name: name("two"), ..GetRequest::default() }).await.unwrap_err();

    let lines = lines(&path, |line| line["transport"] == "commander").await;
    let find = |transport: &str, name: &str| {
        let fits = |line: &&Value| line["transport"] == transport && line["name"] == name;
        lines.iter().find(fits).unwrap_or_else(|| panic!("{transport} {name}: {lines:#?}"))
    };
    let created = find("rest", "one");
    assert_eq!((&created["verb"], &created["code"]), (&"create".into(), &201.into()));
    assert_eq!((&created["kind"], &created["project"]), (&"Workload".into(), &"default".into()));
    assert_eq!(created["user"], "system:anonymous");
    assert!(created["address"].as_str().unwrap().starts_with("127.0.0.1:"), "{created}");
    assert!(created["time"].as_str().unwrap().ends_with('Z'), "{created}");
    assert_eq!(find("rest", "missing")["code"], 404);
    assert_eq!(find("rest", "missing")["allowed"], true, "it may be asked for, and is not there");
    let got = find("grpc", "one");
    assert_eq!((&got["verb"], &got["code"]), (&"get".into(), &200.into()));
    assert!(got["userAgent"].as_str().unwrap().contains("tonic"), "{got}");
    assert_eq!(find("commander", "two")["code"], 404);
    let connected = lines.iter().find(|line| line["verb"] == "connect");
    assert!(connected.is_some(), "a commander came: {lines:#?}");
}
