//! Containers, with the podman of this machine and an image made on the spot.
use crate::logs::timed;
use crate::world::{Box1, Program, exists, wait_for, wait_gone};
use orrery_proto::apps::v1::{
    HostMount, PortMapping, ResourceAmounts, Resources, WorkloadInstanceStatus,
};
use orrery_proto::fleet::v1::{ExecStart, LogRequest, exec_input, server_message::Message};
use std::fs;
use std::io::Read as _;
use std::net::{TcpListener, TcpStream};

fn container(podman: &Box1, text: &str) -> Program {
    Program::command("", &[]).contained(podman.shell(text)).grace(1)
}

/// proves: AGT-15
#[tokio::test]
async fn a_container_runs_ends_with_its_code_and_leaves_nothing() {
    let podman = Box1::new();
    let (_agent, mut server) = podman.agent().await;
    let text = "echo out; echo err >&2; until [ -e /test/go ]; do sleep 0.1; done; exit 7";
    let mut program = container(&podman, text).restart("never");
    let Some(orrery_proto::apps::v1::workload_instance_spec::Runtime::Podman(spec)) =
        &mut program.spec.runtime
    else {
        panic!("a container")
    };
    let folder = podman.world.path().display().to_string();
    spec.mounts = vec![HostMount {
        source: Some(folder),
        target: Some("/test".into()),
        read_only: Some(true),
    }];
    let limits = ResourceAmounts { memory_mib: Some(64), ..ResourceAmounts::default() };
    program.spec.resources = Some(Resources { requests: None, limits: Some(limits) });
    server.assign(&program).await;
    let running = server.until_state(&program, "Running").await;
    assert!(exists(running.pid.unwrap()));
    assert_eq!(running.container, format!("orrery-{}", program.id));
    fs::write(podman.world.path().join("go"), "").unwrap();
    let ended = server.until_state(&program, "Failed/ExecFailed").await;
    assert_eq!((ended.exit_code, ended.pid), (Some(7), None));
    assert!(ended.started_at.is_some() && ended.finished_at.is_some());

    let request = LogRequest {
        stream: "s".into(),
        id: program.id.clone(),
        credit: 10,
        ..LogRequest::default()
    };
    server.send(vec![Some(Message::Log(request))]).await;
    server.until_logged("ended", |server| server.ended.contains_key("s")).await;
    assert_eq!(server.output["s"], "out\nerr\n");

    // Podman wrote down when, and a reader goes on between two lines.
    let ask = |stream: &str, more: LogRequest| {
        let (stream, id) = (stream.to_owned(), program.id.clone());
        let request = LogRequest { stream, id, times: true, credit: 10, ..more };
        Some(Message::Log(request))
    };
    server.send(vec![ask("timed", LogRequest::default())]).await;
    server.until_logged("ended", |server| server.ended.contains_key("timed")).await;
    let times = timed(&server, "timed");
    let texts: String = times.iter().map(|(_, text)| text.as_str()).collect();
    assert_eq!((texts.as_str(), times.len()), ("out\nerr\n", 2));
    let started = ended.started_at.unwrap();
    assert!((0..60).contains(&(times[0].0.seconds - started.seconds)), "{times:?} {started:?}");
    let after = server.chunks["timed"].last().unwrap().position.clone();
    let since_time = Some(times[1].0);
    server
        .send(vec![
            ask("since", LogRequest { since_time, ..LogRequest::default() }),
            ask("after", LogRequest { after, ..LogRequest::default() }),
        ])
        .await;
    server.until_logged("ended", |server| server.ended.contains_key("since")).await;
    server.until_logged("ended", |server| server.ended.contains_key("after")).await;
    assert_eq!((server.output["since"].as_str(), server.output["after"].as_str()), ("err\n", ""));

    server.unassign(&program).await;
    server.until_state(&program, "Removed").await;
    assert_eq!(podman.containers(), Vec::<String>::new());
    assert!(!podman.world.instance_dir(&program.id).exists());
}

