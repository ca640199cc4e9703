//! Commands beside processes, and what processes use.
use crate::world::{KillableAgent, World, exists, read, wait_gone};
use orrery_proto::fleet::v1::{
    ExecStart, LoadRequest, TerminalSize, exec_input, server_message::Message,
};

fn start(command: &[&str]) -> ExecStart {
    let command = command.iter().map(|word| (*word).to_owned()).collect();
    ExecStart { command, ..ExecStart::default() }
}

/// proves: AGT-15
#[tokio::test]
async fn a_command_has_the_environment_and_folder_of_its_process() {
    let world = World::new();
    let (_agent, mut server) = world.agent().await;
    let mut program = world.script("exec sleep 60");
    program.process().env.insert("COLOUR".into(), "blue".into());
    program.process().working_directory = Some(world.path().display().to_string());
    server.assign(&program).await;
    server.until_state(&program, "Running").await;
    server
        .exec("a", &program, start(&["sh", "-c", "echo $COLOUR; pwd; echo no >&2; exit 5"]))
        .await;
    let done = server.until_exec_ended("a").await;
    assert_eq!(done.stdout, format!("blue\n{}\n", world.path().canonicalize().unwrap().display()));
    assert_eq!((done.stderr.as_str(), done.end.unwrap().exit_code), ("no\n", Some(5)));

    server.exec("b", &program, start(&["absent-command"])).await;
    let done = server.until_exec_ended("b").await;
    assert_eq!(done.end.unwrap().exit_code, Some(127));
    assert!(done.stderr.contains("\"absent-command\" was not found along PATH"), "{}", done.stderr);
    server.exec("folder", &program, start(&["/"])).await;
    assert_eq!(server.until_exec_ended("folder").await.end.unwrap().exit_code, Some(126));
    server.exec("c", &program, start(&["sh", "-c", "kill -9 $$"])).await;
    assert_eq!(server.until_exec_ended("c").await.end.unwrap().exit_code, Some(137));
    server.unassign(&program).await;
    server.until_state(&program, "Removed").await;
    server.exec("d", &program, start(&["true"])).await;
    let end = server.until_exec_ended("d").await.end.unwrap();
    assert_eq!((end.exit_code, end.problem.as_str()), (None, "it does not run"));
}

/// What a command started goes with the agent, also what its own end would not end.
#[tokio::test]
async fn an_agent_that_stops_leaves_no_command_behind() {
    let world = World::new();
    let (agent, mut server) = world.agent().await;
    let program = world.script("exec sleep 60");
    server.assign(&program).await;
    server.until_state(&program, "Running").await;
    let noted = world.path().join("child");
    let script = format!("sleep 300 & echo $! > {}; wait", noted.display());
    server.exec("a", &program, start(&["sh", "-c", &script])).await;
    let child = read(&noted).await.parse().unwrap();
    assert!(exists(child));
    agent.stop().await.unwrap();
    wait_gone(child).await;
}

#[tokio::test]
async fn what_is_typed_arrives_and_a_terminal_has_a_size() {
    let world = World::new();
    let (_agent, mut server) = world.agent().await;
    let program = world.script("exec sleep 60");
    server.assign(&program).await;
    server.until_state(&program, "Running").await;
    server.exec("a", &program, ExecStart { stdin: true, ..start(&["cat"]) }).await;
    server.exec_input("a", exec_input::Message::Data(b"one ".to_vec())).await;
    server.exec_input("a", exec_input::Message::Data(b"two".to_vec())).await;
    server.exec_input("a", exec_input::Message::End(true)).await;
    let done = server.until_exec_ended("a").await;
    assert_eq!((done.stdout.as_str(), done.end.unwrap().exit_code), ("one two", Some(0)));

    let size = Some(TerminalSize { rows: 33, columns: 77 });
    let script = "stty size; read line; echo \"got $line\"; stty size; exit 4";
    let terminal = ExecStart { stdin: true, tty: true, size, ..start(&["sh", "-c", script]) };
    server.exec("t", &program, terminal).await;
    server
        .until_logged("a size", |s| {
            s.execs.get("t").is_some_and(|exec| exec.stdout.contains("33 77"))
        })
        .await;
    let size = TerminalSize { rows: 11, columns: 22 };
    server.exec_input("t", exec_input::Message::Resize(size)).await;
    server.exec_input("t", exec_input::Message::Data(b"words\n".to_vec())).await;
    let done = server.until_exec_ended("t").await;
    assert!(done.stdout.contains("got words") && done.stdout.contains("11 22"), "{}", done.stdout);
    assert_eq!(done.end.unwrap().exit_code, Some(4));
    server.unassign(&program).await;
    server.until_state(&program, "Removed").await;
}

