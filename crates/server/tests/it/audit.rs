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
    // What is asked for is to run a command, whatever becomes of it.
    world.get(&format!("{WORKLOADS}/run/exec?command=true")).await.expect(400);
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
    let run = find("rest", "run");
    assert_eq!((&run["verb"], &run["subresource"]), (&"create".into(), &"exec".into()), "{run}");
    let got = find("grpc", "one");
    assert_eq!((&got["verb"], &got["code"]), (&"get".into(), &200.into()));
    assert!(got["userAgent"].as_str().unwrap().contains("tonic"), "{got}");
    assert_eq!(find("commander", "two")["code"], 404);
    let connected = lines.iter().find(|line| line["verb"] == "connect");
    assert!(connected.is_some(), "a commander came: {lines:#?}");
}

/// Bad proofs are written down, with their reason and without themselves, and nobody fills the log.
#[tokio::test]
async fn refused_tokens_are_written_down_sparingly() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("audit.log");
    let world = World::operated(TlsFiles::default(), operations(&path)).await;
    let secret = "orrerybt1.ci.c2VjcmV0LXNlY3JldC1zZWNyZXQtc2VjcmV0LXNlY3I";
    let ask = async |token: &str| {
        let bearer = format!("Bearer {token}");
        let request = world.request(
            axum::http::Method::GET,
            WORKLOADS,
            &[("authorization", &bearer)],
            axum::body::Body::empty(),
        );
        world.send(request).await.expect(401)
    };
    let said = ask(secret).await;
    assert_eq!(said["message"], "Unauthorized", "nothing is learned from it");
    let first = |line: &Value| line["code"] == 401;
    let written = lines(&path, first).await;
    let refused = written.iter().find(|line| first(line)).unwrap();
    assert_eq!((&refused["allowed"], &refused["verb"]), (&false.into(), &"get".into()));
    assert_eq!(refused["path"], WORKLOADS);
    assert_eq!(refused["reason"], "there is no such access token");
    assert!(refused["address"].as_str().unwrap().starts_with("127.0.0.1:"), "{refused}");
    for _ in 0..200 {
        ask("garbage").await;
    }
    // What is left out is told with the next line that is written, a second later.
    let told = async {
        loop {
            ask("garbage").await;
            let text = std::fs::read_to_string(&path).unwrap();
            if text.contains("\"missed\":") {
                return text;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    let text = tokio::time::timeout(PATIENCE, told).await.expect("the next line is written");
    assert!(text.lines().count() < 100, "{}", text.lines().count());
    assert!(!text.contains(secret) && !text.contains("garbage"), "{text}");
}

/// What somebody wanted to create is written down also when it was refused.
#[tokio::test]
async fn creations_that_fail_are_written_down_with_their_name() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("audit.log");
    let world = World::operated(TlsFiles::default(), operations(&path)).await;
    world.post(WORKLOADS, &workload("one")).await.expect(201);
    world.post(WORKLOADS, &workload("one")).await.expect(409);
    let mut bad = workload("bad");
    bad["spec"] = "nonsense".into();
    assert!(world.post(WORKLOADS, &bad).await.code.is_client_error());
    let mut unnamed = workload("x");
    unnamed["metadata"] = serde_json::json!({ "generateName": "made-", "labels": { "!": "!" } });
    assert!(world.post(WORKLOADS, &unnamed).await.code.is_client_error());
    let lines = lines(&path, |line| line["name"] == "made-*").await;
    let codes = |name: &str| -> Vec<u64> {
        let named = lines.iter().filter(|line| line["name"] == name);
        named.map(|line| line["code"].as_u64().unwrap()).collect()
    };
    assert_eq!(codes("one"), [201, 409]);
    assert_eq!(codes("bad").len(), 1);
    assert!(lines.iter().all(|line| line["project"] == "default"), "{lines:#?}");
}

/// Also when who asked may not create it at all.
#[tokio::test]
async fn creations_that_are_forbidden_are_written_down_with_their_name() {
    use crate::access::certificate;
    use orrery_testkit::world::{World, WorldOptions};
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("audit.log");
    let identity = orrery_server::IdentityOptions { own: true, ..<_>::default() };
    let options =
        WorldOptions { identity, operations: operations(&path), ..WorldOptions::default() };
    let world = World::start_with(options).await;
    let ann = certificate(&world, orrery_pki::Role::User, "ann", None);
    let body = workload("wanted").to_string();
    let kind = [("Content-Type", "application/json")];
    let (code, _) = crate::wire::ask(&world, &ann, "POST", WORKLOADS, &kind, &body).await;
    assert_eq!(code, 403);
    let lines = lines(&path, |line| line["name"] == "wanted").await;
    let line = lines.iter().find(|line| line["name"] == "wanted").unwrap();
    assert_eq!((&line["user"], &line["allowed"]), (&"ann".into(), &false.into()), "{line}");
}