/// Its log is one file, which podman replaces when it is full.
///
/// proves: AGT-15
#[tokio::test]
async fn a_reader_that_comes_back_is_told_what_a_container_has_overwritten() {
    let podman = Box1::new();
    let (_agent, mut server) = podman.agent().await;
    let line = "x".repeat(200);
    let text = format!(
        "echo begin; echo middle; i=0; while [ $i -lt 6000 ]; do echo {line} $i; i=$((i+1)); done; echo end"
    );
    let program = container(&podman, &text).restart("never");
    server.assign(&program).await;
    server.until_state(&program, "Succeeded").await;
    let ask = |stream: &str, more: LogRequest| {
        let (stream, id) = (stream.to_owned(), program.id.clone());
        let request = LogRequest { stream, id, times: true, credit: 1000, ..more };
        Some(Message::Log(request))
    };
    server.send(vec![ask("all", LogRequest::default())]).await;
    server.until_logged("ended", |server| server.ended.contains_key("all")).await;
    let kept = server.output["all"].clone();
    assert!(!kept.contains("begin") && kept.ends_with(" 5999\nend\n"), "{}", kept.len());
    let times = timed(&server, "all");
    assert!(times.is_sorted_by_key(|(time, _)| (time.seconds, time.nanos)));
    // As one that it had before: of another file.
    let here = server.chunks["all"].last().unwrap().position.clone();
    let there = here.replace("in-", "in-1");
    server
        .send(vec![
            ask("here", LogRequest { after: here, ..LogRequest::default() }),
            ask("there", LogRequest { after: there, ..LogRequest::default() }),
        ])
        .await;
    server.until_logged("ended", |server| server.ended.contains_key("here")).await;
    server.until_logged("ended", |server| server.ended.contains_key("there")).await;
    assert_eq!(server.output["here"], "");
    assert_eq!(server.output["there"], format!("~{kept}"));
    server.unassign(&program).await;
    server.until_state(&program, "Removed").await;
}

/// proves: AGT-14, AGT-15
#[tokio::test]
async fn a_container_outlives_its_agent_and_is_adopted_by_the_next() {
    let podman = Box1::new();
    let (agent, mut server) = podman.killable_agent().await;
    let program = container(&podman, "trap 'exit 3' TERM; while :; do sleep 0.1; done");
    server.assign(&program).await;
    let before = server.until_state(&program, "Running").await;
    agent.kill().await;
    assert!(exists(before.pid.unwrap()));

    let (agent, mut server) = podman.killable_agent().await;
    let after = server.until_state(&program, "Running").await;
    assert_eq!(after, before, "nothing has changed, not even the time of its start");
    agent.kill().await;
    // It ends while nobody looks; the next agent knows how.
    let (stopped, said) = podman.podman(&["kill", "--signal", "TERM", &after.container]);
    assert!(stopped, "{said}");
    wait_gone(after.pid.unwrap()).await;

    let (_agent, mut server) = podman.killable_agent().await;
    let again = |status: &WorkloadInstanceStatus| status.state == "Running" && status.restarts == 1;
    let status = server.until(&program, "started again", again).await;
    assert_eq!(status.exit_code, Some(3));
    assert_eq!(podman.containers().len(), 1);
    server.assign_set(&[]).await;
    server.until_state(&program, "Removed").await;
    assert_eq!(podman.containers().len(), 0);
}

#[tokio::test]
async fn a_container_deleted_while_the_agent_was_off_is_removed() {
    let podman = Box1::new();
    let (agent, mut server) = podman.killable_agent().await;
    let program = container(&podman, "sleep 1000");
    server.assign(&program).await;
    let pid = server.until_state(&program, "Running").await.pid.unwrap();
    agent.kill().await;
    let (_agent, mut server) = podman.killable_agent().await;
    server.assign_set(&[]).await;
    server.until_state(&program, "Removed").await;
    assert!(!exists(pid) && podman.containers().is_empty());
}