/// The terminal of a command must not become that of its agent: its end would end the agent with it.
#[tokio::test]
async fn a_terminal_belongs_to_the_command_and_not_to_an_agent_that_leads_its_session() {
    let world = World::new();
    let (_agent, mut server) = KillableAgent::lead_session(&world.data_dir());
    server.greet().await;
    let program = world.script("exec sleep 60");
    server.assign(&program).await;
    server.until_state(&program, "Running").await;
    for stream in ["first", "second"] {
        let terminal = ExecStart { tty: true, ..start(&["sh", "-c", "tty; exit 3"]) };
        server.exec(stream, &program, terminal).await;
        let done = server.until_exec_ended(stream).await;
        assert!(done.stdout.contains("/dev/pts/"), "{}", done.stdout);
        assert_eq!(done.end.unwrap().exit_code, Some(3));
    }
    server.unassign(&program).await;
    server.until_state(&program, "Removed").await;
}

/// Runs a command that writes the number of a process to the file `$pid`, and leaves: the process ends with whoever
/// listened to it.
async fn check_ends_with_its_reader(script: &str) {
    let world = World::new();
    let (_agent, mut server) = world.agent().await;
    let program = world.script("exec sleep 60");
    server.assign(&program).await;
    server.until_state(&program, "Running").await;
    let pid_file = world.path().join("pid").display().to_string();
    let script = format!("pid={pid_file}; {script}");
    server.exec("a", &program, start(&["sh", "-c", &script])).await;
    let pid: i64 = read(&pid_file).await.parse().unwrap();
    assert!(exists(pid));
    server.exec_input("a", exec_input::Message::Cancel(true)).await;
    wait_gone(pid).await;
    let end = server.until_exec_ended("a").await.end.unwrap();
    assert_eq!(end.problem, "nobody listens to it any more");
    server.unassign(&program).await;
    server.until_state(&program, "Removed").await;
}

/// What a command left behind when it ended itself, and which still holds its output.
#[tokio::test]
async fn what_a_command_left_running_ends_with_its_reader() {
    check_ends_with_its_reader("sleep 1000 & echo $! > $pid.new; mv $pid.new $pid").await;
}

/// A command that writes more than anybody reads waits; one that nobody wants any more is ended.
#[tokio::test]
async fn a_command_waits_for_its_reader_and_ends_with_it() {
    check_ends_with_its_reader("echo $$ > $pid; sleep 1000 & while :; do echo yes; done").await;
}

#[tokio::test]
async fn what_is_used_is_told_when_asked() {
    let world = World::new();
    let (_agent, mut server) = world.agent().await;
    let busy = world.script("while :; do :; done");
    server.assign(&busy).await;
    server.until_state(&busy, "Running").await;
    let request = LoadRequest { stream: "l".into() };
    server.send(vec![Some(Message::Load(request))]).await;
    server.until_logged("a load", |server| server.loads.contains_key("l")).await;
    let load = server.loads.remove("l").unwrap();
    let usage = &load.instances[&busy.id];
    assert!(0 < usage.cpu_millis && 0 < usage.memory_bytes, "{load:?}");
    assert!(0 < load.node.unwrap().memory_bytes);
    server.unassign(&busy).await;
    server.until_state(&busy, "Removed").await;
}
