//! Probes of real programs.
use crate::world::{Program, World};
use orrery_proto::apps::v1::{
    ExecProbe, HttpProbe, Probe, TcpProbe, WorkloadInstanceStatus, probe::Action,
};
use std::fs;
use std::io::{Read as _, Write as _};
use std::net::TcpListener;

fn probe(action: Action, failures: i32) -> Probe {
    Probe {
        action: Some(action),
        period_seconds: Some(1),
        timeout_seconds: Some(5),
        failure_threshold: Some(failures),
        ..Probe::default()
    }
}

fn file_probe(world: &World, name: &str) -> Action {
    let file = world.path().join(name).display().to_string();
    Action::Exec(ExecProbe { command: vec!["test".into(), "-e".into(), file] })
}

fn ready(wanted: bool) -> impl Fn(&WorkloadInstanceStatus) -> bool {
    move |status| status.state == "Running" && status.ready == Some(wanted)
}

/// proves: AGT-15
#[tokio::test]
async fn a_copy_is_ready_when_its_command_says_so() {
    let world = World::new();
    let (_agent, mut server) = world.agent().await;
    let mut program: Program = world.script("exec sleep 60");
    server.assign(&program).await;
    let pid = server.until_state(&program, "Running").await.pid;
    // A probe that comes later does not replace what runs.
    program.generation += 1;
    program.spec.readiness_probe = Some(probe(file_probe(&world, "ready"), 1));
    server.assign(&program).await;
    let why = |status: &WorkloadInstanceStatus| ready(false)(status) && status.reason == "NotReady";
    server.until(&program, "not ready, and why", why).await;
    fs::write(world.path().join("ready"), "").unwrap();
    let status = server.until(&program, "ready", ready(true)).await;
    assert_eq!(status.message, "");
    fs::remove_file(world.path().join("ready")).unwrap();
    let status = server.until(&program, "not ready again", ready(false)).await;
    assert_eq!((status.pid, status.restarts), (pid, 0), "it is not touched");
    server.unassign(&program).await;
    server.until_state(&program, "Removed").await;
}

/// proves: AGT-15
#[tokio::test]
async fn a_copy_that_does_not_answer_any_more_is_started_again() {
    let world = World::new();
    let (_agent, mut server) = world.agent().await;
    fs::write(world.path().join("alive"), "").unwrap();
    let mut program: Program = world.script("exec sleep 60");
    program.spec.liveness_probe = Some(probe(file_probe(&world, "alive"), 2));
    server.assign(&program).await;
    let first = server.until_state(&program, "Running").await.pid;
    fs::remove_file(world.path().join("alive")).unwrap();
    let again = |status: &WorkloadInstanceStatus| status.state == "Running" && status.restarts == 1;
    let second = server.until(&program, "started again", again).await;
    assert_ne!(second.pid, first);
    let why = "started again because its liveness probe failed: ";
    assert!(second.message.starts_with(why), "{}", second.message);
    server.unassign(&program).await;
    server.until_state(&program, "Removed").await;
}

/// The test itself is what the probes ask: the port is the node's.
#[tokio::test]
async fn ports_are_asked() {
    let world = World::new();
    let (_agent, mut server) = world.agent().await;
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = i32::from(listener.local_addr().unwrap().port());
    let answers = world.path().join("answer");
    fs::write(&answers, "503 Busy").unwrap();
    let file = answers.clone();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut request = [0; 1024];
            let len = stream.read(&mut request).unwrap_or(0);
            if !request[..len].starts_with(b"GET /healthz ") {
                continue;
            }
            let status = fs::read_to_string(&file).unwrap();
            let _ = write!(stream, "HTTP/1.1 {status}\r\ncontent-length: 0\r\n\r\n");
        }
    });
    let mut tcp: Program = world.script("exec sleep 60");
    tcp.spec.readiness_probe = Some(probe(Action::Tcp(TcpProbe { port: Some(port) }), 1));
    server.assign(&tcp).await;
    server.until(&tcp, "ready", ready(true)).await;
    let mut http: Program = world.script("exec sleep 60");
    let action = HttpProbe { port: Some(port), path: Some("/healthz".into()) };
    http.spec.readiness_probe = Some(probe(Action::Http(action), 1));
    server.assign(&http).await;
    server.until(&http, "not ready", ready(false)).await;
    fs::write(&answers, "200 OK").unwrap();
    server.until(&http, "ready", ready(true)).await;
    server.assign_set(&[]).await;
    server.until_state(&http, "Removed").await;
}