/// A container that does not stop when it is asked is killed after its grace, also when the agent that
/// asked it is gone.
///
/// proves: AGT-14
#[tokio::test]
async fn a_container_that_was_asked_to_stop_ends_without_its_agent() {
    let podman = Box1::new();
    let (agent, mut server) = podman.killable_agent().await;
    let text = "trap 'echo asked' TERM; while :; do sleep 0.1; done";
    let program = container(&podman, text).grace(2);
    server.assign(&program).await;
    let pid = server.until_state(&program, "Running").await.pid.unwrap();
    let request = LogRequest {
        stream: "s".into(),
        id: program.id.clone(),
        follow: true,
        credit: 10,
        ..LogRequest::default()
    };
    server.send(vec![Some(Message::Log(request))]).await;
    server.unassign(&program).await;
    server.until_logged("asked", |server| server.output.contains_key("s")).await;
    agent.kill().await;
    wait_gone(pid).await;
    let (_agent, mut server) = podman.killable_agent().await;
    server.assign_set(&[]).await;
    server.until_state(&program, "Removed").await;
    assert!(podman.containers().is_empty());
}

/// proves: AGT-15
#[tokio::test]
async fn what_cannot_start_says_why() {
    let podman = Box1::new();
    let (_agent, mut server) = podman.agent().await;
    let mut missing = container(&podman, "true");
    let mut spec = podman.shell("true");
    spec.image = Some("localhost/absent:1".into());
    missing = missing.contained(spec);
    server.assign(&missing).await;
    let status = server.until_state(&missing, "Pending/StartingFailed").await;
    let expect = "image \"localhost/absent:1\" is not on this node, and it is never to be fetched";
    assert!(status.message.starts_with(expect), "{}", status.message);

    let mut spec = podman.shell("true");
    spec.command = vec!["/bin/absent".into()];
    let broken = container(&podman, "true").contained(spec);
    server.assign(&broken).await;
    let status = server.until_state(&broken, "Pending/StartingFailed").await;
    assert!(status.message.contains("/bin/absent"), "{}", status.message);

    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = i32::from(taken.local_addr().unwrap().port());
    let mut spec = podman.shell("sleep 1000");
    spec.network = None;
    spec.ports = vec![PortMapping {
        container_port: Some(80),
        host_port: Some(port),
        host_address: Some("127.0.0.1".into()),
        protocol: None,
    }];
    let crowded = container(&podman, "true").contained(spec);
    server.assign(&crowded).await;
    let status = server.until_state(&crowded, "Pending/StartingFailed").await;
    assert!(status.message.starts_with("a port that it asks for is taken"), "{}", status.message);
    // The port is free again, and it starts with the next attempt.
    drop(taken);
    server.until_state(&crowded, "Running").await;
    server.assign_set(&[]).await;
    server.until_state(&crowded, "Removed").await;
    assert!(podman.containers().is_empty(), "what did not start left nothing");
}

#[tokio::test]
async fn a_port_of_a_container_is_reached_through_the_node() {
    let podman = Box1::new();
    let (_agent, mut server) = podman.agent().await;
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let mut spec = podman.shell("while :; do echo hello | busybox nc -l -p 80; done");
    spec.command = vec!["/bin/busybox".into(), "sh".into(), "-c".into()];
    spec.args = vec!["while :; do echo hello | /bin/busybox nc -l -p 80; done".into()];
    spec.network = None;
    spec.ports = vec![PortMapping {
        container_port: Some(80),
        host_port: Some(i32::from(free.port())),
        host_address: Some("127.0.0.1".into()),
        protocol: None,
    }];
    let program = container(&podman, "").contained(spec);
    server.assign(&program).await;
    server.until_state(&program, "Running").await;
    wait_for("a greeting", || {
        let mut stream = TcpStream::connect(free).ok()?;
        stream.set_read_timeout(Some(std::time::Duration::from_secs(2))).ok()?;
        let mut text = [0; 6];
        stream.read_exact(&mut text).ok()?;
        (&text == b"hello\n").then_some(())
    })
    .await;
    server.unassign(&program).await;
    server.until_state(&program, "Removed").await;
}

#[tokio::test]
async fn commands_run_in_the_container() {
    let podman = Box1::new();
    let (_agent, mut server) = podman.agent().await;
    let program = container(&podman, "while :; do sleep 1; done");
    server.assign(&program).await;
    server.until_state(&program, "Running").await;
    let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect();
    let command = words(&["/bin/sh", "-c", "echo $ORRERY_INSTANCE; echo no >&2; exit 5"]);
    server.exec("a", &program, ExecStart { command, ..ExecStart::default() }).await;
    let done = server.until_exec_ended("a").await;
    assert_eq!(done.stdout.trim(), program.id);
    assert_eq!((done.stderr.as_str(), done.end.unwrap().exit_code), ("no\n", Some(5)));

    let start = ExecStart { command: words(&["/bin/cat"]), stdin: true, ..ExecStart::default() };
    server.exec("b", &program, start).await;
    server
        .until_logged("room", |server| {
            server.execs.get("b").is_some_and(|exec| 0 < exec.input_credit)
        })
        .await;
    server.exec_input("b", exec_input::Message::Data(b"typed\n".to_vec())).await;
    server.exec_input("b", exec_input::Message::End(true)).await;
    let done = server.until_exec_ended("b").await;
    assert_eq!((done.stdout.as_str(), done.end.unwrap().exit_code), ("typed\n", Some(0)));
    server.unassign(&program).await;
    server.until_state(&program, "Removed").await;
}

/// From a process to a container and back: one copy, never two.
#[tokio::test]
async fn a_process_becomes_a_container_and_a_process_again() {
    let podman = Box1::new();
    let (_agent, mut server) = podman.agent().await;
    let process = podman.world.script("exec sleep 1000").grace(1);
    server.assign(&process).await;
    let first = server.until_state(&process, "Running").await.pid.unwrap();
    let contained = process.becomes(container(&podman, "sleep 1000"));
    server.assign(&contained).await;
    let is_container = |status: &WorkloadInstanceStatus| {
        status.state == "Running" && !status.container.is_empty() && status.pid != Some(first)
    };
    let second = server.until(&contained, "a container", is_container).await.pid.unwrap();
    assert!(!exists(first));
    let back = contained.becomes(podman.world.script("exec sleep 1000"));
    server.assign(&back).await;
    let is_process =
        |status: &WorkloadInstanceStatus| status.state == "Running" && status.container.is_empty();
    server.until(&back, "a process", is_process).await;
    assert!(!exists(second) && podman.containers().is_empty());
    server.unassign(&back).await;
    server.until_state(&back, "Removed").await;
}

#[tokio::test]
async fn a_node_without_podman_says_so() {
    let podman = Box1::new();
    let nobody = podman.world.path().join("nobody.sock");
    let (_agent, mut server) = podman
        .world
        .agent_with(|config| {
            config.podman.program = "/nonexistent/podman".into();
            config.podman.socket = Some(nobody);
        })
        .await;
    let program = container(&podman, "true");
    server.assign(&program).await;
    let status = server.until_state(&program, "Pending/StartingFailed").await;
    let expect = "there is no /nonexistent/podman on this node; install podman there";
    assert!(status.message.starts_with(expect), "{}", status.message);
}

/// Podman has words of its own for the moment after an end, and an agent reads all of them.
///
/// proves: AGT-15
#[tokio::test]
async fn a_container_that_ends_at_once_is_never_called_anything_else() {
    let podman = Box1::new();
    let (_agent, mut server) = podman.agent().await;
    for round in 0..3 {
        let program = container(&podman, "exit 3").restart("never");
        server.assign(&program).await;
        let seen = std::cell::RefCell::new(Vec::new());
        let ended = |status: &WorkloadInstanceStatus| {
            seen.borrow_mut()
                .push(format!("{}/{} {}", status.state, status.reason, status.message));
            status.state == "Failed"
        };
        let status = server.until(&program, "ended", ended).await;
        let seen = seen.take();
        let expect = (Some(3), "ExecFailed");
        assert_eq!((status.exit_code, status.reason.as_str()), expect, "{round}: {seen:?}");
        let trouble = |said: &&String| said.contains("StartingFailed") || said.contains("podman");
        assert_eq!(seen.iter().find(trouble), None, "{seen:?}");
        server.unassign(&program).await;
        server.until_state(&program, "Removed").await;
    }
    assert_eq!(podman.containers(), Vec::<String>::new());
}
